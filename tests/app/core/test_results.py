"""The table of the videos of a run."""

import gc
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.core.results import (
    NOT_MEASURED,
    VIDEO_COLUMNS,
    VideoFilter,
    choose_rows,
    draw_corpus,
    score_groups,
    video_scores,
)
from stepscope.app.core.run import PAGE_SCORING, analyze_run, write_run_file
from stepscope.app.core.saved import read_saved_run
from stepscope.app.core.videos import sample_clip
from stepscope.app.player import reruns
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, RecordingCache, Window
from stepscope.app.window.payload import pack_run
from stepscope.engine.config import Thresholds
from stepscope.eval.cli.finished_runs import score
from stepscope.eval.cli.options import RescoreOptions
from stepscope.eval.data.loading import read_split
from stepscope.eval.recorder import RunRecorder, Turn
from stepscope.eval.runs.folder import RunFolder
from tests.support.data.batches import no_java
from tests.support.pages.benches import run_through
from tests.support.servers.served import ModelServer, serve_chat
from tests.support.streams.fakes import count_letters

ROWS: list[dict[str, str | float]] = [
    {
        "video_id": name,
        "error": "",
        "warning": "",
        **dict.fromkeys(VIDEO_COLUMNS, 0.5),
        "F1": f1,
        "redundant_rate": rate,
    }
    for name, f1, rate in (("a", 0.9, 0.1), ("b", 0.2, 0.0), ("c", math.nan, math.nan), ("d", 0.4, 0.8))
]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("", "abcd"),
        ("F1", "bdac"),
        ("-redundant_rate", "dabc"),
        ("error", "cabd"),
    ],
)
def test_videos_are_sorted_by_a_score_and_undefined_ones_are_last(order: str, names: str) -> None:
    rows = [{**row, "error": "damaged" if row["video_id"] == "c" else ""} for row in ROWS]
    sorted_rows = choose_rows(rows, VideoFilter(order))
    assert "".join(str(row["video_id"]) for row in sorted_rows) == names
    assert [row["video_id"] for row in sorted_rows if None in video_scores(row)] == ["c"]


def test_undefined_scores_are_last_and_a_group_of_them_is_a_note() -> None:
    scores = {"F1": None, "missing_rate": 0.5, "span_coverage": None, "num_frames": 8.0, "live_fluency": None}
    groups = score_groups({"scores": scores, "intervals": {}})
    assert [(group.name, [row.score for row in group.rows], group.note) for group in groups] == [
        ("Turn-taking", ["0.500", "undefined"], ""),
        ("System", ["8"], ""),
        ("Reply spans", [], "undefined: Spans covered"),
        ("Teacher-forced", [], NOT_MEASURED),
    ]
    drawn = draw_corpus({"scores": scores})
    assert (drawn.count("<details"), drawn.count(" open>"), drawn.count('scope="col"')) == (4, 2, 2 * 3)


SPAN = Turn(time_s=1.0, role="assistant", text="Now.", end_s=3.0)
SPOKEN = {1: "Early.", 2: "Zzzz!", 4: "Now.", 5: "Now."}
"""Before the span; and inside it, by cosine wrong, then partly right with both replies; then an exact repeat."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("stepscope.eval.cli.finished_runs.TextScorer", no_java)
    with RunRecorder(tmp_path / "run", model="m") as run, run.video("v", fps=2, turns=[SPAN]) as video:
        for index in range(8):
            video.frame(index / 2, response=SPOKEN.get(index))
    return tmp_path / "run"


def packed(run: Path) -> dict[str, Any]:
    folder = RunFolder(run)
    (sample,) = read_split(folder.split_path()).samples
    clip = sample_clip(sample, run / "v.mp4", is_bundled=False)
    found = read_saved_run(folder, clip, settings=folder.settings() or {}, scoring=PAGE_SCORING, encoder={})
    analysis = analyze_run(found, count_letters)
    assert analysis is not None
    data: dict[str, Any] = json.loads(pack_run(found, analysis.judged))
    return data


def grades(data: dict[str, Any]) -> dict[int, int]:
    return {turn["frame"]: turn["grade"] for turn in data["turns"] if "grade" in turn}


def test_a_served_judge_shows_its_kept_answers_and_is_not_asked_again(run: Path) -> None:
    with serve_chat(ModelServer(answers=["2", "3"])) as server:
        assert score(RescoreOptions(run=run, judge=server.url, judge_model="m")) == 0
        asked = len(server.requests)
    data = packed(run)  # the server is gone
    assert data["judge"] == f"m at {server.url}"
    assert grades(data) == {2: 1, 4: 2}
    assert asked == 2
    (run / "judgements.json").write_text("{}")
    data = packed(run)
    assert (data["judge"], grades(data)) == ("cosine bands 0.5/0.8", {2: 0, 4: 1}), "named where no answer is kept"


def ran(context: AppContext) -> LiveRun:
    return run_through(context, context.bundled_videos.clips[0])


def exact(context: AppContext, live: LiveRun) -> list[tuple[Any, ...]]:
    live.requested = Thresholds(speak=0.2, update=0.3)
    list(reruns.rerun(context, Window(live=live)))
    assert live.run is not None
    return [(output.response, output.updates, dict(output.dst_state)) for output in live.run.outputs]


def test_the_least_recently_used_recordings_are_given_up_and_results_stay_the_same(context: AppContext) -> None:
    large = replace(context, recordings=RecordingCache())
    one = ran(large)
    size = large.recordings.num_bytes
    exact(large, one)
    budget = large.recordings.num_bytes + size + size // 2
    small = replace(context, recordings=RecordingCache(budget))
    first, second = ran(small), ran(small)
    exact(small, first)  # used last
    third = ran(small)
    assert [live.recording is not None for live in (first, second, third)] == [True, False, True]
    assert small.recordings.num_bytes <= budget
    assert exact(small, second) == exact(small, first) == exact(small, third)


def test_a_window_that_is_gone_or_closed_keeps_nothing(context: AppContext) -> None:
    own = replace(context, recordings=RecordingCache())
    live = ran(own)
    size = own.recordings.num_bytes
    other = ran(own)
    assert own.recordings.num_bytes == 2 * size
    del other
    gc.collect()
    assert own.recordings.num_bytes == size
    own.recordings.release(live)
    assert (own.recordings.num_bytes, live.recording) == (0, None)


@pytest.mark.parametrize("known", [{}, {"speak_threshold": 0.25}])
def test_a_setting_that_a_recorded_run_does_not_name_is_unknown_and_not_its_default(
    run: Path, tmp_path: Path, known: dict[str, float]
) -> None:
    folder = RunFolder(run)
    (sample,) = read_split(folder.split_path()).samples
    settings = {**(folder.settings() or {}), **({"config": known} if known else {})}
    clip = sample_clip(sample, run / "v.mp4", is_bundled=False)
    found = read_saved_run(folder, clip, settings=settings, scoring=PAGE_SCORING, encoder={})
    assert found.provenance.config == known
    assert json.loads(pack_run(found))["thresholds"] == {name.split("_")[0]: value for name, value in known.items()}
    shown = " ".join(f"{label} {text}" for label, text in found.provenance.rows()) + found.provenance.summary
    assert not [word for word in ("decision_policy", "max_new_tokens", "update", "0.5") if word in shown]
    assert ("speak 0.25" in found.provenance.summary) == bool(known)
    path = write_run_file(tmp_path, found, "provenance.json")
    assert json.loads(path.read_text(encoding="utf-8"))["config"] == known
