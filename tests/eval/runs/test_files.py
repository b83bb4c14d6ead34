"""Readers of run folders: types are checked, invalid files are named, and the rest is still read."""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.batch.runs import charts
from app.batch.runs.results import draw_corpus, read_results, video_table
from app.exports.folder import gather_videos
from app.exports.tabulate import build_tables
from app.review_tab.summary import summarize
from app.reviews.review import fold_actions
from engine.records import FrameOutput, Step
from eval.data.samples import Sample, Split, Turn
from eval.reports.compare_runs import compare_runs
from eval.reports.report import make_report
from eval.reports.scoring import ScoredRun, score_run, write_tables
from eval.runs.folder import RunFolder, VideoRecord, digest_sample, explain_missing, open_run_folder
from eval.sweeps.grid import Grid
from eval.sweeps.preview import preview, read_traces
from tests.support.data.batches import SCORING, no_java
from tests.support.streams.fakes import count_letters

STEPS = (Step(id="S1", name="set down the hull"), Step(id="S2", name="hang the sail"))
SAMPLES = tuple(
    Sample(
        video_id=name,
        video_path=None,
        fps=2.0,
        num_frames=4,
        goal="build the boat",
        steps=STEPS,
        turns=(
            Turn(time_s=0.5, role="update", text="S1->start"),
            Turn(time_s=1.0, role="assistant", text="Hang the sail."),
        ),
        initial_state={},
    )
    for name in ("a", "b")
)
SPLIT = Split(path=Path("val.json"), entries=SAMPLES)
SETTINGS: dict[str, Any] = {
    "split": "/val.json",
    "checkpoint": "tiny",
    "model_digest": "d",
    "heads_digest": None,
    "device": "cpu",
    "devices": ["cpu"],
    "config": {"speak_threshold": 0.5, "seed": 0},
    "live": False,
    "kept_features": False,
    "text_encoder": "letters",
    "dataset": "",
    "zero_cost": "keep",
}


def outputs() -> list[FrameOutput]:
    return [
        FrameOutput(
            frame_index=index,
            time_s=index / 2,
            speak_prob=0.2 * index,
            update_prob=0.1,
            response="Hang it." if index == 2 else None,
            updates=("S1->start",) if index == 1 else (),
            dst_state={"S1": "in_progress" if index else "not_started", "S2": "not_started"},
            cache_tokens=9,
            refreshed=False,
            latency_ms=1.0,
            first_token_ms=2.0 if index == 2 else None,
            legality=("legal",) if index == 1 else (),
        )
        for index in range(4)
    ]


def write_run(path: Path) -> Path:
    """Write a finished and scored run of both videos."""
    with open_run_folder(path, SETTINGS) as folder:
        for sample in SAMPLES:
            record = VideoRecord(
                video_id=sample.video_id, source=digest_sample(sample), num_frames=4, wall_s=0.5, peak_memory_mb=9.0
            )
            folder.save_video(record, outputs())
    write_tables(path, score(path), SETTINGS)
    return path


def score(run: Path) -> ScoredRun:
    few = partial(make_report, num_resamples=2)
    with no_java() as scorer, patch("eval.reports.scoring.make_report", few):
        return score_run(run, SPLIT, SCORING, encode=count_letters, scorer=scorer)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a finished run of two videos with its tables."""
    return write_run(tmp_path / "run")


def change(path: Path, **changes: object) -> None:
    """Change fields of the first line of a JSON file, or of all of it."""
    first, *rest = path.read_text().splitlines(keepends=True) if path.suffix == ".jsonl" else [path.read_text()]
    path.write_text(json.dumps({**json.loads(first), **changes}) + "\n" + "".join(rest))


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        (
            "a.jsonl",
            {"speak_prob": "0.4"},
            r"a\.jsonl, line 1: speak_prob: .*number; got '0\.4'; continue the run",
        ),
        ("a.jsonl", {"speak_prob": 1.5}, "line 1: speak_prob: .*less than or equal to 1; got 1.5"),
        ("a.jsonl", {"response": 5}, "line 1: response: .*valid string; got 5"),
        ("a.jsonl", {"updates": "S1->start"}, "line 1: updates: .*"),
        ("a.jsonl", {"updates": [1]}, r"line 1: updates\[0\]: .*valid string; got 1"),
        ("a.jsonl", {"dst_state": ["S1"]}, "line 1: dst_state: .*"),
        ("a.jsonl", {"dst_state": {"S1": "started", "S2": "completed"}}, "line 1: dst_state must have the steps of"),
        ("a.jsonl", {"dst_state": {"S1": "completed"}}, "line 1: dst_state must have the steps of the split, S1, S2"),
        ("a.jsonl", {"frame_index": 3}, "line 1: frame_index must count from 0; got 3"),
        ("a.jsonl", {"time_s": -1}, "line 1: time_s: .*greater than or equal to 0; got -1"),
        ("a.jsonl", {"latency_ms": 10**400}, "line 1: latency_ms: .*"),
        ("a.record.json", {"peak_memory_mb": "9"}, r"a\.record\.json cannot be read: peak_memory_mb: .*; continue the"),
        ("a.record.json", {"warning": 7}, "warning: .*valid string; got 7"),
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
    for draw in (
        charts.precision_recall,
        charts.reliability,
        charts.leads,
        charts.failures,
        charts.states,
        charts.latency,
    ):
        draw(results.charts)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -1, 2**63])
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["S1", "completed", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
FILES = ("run.json", "a.jsonl", "a.record.json", "metrics.json", "charts.json", "videos.csv")


def mutate(value: Any, draw: Callable[[Any], Any]) -> Any:
    """Return a JSON value with one random part replaced."""
    if isinstance(value, dict) and value and draw(st.integers(0, 9)):
        name = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 9)) == 0:
            return {key: part for key, part in value.items() if key != name}
        return {**value, name: mutate(value[name], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 9)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], mutate(value[place], draw), *value[place + 1 :]]
    return draw(JSON)


def damage(path: Path, draw: Callable[[Any], Any]) -> None:
    """Change a value of a file, or its bytes, or take it away."""
    how = draw(st.sampled_from(["value", "value", "value", "bytes", "cut", "remove", "folder"]))
    content = path.read_bytes()
    if how == "value" and path.suffix != ".csv":
        lines = content.decode().splitlines() if path.suffix == ".jsonl" else [content.decode()]
        place = draw(st.integers(0, len(lines) - 1))
        lines[place] = json.dumps(mutate(json.loads(lines[place]), draw))
        path.write_text("\n".join(lines) + "\n")
    elif how in ("value", "bytes"):
        at = draw(st.integers(0, len(content)))
        path.write_bytes(content[:at] + draw(st.binary(max_size=4)) + content[at + draw(st.integers(0, 3)) :])
    elif how == "cut":
        path.write_bytes(content[: draw(st.integers(0, len(content)))])
    else:
        path.unlink()
        if how == "folder":
            path.mkdir()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that is not changed."""
    return write_run(tmp_path_factory.mktemp("runs") / "whole")


def copy_of(whole: Path, name: str) -> Path:
    copy = whole.parent / name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole, copy)
    return copy


def refusal_of(read: Callable[[], object]) -> str:
    """Return the sentence that something is refused with; nothing when it works."""
    try:
        read()
    except ValueError as error:
        return str(error) or "no reason"
    return ""


few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


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
