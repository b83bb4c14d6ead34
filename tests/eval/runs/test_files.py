"""Readers of run folders: types are checked, invalid files are named, and the rest is still read."""

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.app.core.results import draw_corpus, video_table
from stepscope.app.exports.folder import gather_videos
from stepscope.app.exports.rows import build_tables
from stepscope.app.figures.charts.registry import CHARTS
from stepscope.app.reviews.review import fold_actions
from stepscope.app.tabs.reviews.summary import summarize
from stepscope.app.web.component import pack_chart
from stepscope.eval.reports.compare_runs import compare_runs
from stepscope.eval.reports.scoring import write_tables
from stepscope.eval.reports.table_files import read_results
from stepscope.eval.runs.folder import RunFolder, explain_missing
from stepscope.eval.sweeps.grid import Grid
from stepscope.eval.sweeps.preview import preview, read_traces
from tests.support.data.batches import SCORING
from tests.support.data.damage import change, copy_of, damage, few, refusal_of
from tests.support.data.run_folders import SAMPLES, SPLIT, score, write_run
from tests.support.streams.fakes import count_letters


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a finished run of two videos with its tables."""
    return write_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("a.jsonl", {"speak_prob": "0.4"}, r"a\.jsonl, line 1: speak_prob: .*number; got '0\.4'; continue the run"),
        ("a.jsonl", {"speak_prob": 1.5}, "line 1: speak_prob: .*less than or equal to 1; got 1.5"),
        ("a.jsonl", {"updates": [1]}, r"line 1: updates\[0\]: .*valid string; got 1"),
        ("a.jsonl", {"dst_state": {"S1": "started", "S2": "completed"}}, "line 1: dst_state must have the steps of"),
        ("a.jsonl", {"dst_state": {"S1": "completed"}}, "line 1: dst_state must have the steps of the split, S1, S2"),
        ("a.jsonl", {"frame_index": 3}, "line 1: frame_index must count from 0; got 3"),
        ("a.jsonl", {"latency_ms": 10**400}, "line 1: latency_ms: .*"),
        ("a.record.json", {"peak_memory_mb": "9"}, r"a\.record\.json cannot be read: peak_memory_mb: .*; continue the"),
        ("a.record.json", {"live": {"sums": [1.0], "num_defined": [1.0]}}, r"live\.sums: .*at least 5 items"),
        ("a.record.json", {"video_id": "b"}, "is of the video b, not of a"),
    ],
)
def test_a_wrong_value_fails_its_video_alone_and_a_resumed_run_makes_it_again(
    run: Path, name: str, changes: dict[str, object], reason: str
) -> None:
    change(run / name, **changes)
    scored = score(run)
    assert list(scored.errors) == ["a"]
    assert re.search(reason, scored.errors["a"])
    assert scored.report.num_videos == 1
    folder = RunFolder(run)
    assert folder.find_finished(SAMPLES[0]) is None
    assert folder.find_finished(SAMPLES[1]) is not None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"config": ["0.5"]}, "config: .*object"),
        ({"config": {"speak_threshold": "0.5"}}, "config.speak_threshold must be a number; got '0.5'"),
        ({"devices": "cpu"}, "devices: .*valid array; got 'cpu'"),
        ({"split": 5}, "split: .*valid string; got 5"),
        ({"zero_cost": "lose"}, "zero_cost: .*'keep' or 'drop'"),
    ],
)
def test_a_wrong_setting_refuses_the_run_by_name(run: Path, changes: dict[str, object], reason: str) -> None:
    change(run / "run.json", **changes)
    with pytest.raises(ValueError, match=rf"run\.json cannot be read: {reason}.*; restore the file, or run into a new"):
        score(run)


def test_settings_of_other_versions_are_read(run: Path) -> None:
    content = {"split": "/val.json", "config": {"of_tomorrow": {"deep": 1}}, "tokenizer_digest": "x", "seen": None}
    (run / "run.json").write_text(json.dumps(content))
    assert RunFolder(run).settings() == content


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("charts.json", {"precision_recall": 5}, "charts.json cannot be read: precision_recall"),
        ("charts.json", {"leads_s": {"speak": [{"lead_s": "1", "num_events": 1}]}}, r"leads_s\.speak\[0\]\.lead_s"),
        ("charts.json", [], "charts.json cannot be read: the record"),
        ("metrics.json", {"scores": {"F1": "high"}}, r"metrics.json cannot be read: scores\.F1"),
        ("metrics.json", {"intervals": {"F1": [0, 1]}}, r"metrics.json cannot be read: intervals\.F1"),
        ("metrics.json", {"errors": 3}, "metrics.json cannot be read: errors"),
    ],
)
def test_a_bad_table_is_named_and_the_others_are_shown(run: Path, name: str, content: Any, reason: str) -> None:
    if isinstance(content, dict):
        change(run / name, **content)
    else:
        (run / name).write_text(json.dumps(content))
    results = read_results(run)
    assert len(results.rows) == 2
    (problem,) = results.problems
    assert re.search(reason, problem)
    draw_all(run)


@pytest.mark.parametrize("name", ["a.jsonl", "a.record.json", "run.json", "videos.csv", "metrics.json", "charts.json"])
def test_a_pipe_or_a_device_in_place_of_a_file_is_not_read(run: Path, name: str) -> None:
    (run / name).unlink()
    (run / name).symlink_to("/dev/null")  # /dev/zero and a pipe have no end, should they be read
    said = [
        *read_results(run).problems,
        refusal_of(lambda: RunFolder(run).settings()),
        refusal_of(lambda: RunFolder(run).outputs(SAMPLES[0])),
        getattr(RunFolder(run).record("a"), "error", ""),
    ]
    (problem,) = filter(None, said)
    assert f"{name} cannot be read: it is a pipe or a device, not a file" in problem


def test_a_comparison_leaves_out_a_video_that_cannot_be_read(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(run, other)
    change(other / "a.jsonl", response=5)
    compared = compare_runs(run, other, SPLIT, SCORING, encode=count_letters, num_resamples=10)
    assert [video.video_id for video in compared.videos] == ["b"]
    assert "line 1: response" in compared.left_out["a"]


def test_reviews_and_exports_name_a_video_that_cannot_be_read_and_have_the_others(run: Path) -> None:
    change(run / "a.jsonl", updates=None)
    review = fold_actions([])
    assert list(summarize(SAMPLES, review, run=RunFolder(run)).problems) == ["a"]
    videos = gather_videos(SAMPLES, review=review, run=RunFolder(run))
    assert [bool(video.problem) for video in videos] == [True, False]
    assert {row.video_id for row in build_tables(videos).predictions} == {"b"}


def test_half_a_surrogate_pair_is_read_as_it_was_and_kinds_are_checked_beside_it(run: Path) -> None:
    change(run / "a.jsonl", response="\ud83d and \\ud83d")
    assert RunFolder(run).outputs(SAMPLES[0])[0].response == "\ud83d and \\ud83d"
    change(run / "a.jsonl", cache_tokens="9")
    with pytest.raises(ValueError, match=r"cache_tokens: .*valid integer; got '9'"):
        RunFolder(run).outputs(SAMPLES[0])


def draw_all(run: Path) -> None:
    """Read a run folder as the page does."""
    results = read_results(run)
    video_table(results.rows, "worst responses")
    draw_corpus(results.metrics)
    for chart in CHARTS.values():
        pack_chart(partial(chart.draw, results), revision="")


FILES = ("run.json", "a.jsonl", "a.record.json", "metrics.json", "charts.json", "videos.csv")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that is not changed."""
    return write_run(tmp_path_factory.mktemp("runs") / "whole")


@pytest.mark.slow
@few
@given(data=st.data())
def test_any_damage_is_a_result_or_a_sentence(whole: Path, data: st.DataObject) -> None:
    run, folder = copy_of(whole, "damaged"), RunFolder(whole.parent / "damaged")
    for name in data.draw(st.lists(st.sampled_from(FILES), min_size=1, max_size=2, unique=True)):
        damage(run / name, data.draw)
    draw_all(run)
    gather_videos(SAMPLES, review=fold_actions([]), run=folder)
    for read in (
        lambda: folder.settings(),
        lambda: compare_runs(whole, run, SPLIT, SCORING, encode=count_letters, num_resamples=3),
        lambda: preview(read_traces(run, SPLIT), Grid(speak=(0.3, 0.5), update=(0.5,))),
    ):
        assert "\n" not in refusal_of(read)
    if refusal := refusal_of(lambda: score(run)):
        assert "run.json cannot be read" in refusal
        return
    scored = score(run)
    assert "b" not in scored.errors
    assert all(reason and "\n" not in reason for reason in scored.errors.values())
    write_tables(run.parent / "scored", scored, {})
    for sample in SAMPLES:  # a video is kept only if it has scores
        if folder.find_finished(sample) is not None:
            assert sample.video_id not in scored.errors
            assert not explain_missing(sample, folder.record(sample.video_id))
