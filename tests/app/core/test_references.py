"""References that a user adds to an upload, in one window."""

import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.core.places import RecentSessions
from stepscope.app.core.references import add_reference, check_outputs, digest_reference
from stepscope.app.core.videos import Clip
from stepscope.app.player import handlers
from stepscope.app.player.review import Answer, answer
from stepscope.app.player.uploads import check_reference
from stepscope.app.player.views import PlayerView
from stepscope.app.review_store.actions import Action, Event
from stepscope.app.review_store.store import open_store, read_review
from stepscope.app.reviews.query import UNSPLIT, ReviewQuery, gather_query_videos, summarize_query
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.records import Step
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample, Split, Turn
from stepscope.eval.data.writers import write_samples
from tests.support.data.records import make_output
from tests.support.pages.benches import make_context, open_upload, run_views
from tests.support.streams.fakes import anybody

Take = Callable[[Clip | None, Path | None], PlayerView]


@pytest.fixture(scope="module")
def context(tiny_folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> AppContext:
    return make_context(tiny_folder, demo_manifest, tmp_path_factory.mktemp("copies"))


@pytest.fixture
def clip(context: AppContext, demo_manifest: Path, tmp_path: Path) -> Clip:
    """Upload a video of 6 s as ``mine.mp4``."""
    path = Path(shutil.copy(demo_manifest.parent / "truck-1.mp4", tmp_path / "mine.mp4"))
    clip = open_upload(context, path).clip
    assert isinstance(clip, Clip)
    return clip


@pytest.fixture
def sample(demo_manifest: Path) -> Sample:
    return replace(read_samples(demo_manifest)[0], video_path=None)


@pytest.fixture
def take(context: AppContext) -> Take:
    return lambda clip, path: handlers.set_reference(context, Window(clip=clip), str(path) if path else None)


@pytest.mark.parametrize("form", ["manifest", "proassist"])
def test_an_upload_is_scored_against_a_reference_in_any_form(
    take: Take, context: AppContext, clip: Clip, sample: Sample, tmp_path: Path, form: Any
) -> None:
    turns = tuple(replace(turn, time_s=int(turn.time_s * 2) / 2) for turn in sample.turns)
    own = replace(sample, turns=turns, fps=4.0, num_frames=24)
    write_samples(tmp_path / "own.json", [own], file_format=form, omit=["updates"] if form == "proassist" else [])
    view = take(clip, tmp_path / "own.json")
    num_turns = sum(turn.role != "update" for turn in turns) if form == "proassist" else len(turns)
    assert view.status.value == f"mine.mp4, 0:06, with {num_turns} reference turns of own.json. Press Run."
    assert (view.goal, view.steps.splitlines()[0]) == (own.goal, "S1: attach the wheel")
    assert view.run.interactive
    taken = view.clip
    assert taken is not None
    assert (taken.fps, taken.num_frames, taken.path) == (4.0, 24, clip.path)
    boxes = {"goal": view.goal, "steps": view.steps, "user_turns": view.user_turns}
    last = list(run_views(context, taken, LiveRun(), **boxes))[-1]
    assert last.status.value.startswith("Done: 24 frames")
    assert "Response F1" in last.scores
    view = take(taken, None)
    assert (view.clip.sample, view.status.value) == (None, "mine.mp4, 0:06, without a reference.")


def test_of_several_records_the_one_of_the_upload_is_taken_and_its_video_is_not_looked_at(
    take: Take, clip: Clip, sample: Sample, tmp_path: Path
) -> None:
    others = [replace(sample, video_id=name, goal=f"build {name}") for name in ("a", "mine")]
    named = replace(sample, video_id="b", goal="by file", video_path=Path("/etc/mine.mp4"))
    write_samples(tmp_path / "own.json", others, file_format="manifest")
    taken = take(clip, tmp_path / "own.json")
    assert taken.goal == "build mine"
    write_samples(tmp_path / "own.json", [others[0], named], file_format="manifest")
    taken = take(clip, tmp_path / "own.json")
    assert taken.goal == "by file"
    assert taken.clip is not None
    assert taken.clip.path == clip.path
    assert taken.clip.sample is not None
    assert (taken.clip.sample.video_id, taken.clip.sample.video_path) == (clip.video_id, None)


def test_the_reference_of_an_upload_is_corrected_and_another_one_lists_what_does_not_fit(
    take: Take, context: AppContext, clip: Clip, sample: Sample, tmp_path: Path
) -> None:
    def ask(shown: Clip | None, *actions: dict[str, Any]) -> Answer:
        """Send the review request of a window that shows an upload."""
        assert shown is not None
        reference = digest_reference(shown)
        requested = {"video_id": shown.video_id, "reviewer": "ann", "is_blind": False, "has_layer": None}
        return answer(reviews, {**requested, "reference": reference, "actions": actions}, request=anybody())

    name = name_turns(sample.turns)[0]
    given = Correction(reviewer="ann", kind="text", turn=name, text="Begin.")
    action = {
        "action_id": "a",
        "kind": "correction",
        "correction": {"kind": "text", "turn": asdict(name), "text": "Begin."},
    }
    write_samples(tmp_path / "own.json", [sample], file_format="manifest")
    with open_store(tmp_path / "reviews.sqlite") as store:
        reviews = ReviewContext(store=store, splits={}, recent=context.recent)
        assert ask(clip, action)["refused"] == {"a": "this video has no reference to correct"}
        taken = take(clip, tmp_path / "own.json").clip
        reply = ask(taken, action)
        assert (reply["kept"][0]["action_id"], reply["refused"]) == ("a", {})
        assert reply["state"]["layer"]["turns"][0]["text"] == "Begin."
        assert [found.correction for found in store.read()] == [given]

        write_samples(tmp_path / "own.json", [replace(sample, turns=sample.turns[1:])], file_format="manifest")
        other = take(taken, tmp_path / "own.json").clip
        (listed,) = ask(other)["state"]["layer"]["unusable"]
        assert listed.startswith(f"ann: the reference has no assistant turn {name.text!r}")
        assert ask(taken)["state"]["layer"]["unusable"] == [], "a window with the first reference goes on"
        bare = take(taken, None).clip
        assert ask(bare)["state"]["layer"] is None

        assert taken is not None
        review = read_review(store)
        assert reviews.list_unsplit(review) == (taken.video_id,), "a correction alone lists an upload"
        assert reviews.sample(taken.video_id) == (other and other.sample), "the last one that was given"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"videos": []}', "has 0 videos, and none is called mine.mp4"),
        ("[" * 100_000, "own.json cannot be read as JSON"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_a_sentence_and_changes_nothing(
    take: Take, clip: Clip, tmp_path: Path, content: str, words: str
) -> None:
    (tmp_path / "own.json").write_text(content, encoding="latin-1")
    view = take(clip, tmp_path / "own.json")
    assert view.status.value.startswith("⚠ ")
    assert words in view.status.value
    assert str(tmp_path) not in view.status.value
    assert list(vars(view)) == ["status"], "nothing else changes"


def test_a_reference_without_an_upload_says_where_it_belongs(context: AppContext, tmp_path: Path) -> None:
    for clip in (None, context.bundled_videos.clips[0]):
        assert "upload a video first" in check_reference(Window(clip=clip), str(tmp_path / "own.json")).problem.value


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"turns": [Turn(time_s=1.0, role="assistant", text="x")] * 20_001},
            "20001 messages and updates; at most 20000",
        ),
        ({"turns": [Turn(time_s=1.0, role="assistant", text="x" * 49_000)] * 90}, "characters; at most 4194304"),
        (
            {
                "steps": [Step(id=f"S{number}", name="a") for number in range(1500)],
                "turns": [Turn(time_s=1.0, role="update", text="S1->start")] * 1500,
            },
            "2250000 states of steps",
        ),
    ],
)
def test_a_reference_that_is_too_long_to_score_is_refused(
    take: Take, clip: Clip, sample: Sample, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    listed: Any = {name: tuple(value) for name, value in changes.items()}
    own = replace(sample, initial_state={}, **listed)
    write_samples(tmp_path / "own.json", [own], file_format="manifest")
    with pytest.raises(ValueError, match=words):
        add_reference(clip, tmp_path / "own.json")
    with pytest.raises(ValueError, match="the outputs have 20001 messages and updates"):
        check_outputs([replace(make_output(0), updates=("x",) * 20_001)])


def test_a_visitor_sees_the_uploads_that_they_brought_opened_or_signed_for(
    clip: Clip, demo_manifest: Path, tmp_path: Path
) -> None:
    visitor = ["window 1"]
    recent = RecentSessions(lambda: visitor[0])
    recent.keep_clip(clip)
    splits = {"test": Split(path=demo_manifest, entries=tuple(read_samples(demo_manifest)))}
    with open_store(tmp_path / "reviews.sqlite") as store:
        reviews = ReviewContext(store=store, splits=splits, recent=recent)
        event = Event(video_id=clip.video_id, kind="generated", role="assistant", time_s=1.0, text="x")
        store.append(Action(kind="verdict", reviewer="ann", video_id=clip.video_id, event=event, verdict="correct"))

        def listed(user: str | None = None) -> tuple[str, ...]:
            return reviews.list_unsplit(read_review(store), user=user)

        assert listed() == (clip.video_id,)
        visitor[0] = "window 2"
        assert (listed(), listed("bob"), listed("ann")) == ((), (), (clip.video_id,))
        query = ReviewQuery(split=UNSPLIT, run=None, typed="ann", is_blind=False, request=anybody())
        assert summarize_query(reviews, query, read_review(store)).events == {}, "a typed name is no identity"
        assert gather_query_videos(None, reviews, query, read_review(store), ()) == ()  # type: ignore[arg-type]
        assert recent.find_clip(clip.video_id) == clip, "whoever has the link"
        assert listed() == (clip.video_id,)
        visitor[0] = ""
        assert RecentSessions().is_listed("any"), "on a page of one person"
