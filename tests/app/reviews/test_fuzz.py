"""Whatever is sent as an action, and whatever stands in the store, a video stays open to all reviewers."""

import math
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert

from stepscope.app.exports.folder import correct_samples, gather_videos
from stepscope.app.exports.formats import EXPORT_FORMATS, write_export
from stepscope.app.player.review import answer
from stepscope.app.review_store.actions import ActionKind, EventKind, PageState
from stepscope.app.review_store.database import ACTIONS
from stepscope.app.review_store.review import review_agreement, review_disagreements
from stepscope.app.review_store.store import open_store, read_review
from stepscope.app.window.context import ReviewContext
from stepscope.engine.io.files import replace_surrogates
from stepscope.eval.annotations.corrections import CORRECTION_KINDS, VERDICTS, name_turns
from stepscope.eval.data.samples import Split
from stepscope.eval.data.writers import FILE_FORMATS, OPTIONAL_FIELDS, write_samples
from tests.support.reviews import reviewed
from tests.support.streams.fakes import anybody

SAMPLE = replace(
    reviewed.SAMPLE, turns=tuple(replace(turn, text=replace_surrogates(turn.text)) for turn in reviewed.SAMPLE.turns)
)  # as it is read from a file
NAMES = name_turns(SAMPLE.turns)
HALF = "a\ud83d"
NUMBERS = st.one_of(
    st.sampled_from([10**30, -1, 2**31, math.inf, -math.inf, math.nan, 1e308, True, 0, 1.5]), st.floats(), st.integers()
)
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from([HALF, "\0", "\x1b", "=1+1", "x" * 200, ""]))
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
ROLES = st.sampled_from(["update", "user", "assistant"])


def mostly(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a right value more often than any other, so that some actions are kept."""
    return st.one_of(right, right, right, ANYTHING)


TURNS = st.one_of(
    st.sampled_from([asdict(name) for name in NAMES]),
    st.fixed_dictionaries(
        {"role": mostly(ROLES), "time_s": mostly(st.sampled_from([0.0, 2.0])), "text": mostly(TEXTS)},
        optional={"number": mostly(st.just(0))},
    ),
)
EVENTS = st.fixed_dictionaries(
    {
        "kind": mostly(st.sampled_from(get_args(EventKind))),
        "role": mostly(ROLES),
        "time_s": mostly(st.just(1.5)),
        "text": mostly(TEXTS),
    },
    optional={"number": mostly(st.just(0)), "video_id": ANYTHING},
)
CORRECTIONS = st.fixed_dictionaries(
    {"kind": mostly(st.sampled_from(CORRECTION_KINDS)), "turn": mostly(TURNS)},
    optional={"text": mostly(TEXTS), "time_s": mostly(st.sampled_from([0.5, 3.0]))},
)
MOMENTS = st.fixed_dictionaries({}, optional=dict.fromkeys(PageState.__dataclass_fields__, NUMBERS | TEXTS))
ACTIONS_SENT = st.fixed_dictionaries(
    {"action_id": mostly(st.uuids().map(str)), "kind": mostly(st.sampled_from(get_args(ActionKind)))},
    optional={
        "event": mostly(EVENTS),
        "verdict": mostly(st.sampled_from(VERDICTS)),
        "tags": mostly(st.lists(TEXTS, max_size=3)),
        "note": mostly(TEXTS),
        "correction": mostly(CORRECTIONS),
        "moment": mostly(MOMENTS),
        "run": TEXTS,
        "target": TEXTS,
    },
)


@pytest.fixture
def reviews(tmp_path: Path) -> Iterator[ReviewContext]:
    with open_store(tmp_path / "reviews.sqlite") as store:
        yield ReviewContext(store=store, splits={"test": Split(path=tmp_path / "test.json", entries=(SAMPLE,))})


def ask(reviews: ReviewContext, *actions: Any, reviewer: Any = "bob", video_id: Any = "boat") -> dict[str, Any]:
    asked = {"video_id": video_id, "reviewer": reviewer, "is_blind": False, "has_layer": None, "actions": actions}
    reply = answer(reviews, asked, request=anybody())
    sent: dict[str, Any] = orjson.loads(orjson.dumps(reply))  # as Gradio sends it
    return sent


def check_all_works(reviews: ReviewContext) -> None:
    """See the video as another reviewer, measure agreement, and write every export."""
    seen = ask(reviews, reviewer="ann")
    assert "error" not in seen
    assert seen["state"]["layer"] is not None
    review = read_review(reviews.store)
    review_agreement(review), review_disagreements(review)
    videos = gather_videos([SAMPLE], review=review)
    corrected = [found.sample for found in correct_samples([SAMPLE], review=review)]
    with TemporaryDirectory() as folder:
        for form in EXPORT_FORMATS:
            write_export(Path(folder) / form, videos, file_format=form)
        for published in FILE_FORMATS:
            # a published form cannot hold every turn, and says which
            with nullcontext() if published == "manifest" else suppress(ValueError):
                write_samples(
                    Path(folder) / f"split.{published}", corrected, file_format=published, omit=tuple(OPTIONAL_FIELDS)
                )


@given(action=st.one_of(ACTIONS_SENT, ANYTHING))
@example(action={"action_id": "a", "kind": "note", "note": HALF, "event": {**asdict(NAMES[0]), "kind": "reference"}})
@example(action={"action_id": HALF, "kind": HALF, "event": {HALF: HALF}})
@example(action={"action_id": "a", "kind": "correction", "correction": {"kind": "add", "turn": {**asdict(NAMES[0]), "number": 10**30}}})  # fmt: skip # noqa: E501
@example(action={"action_id": "a", "kind": "verdict", "verdict": "correct", "moment": {"playhead_s": math.inf}, "event": {**asdict(NAMES[0]), "kind": "reference"}})  # fmt: skip # noqa: E501
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_as_an_action_is_kept_or_refused_and_disables_nothing(reviews: ReviewContext, action: Any) -> None:
    with reviews.store.engine.begin() as connection:
        connection.execute(delete(ACTIONS))
    reply = ask(reviews, action)
    if isinstance(action, dict) and "action_id" in action:
        assert "error" not in reply
        name = replace_surrogates(str(action["action_id"]))
        kept = [found["action_id"] for found in reply["kept"]]
        assert (name in reply["refused"]) != (name in kept)
        assert all(reply["refused"].values())
    else:
        assert "invalid request" in reply["error"]
    assert len(reviews.store.read()) == len(reply["kept"])
    check_all_works(reviews)


ROW = {
    "at": "2026-01-02T03:04:05+00:00",
    "reviewer": "bob",
    "video_id": "boat",
    "kind": "note",
    "event_key": None,
    "run_digest": "",
    "model_digest": "",
    "playhead_s": None,
}
EVENT = {"video_id": "boat", "kind": "reference", "role": "user", "time_s": 1.0, "text": "Go.", "number": 0}
BODY: dict[str, Any] = {
    "event": EVENT,
    "paired": None,
    "verdict": None,
    "tags": [],
    "note": "fine",
    "correction": None,
    "target": None,
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"playhead_s": math.inf}, "moment.playhead_s must be a number"),
        ({"body": {**BODY, "event": {"kind": "reference"}}}, "missing"),
        ({"body": []}, "list"),
    ],
)
def test_a_row_that_cannot_be_read_is_left_out_with_its_reason(
    reviews: ReviewContext, change: dict[str, Any], reason: str
) -> None:
    with reviews.store.engine.begin() as connection:
        for name, row in (("good", {}), ("bad", change)):
            connection.execute(insert(ACTIONS).values({**ROW, "body": BODY, "action_id": name, **row}))
    stored = reviews.store.scan()
    assert [action.action_id for action in stored.actions] == ["good"]
    assert stored.unreadable[0].startswith("action 2 of the store cannot be read and is skipped: ")
    assert reason in stored.unreadable[0]
    assert ask(reviews)["state"]["left_out"] == list(stored.unreadable)
    check_all_works(reviews)
    assert ask(reviews, {"action_id": "u", "kind": "undo"})["refused"] == {}
