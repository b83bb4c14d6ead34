"""Moments of a run, and the search among them."""

import re
from pathlib import Path

import pandas as pd
import pytest

from stepscope.engine.config import StreamConfig
from stepscope.engine.dialogue import initial_state
from stepscope.engine.records import FrameOutput, unknown_output
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.moments import VideoMoment, list_moments
from stepscope.eval.metrics.score import analyze_video
from stepscope.eval.reports.mistakes import tell_mistakes
from stepscope.eval.reports.search import describe_hits, search, search_folders
from tests.support.data.strategies import BOAT
from tests.support.streams.fakes import count_letters

BUNDLED = Path(__file__).parents[3] / "assets" / "demo" / "run"


def outputs(speak: dict[int, float], said: dict[int, str], sample: Sample = BOAT) -> list[FrameOutput]:
    """Return outputs of ``sample`` with some probabilities and messages, by frame."""
    state = initial_state(sample.steps)
    silent = [unknown_output(index, fps=sample.fps, dst_state=state) for index in range(sample.num_frames)]
    return [
        FrameOutput(**{**{name: getattr(one, name) for name in FrameOutput.__dataclass_fields__},
                       "speak_prob": speak.get(one.frame_index, 0.0), "update_prob": 0.0, "latency_ms": 7.0,
                       "response": said.get(one.frame_index)})
        for one in silent
    ]  # fmt: skip


def moments(speak: dict[int, float], said: dict[int, str], threshold: float = 0.5) -> list[VideoMoment]:
    found = outputs(speak, said)
    judged = analyze_video(BOAT, found, encode=count_letters).judged
    config = StreamConfig(fps=BOAT.fps, speak_threshold=threshold)
    return list(list_moments(BOAT, found, judged, config=config, mistakes=tell_mistakes(judged, BOAT, found)))


def test_a_message_a_missed_turn_and_the_turns_of_the_user_are_moments() -> None:
    found = moments({0: 0.9, 5: 0.3}, {0: "Set down the hull."})
    said = [(m.time_s, m.what, m.failure, m.text, m.reference) for m in found if m.what != "state"]
    assert said == [
        (0.0, "message", "", "Set down the hull.", "Set down the hull."),
        (1.0, "user", "", "What now?", ""),
        (2.5, "message", "missed", "", "Done."),
        (2.5, "user", "", "Done?", ""),
    ]
    assert [round(m.margin, 6) for m in found if m.what == "message"] == [0.4, -0.2]
    assert {m.mistake for m in found if m.failure == "missed"} == {"0:02.5 The assistant did not say “Done.”"}
    assert {bool(m.mistake) for m in found if not m.failure} == {False}


@pytest.mark.parametrize(
    ("speak", "peaks"),
    [
        ({4: 0.42, 5: 0.45, 6: 0.41}, [(2.5, -0.05)]),  # one stretch, its peak
        ({4: 0.42, 6: 0.49}, [(2.0, -0.08), (3.0, -0.01)]),
        ({4: 0.45, 5: 0.7}, []),  # it leads to a trigger
        ({4: 0.39}, []),  # further away than 0.1
    ],
)
def test_a_near_miss_is_the_peak_of_a_stretch_below_the_threshold(
    speak: dict[int, float], peaks: list[tuple[float, float]]
) -> None:
    found = [m for m in moments(speak, {}) if m.what == "near message"]
    assert [(m.time_s, round(m.margin, 6)) for m in found] == peaks


def table(*rows: VideoMoment) -> pd.DataFrame:
    found = pd.DataFrame([{name: getattr(row, name) for name in VideoMoment.__dataclass_fields__} for row in rows])
    found["words"] = (found["text"] + "\n" + found["reference"]).str.casefold()
    return found.astype(dict.fromkeys(("video_id", "what", "failure", "step", "cause"), "category"))


ROWS = table(
    VideoMoment(video_id="a", time_s=1.0, what="message", text="Put on the WHEEL.", step="S1 S2", latency_ms=90.0),
    VideoMoment(video_id="a", time_s=2.0, what="message", failure="missed", reference="Put the bun back.",
                cause="decoy"),
    VideoMoment(video_id="b", time_s=3.0, what="update", failure="wrong update", text="S12->start", step="S12",
                delay_s=2.5),
    VideoMoment(video_id="b", time_s=4.0, what="near message", probability=0.46, margin=-0.04),
    VideoMoment(video_id="b", time_s=5.0, what="update", failure="missed update", reference="S13->start",
                cause="decoys"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("query", "times"),
    [
        ("put -wheel", [2]),
        ('put "AND"', []),
        ("failure:any", [2, 3, 5]),
        ("failure:missed cause:decoy", [2]),
        ("step:S1", [1]),
        ("is:near near:0.05", [4]),
        ("video:B time>=4", [4, 5]),
        ("verdict:correct", [2]),
    ],
)
def test_all_terms_must_match(query: str, times: list[float]) -> None:
    marks = {("a", 2000, "Put the bun back."): frozenset({"verdict: correct"})}
    marks[("a", 1000, "Put on the WHEEL.")] = frozenset({"cause: glare"})
    assert list(search(ROWS, query, marks=marks)["time_s"]) == times


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("speed:3", "no field 'speed:'"),
        (
            "failure:nosuch",
            "failure has no value 'nosuch'; values are missed, redundant, .*, repeats itself, any, root, ",
        ),
        ("wheel failure:", "^failure: needs a value$"),
        ("time>", "^time> needs a value$"),
        *((sign, f"^{sign} is no word; write one") for sign in ('"', '""', "-")),
        ("failure:missed OR", "^OR is read as a word"),
        ("mount AND NOT", "^AND is read as a word"),
    ],
)
def test_a_term_that_cannot_be_read_is_named(query: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        search(ROWS, query)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("cause:any", r"^0 moments in .*: cause has no value 'any' in these moments; values are drop, "),
        (
            "wheel step:S99",
            r"^0 moments in .*: step has no value 'S99' in these moments; values are S1, .* and \d+ more$",
        ),
        (
            'video:"z z"',
            r"^0 moments in .*: video has no value 'z z' in these moments; values are .* and 12 more$",
        ),
        ("class:nosuch", r"^0 moments in .*: class has no value 'nosuch' in these moments; values are "),
    ],
)
def test_a_value_that_no_moment_has_is_named_if_nothing_is_found(query: str, words: str) -> None:
    assert re.match(words, describe_hits(search_folders({"bundled": BUNDLED}, query)))
    assert len(search_folders({"bundled": BUNDLED}, "failure:any -cause:nosuch")) > 0


def test_the_bundled_run_is_searched_and_agrees_with_its_scores() -> None:
    found = search_folders({"bundled": BUNDLED}, "failure:missed is:message")
    split = {sample.video_id: sample for sample in read_split(BUNDLED.parent / "test.json").samples}
    assert len(found) == 6, "failures_missed of its metrics.json"
    for row in found.itertuples():
        assert row.reference in [turn.text for turn in split[str(row.video_id)].turns]
