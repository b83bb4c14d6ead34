"""Threshold sweeps: a preview counts as ``eval.metrics.decisions`` does, exact points equal runs of their own."""

import csv
import json
import math
import shutil
import time
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.loading import load_model
from engine.model.checkpoint import Checkpoint
from engine.policies import POLICIES, DecisionPolicy
from engine.streamer import Streamer
from eval.__main__ import main
from eval.cli import commands as command_line
from eval.data.loading import read_split
from eval.matching.sentence_encoders import TextEncoder
from eval.metrics.counts import Pool
from eval.metrics.decisions import count_decisions
from eval.metrics.score import VideoCounts, analyze_video, score_counts
from eval.runs.folder import RunFolder, open_run_folder
from eval.runs.worker import WorkerConfig, build_task, embed_sample, run_sample
from eval.sweeps.exact import score_sweep
from eval.sweeps.folder import SweepFolder, read_sweep
from eval.sweeps.grid import SWEEP_METRICS, Grid, GridPoint, GridScores, find_best, parse_axis
from eval.sweeps.preview import PREVIEW_METRICS, HeadTrace, Traces, count_thresholds, preview, read_traces
from tests.support.data.batches import begin_sweep, copies, make_worker_config, sweep, write_split
from tests.support.streams.fakes import count_letters
from tests.support.streams.streams import between

NUM_VIDEOS = 2


@pytest.fixture(scope="module")
def split(demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split")
    return write_split(folder, *copies(demo_manifest, folder, NUM_VIDEOS))


@pytest.fixture(scope="module")
def work(tiny_folder: Path) -> WorkerConfig:
    """Return work with texts of a few tokens: a random model never ends one."""
    work = make_worker_config(tiny_folder)
    return replace(work, config=replace(work.config, max_new_tokens=4, max_update_tokens=4, max_updates_per_frame=2))


@pytest.fixture(scope="module")
def checkpoint(tiny_folder: Path) -> Checkpoint:
    return load_model(tiny_folder, device="cpu")


@pytest.fixture(scope="module")
def run(split: Path, work: WorkerConfig, checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run at thresholds of 0.5."""
    out = tmp_path_factory.mktemp("run") / "run"
    with open_run_folder(out, {"config": {}}) as folder:
        for sample in read_split(split).samples:
            result = run_sample(checkpoint, work, sample, device="cpu", on_frame=ignore_frame)
            folder.save_video(result.record, result.outputs)
    return out


@pytest.fixture(scope="module")
def grid(split: Path, run: Path) -> Grid:
    """Return thresholds that some, but not all, probabilities of the run exceed."""
    outputs = [output for sample in read_split(split).samples for output in RunFolder(run).outputs(sample)]
    speak, update = ([getattr(output, name) for output in outputs] for name in ("speak_prob", "update_prob"))
    return Grid(
        speak=(
            between(speak, 0.4),
            between(speak, 0.1),
            1.0,
        ),  # at 1 there is no response: runs differ in updates alone
        update=tuple(between(update, share) for share in (0.3, 0.1)),
    )


@pytest.fixture(scope="module")
def swept(split: Path, work: WorkerConfig, grid: Grid, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("swept") / "sweep"
    sweep(split, work, grid, out)
    return out


def ignore_frame(_: int) -> None:
    """Hear of a frame."""


def make_scores(matrix: list[list[float]], *, metric: str = "dst_f1", split: str = "val.json") -> GridScores:
    """Return scores with one metric: rows by update threshold, columns by speak threshold, both 0.1, 0.2, ..."""
    grid = Grid(
        speak=tuple((1 + column) / 10 for column in range(len(matrix[0]))),
        update=tuple((1 + row) / 10 for row in range(len(matrix))),
    )
    values = [value for row in matrix for value in row]
    points = tuple(
        GridPoint(speak_threshold=speak, update_threshold=update, scores={metric: value})
        for (speak, update), value in zip(grid.pairs(), values, strict=True)
    )
    return GridScores(split=split, is_exact=True, grid=grid, points=points, num_videos=1, errors={})


def best(matrix: list[list[float]], *, metric: str = "dst_f1") -> tuple[float, float, int, int]:
    point = find_best(make_scores(matrix, metric=metric), metric)
    return point.speak_threshold, point.update_threshold, point.num_tied, point.num_plateau


def test_every_exact_point_scores_as_a_run_of_its_own(
    split: Path, work: WorkerConfig, grid: Grid, swept: Path, checkpoint: Checkpoint
) -> None:
    scores = read_sweep(swept)
    assert (scores.is_exact, scores.num_videos, scores.errors, scores.metrics) == (True, NUM_VIDEOS, {}, SWEEP_METRICS)
    assert scores.grid == grid
    for point in scores.points:
        config = replace(
            work.config, speak_threshold=point.speak_threshold, update_threshold=point.update_threshold
        ).frame_by_frame()
        rows = []
        for sample in read_split(split).samples:
            result = run_sample(checkpoint, replace(work, config=config), sample, device="cpu", on_frame=ignore_frame)
            rows.append(analyze_video(sample, result.outputs, encode=count_letters).counts)
        wanted = score_counts(Pool(rows, VideoCounts).total())
        assert point.scores == pytest.approx({name: wanted[name] for name in SWEEP_METRICS}, nan_ok=True)
    files = [SweepFolder(swept).video(f"v{index}", num_points=len(grid)) for index in range(NUM_VIDEOS)]
    assert [len(video.runs) > len(grid) // 2 for video in files if video] == [True] * NUM_VIDEOS  # the points do differ


def test_shared_prefixes_save_passes(
    split: Path, work: WorkerConfig, grid: Grid, swept: Path, checkpoint: Checkpoint
) -> None:
    sample, alone = read_split(split).samples[0], 0
    frames = embed_sample(checkpoint, work, sample).frames
    for speak, update in grid.pairs():
        config = replace(work.config, fps=sample.fps, speak_threshold=speak, update_threshold=update)
        streamer = Streamer(checkpoint, config)
        list(streamer.run(frames, build_task(sample)))
        alone += streamer.counts.passes
    video = SweepFolder(swept).video(sample.video_id, num_points=len(grid))
    assert video is not None
    assert 0 < sum(video.passes) < alone


def test_tables_hold_every_point(grid: Grid, swept: Path) -> None:
    with (swept / "sweep.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(float(row["speak_threshold"]), float(row["update_threshold"])) for row in rows] == list(grid.pairs())
    assert set(rows[0]) == {"speak_threshold", "update_threshold", *SWEEP_METRICS}
    assert read_sweep(swept).as_matrix("dst_f1")[1][2] == pytest.approx(float(rows[5]["dst_f1"] or "nan"), nan_ok=True)


def test_counts_of_old_without_failures_are_counted_again(grid: Grid, swept: Path, tmp_path: Path) -> None:
    content = json.loads((swept / "v0.sweep.json").read_text(encoding="utf-8"))
    old = [{name: part for name, part in run.items() if name != "failures"} for run in content["runs"]]
    (tmp_path / "v0.sweep.json").write_text(json.dumps({**content, "runs": old}), encoding="utf-8")
    kept, old_one = (SweepFolder(folder).video("v0", num_points=len(grid)) for folder in (swept, tmp_path))
    assert kept is not None
    assert not kept.error
    assert old_one is not None
    assert "must have num_videos" in old_one.error  # else they would be 0 failures at every point


def test_the_walk_goes_from_neighbour_to_neighbour() -> None:
    grid = Grid(speak=(0.1, 0.2), update=(0.3, 0.4, 0.5))
    pairs = list(grid.pairs())
    assert [pairs[place] for place in grid.snake_order()] == [
        (0.1, 0.3), (0.1, 0.4), (0.1, 0.5), (0.2, 0.5), (0.2, 0.4), (0.2, 0.3)
    ]  # fmt: skip


def test_progress_counts_runs_videos_and_passes(split: Path, work: WorkerConfig, tmp_path: Path) -> None:
    moments = sweep(split, work, Grid(speak=(0.4, 0.6), update=(0.5,)), tmp_path / "sweep")
    first, last = moments[0], moments[-1]
    assert (first.num_done, first.num_finished, first.remaining_s) == (0, 0, None)
    assert (last.num_done, last.num_runs, last.num_finished, last.remaining_s) == (4, 4, NUM_VIDEOS, 0)
    assert [moment.num_done for moment in moments] == sorted(moment.num_done for moment in moments)
    assert [moment.passes for moment in moments] == sorted(moment.passes for moment in moments)
    assert {moment.video_id for moment in moments} == {None, "v0", "v1"}


def test_a_closed_sweep_keeps_its_finished_videos_and_goes_on(
    split: Path, work: WorkerConfig, grid: Grid, swept: Path, tmp_path: Path
) -> None:
    out = tmp_path / "sweep"
    with closing(begin_sweep(split, work, grid, out)) as moments:
        next(moment for moment in moments if moment.num_finished == 1)
        next(moments)
    partly = score_sweep(out, read_split(split), grid)
    assert (partly.num_videos, list(partly.errors)) == (1, ["v1"])
    with pytest.raises(ValueError, match="no finished sweep"):
        read_sweep(out)
    with pytest.raises(ValueError, match="holds a sweep already; continue it with --resume"):
        sweep(split, work, grid, out)
    with pytest.raises(ValueError, match="another update"):
        sweep(split, work, replace(grid, update=(0.5,)), out, resume=True)
    first = sweep(split, work, grid, out, resume=True)[0]
    assert (first.num_finished, first.num_runs) == (1, len(grid))
    assert same(out, swept)


def test_a_sweep_that_is_killed_goes_on_and_gives_the_same(
    split: Path, work: WorkerConfig, grid: Grid, swept: Path, tmp_path: Path
) -> None:
    out = tmp_path / "sweep"
    process = get_context("forkserver").Process(target=sweep, args=(split, work, grid, out))
    process.start()
    while not list(out.glob("*.sweep.json")):
        time.sleep(0.005)
    process.kill()
    process.join()
    assert sweep(split, work, grid, out, resume=True)[0].num_finished >= 1
    assert same(out, swept)
    assert not list(out.glob(".*.part"))


def test_a_video_of_an_older_sweep_that_lacks_a_count_is_run_again(
    split: Path, work: WorkerConfig, grid: Grid, swept: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(swept, tmp_path / "sweep")
    path = out / "v0.sweep.json"
    content = json.loads(path.read_text())
    for run in content["runs"]:
        del run["dst"]["num_gens"]
    path.write_text(json.dumps(content))
    assert sweep(split, work, grid, out, resume=True)[0].num_finished == 1
    assert same(out, swept)


def same(out: Path, other: Path) -> bool:
    """Whether two folders hold the same scores."""
    return (out / "sweep.csv").read_text(encoding="utf-8") == (other / "sweep.csv").read_text(encoding="utf-8")


@settings(max_examples=60)
@given(
    probs=st.lists(st.integers(0, 10), min_size=1, max_size=40),
    expected=st.sets(st.integers(0, 39), max_size=12),
    fps=st.sampled_from([0.5, 1.0, 2.0, 3.0]),
    policy=st.sampled_from([POLICIES["heads"], POLICIES["not-talk"]]),
)
def test_the_preview_counts_what_the_decisions_count(
    probs: list[int], expected: set[int], fps: float, policy: DecisionPolicy
) -> None:
    frames = sorted(frame for frame in expected if frame < len(probs))
    trace = HeadTrace(probs=np.array(probs) / 10, expected_frames=np.array(frames, dtype=np.intp), fps=fps)
    thresholds = [number / 10 for number in range(11)]
    for threshold, counts in zip(thresholds, count_thresholds([trace], thresholds, policy=policy), strict=True):
        does = [prob / 10 >= threshold if policy.name == "not-talk" else prob / 10 > threshold for prob in probs]
        wanted = count_decisions([prob / 10 for prob in probs], does, expected_frames=frames, fps=fps)
        for name in ("num_hits", "num_false_alarms", "num_misses", "num_rejections", "num_pairs"):
            assert getattr(counts, name) == getattr(wanted, name)


def test_the_preview_of_a_policy_without_updates_has_none_at_threshold_0() -> None:
    trace = HeadTrace(probs=np.zeros(4), expected_frames=np.array([1], dtype=np.intp), fps=2.0)
    traces = Traces(split="s", policy=POLICIES["not-talk"], speaking=(trace,), updating=(trace,), errors={})
    scores = preview(traces, Grid(speak=(0,), update=(0,))).points[0].scores
    found = {
        name: (scores[f"{name}_num_hits"], scores[f"{name}_num_false_alarms"]) for name in ("speaking", "dst_update")
    }
    assert found == {"speaking": (1, 3), "dst_update": (0, 0)}, "at 0 every frame speaks: equality triggers"


def test_at_the_thresholds_of_the_run_the_preview_scores_as_the_run(split: Path, run: Path) -> None:
    grid = Grid(speak=(0.2, 0.5), update=(0.5, 0.8))
    point = preview(read_traces(run, read_split(split)), grid).points[1]
    assert (point.speak_threshold, point.update_threshold) == (0.5, 0.5)
    samples = read_split(split).samples
    rows = [analyze_video(s, RunFolder(run).outputs(s), encode=count_letters).counts for s in samples]
    wanted = score_counts(Pool(rows, VideoCounts).total())
    assert point.scores == pytest.approx({name: wanted[name] for name in PREVIEW_METRICS}, nan_ok=True)


def test_the_preview_of_a_run_that_lacks_a_video_names_it(split: Path, run: Path, tmp_path: Path) -> None:
    videos = json.loads(split.read_text(encoding="utf-8"))["videos"]
    more = write_split(tmp_path, *videos, {**videos[0], "video_id": "other"}, {"video_id": 5})
    traces = read_traces(run, read_split(more))
    assert list(traces.errors) == ["other", "video number 3"]
    assert preview(traces, Grid(speak=(0.5,), update=(0.5,))).num_videos == NUM_VIDEOS


def test_a_single_best_point_is_the_best() -> None:
    assert best([[0.1, 0.9, 0.3], [0.4, 0.5, math.nan]]) == (0.2, 0.1, 1, 1)


def test_of_a_plateau_the_point_nearest_its_middle_is_taken() -> None:
    assert best([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]) == (0.2, 0.2, 9, 9)
    # an L of three cells, columns 1 1 2 and rows 1 2 2: the middle (4/3, 5/3) lies nearest its corner
    assert best([[1.0, 0.0], [1.0, 1.0]]) == (0.1, 0.2, 3, 3)


def test_of_two_plateaus_the_largest_is_taken() -> None:
    assert best([[1.0, 0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]]) == (0.4, 0.1, 4, 3)
    assert best([[1.0, 0.0], [0.0, 1.0]]) == (0.1, 0.1, 2, 1)  # corners do not touch: the first


def test_the_registry_says_which_way_is_better() -> None:
    matrix = [[0.2, 0.4, -0.3, 1.1]]
    assert best(matrix) == (0.4, 0.1, 1, 1)  # higher
    assert best(matrix, metric="dst_abs_delay_s") == (0.3, 0.1, 1, 1)  # lower
    assert best([[3.0, 1.0, 2.0]], metric="num_failures") == (0.2, 0.1, 1, 1)
    assert str(find_best(make_scores([[3.0, 1.0]], metric="num_failures"), "num_failures")) == (
        "num_failures 1 at speak 0.2, update 0.1"
    )
    assert best(matrix, metric="dst_delay_s") == (0.1, 0.1, 1, 1)  # near 0
    assert best(matrix, metric="speaking_talk_ratio") == (0.4, 0.1, 1, 1)  # near 1
    with pytest.raises(ValueError, match="dst_num_predictions has no better or worse values"):
        best(matrix, metric="dst_num_predictions")
    with pytest.raises(ValueError, match="undefined at every point"):
        best([[math.nan, math.nan]])


def test_a_best_point_says_what_it_is_and_that_others_tie() -> None:
    point = find_best(make_scores([[0.5, 0.5, 0.5]]), "dst_f1")
    assert str(point) == "dst_f1 0.500 at speak 0.2, update 0.1 (nearest the middle of a plateau of 3; 3 points tie)"
    assert str(find_best(make_scores([[0.5]]), "dst_f1")) == "dst_f1 0.500 at speak 0.1, update 0.1"
    assert point.split == "val.json"


def test_a_test_split_is_warned_of() -> None:
    assert make_scores([[1.0]]).warning == ""
    assert "looks like a test split" in make_scores([[1.0]], split="demo/test.json").warning


def test_thresholds_are_read_as_a_range_or_a_list() -> None:
    assert parse_axis("0.1:0.9:9") == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    assert parse_axis("0.5,0.25,0.5") == (0.25, 0.5)
    assert parse_axis("0.3:0.3:4") == (0.3,)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--speak", "0.1:0.9:0"], "the grid has no speak threshold"),
        (["--update", "0.5:1.5:3"], "update thresholds must be within [0, 1]; got 1.5"),
        (["--update", "nan"], "update thresholds must be within [0, 1]; got nan"),
        (["--speak", "0.1:0.9"], "such as 0.1:0.9:9"),
        (["--speak", "0:1:200", "--update", "0:1:200"], "the grid has 40000 points"),
        (
            ["--metric", "update_event_f1"],
            "a sweep has no score update_event_f1; choose one such as dst_update_event_f1",
        ),
        (["--metric", "dst_num_predictions"], "dst_num_predictions has no better or worse values"),
        (["--metric", "dst_f1", "--preview", "nowhere"], "a preview has no score dst_f1"),
        (["--preview", "nowhere"], "nowhere holds no run"),
        ([], "--out is missing"),
    ],
)
def test_wrong_use_is_one_line(
    split: Path, capfd: pytest.CaptureFixture[str], options: list[str], complaint: str
) -> None:
    assert main(["sweep", str(split), *options]) == 2
    message = capfd.readouterr().err
    assert message.count("\n") == 1
    assert complaint in message


def test_the_command_sweeps_and_names_the_best(
    split: Path,
    tiny_folder: Path,
    run: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command_line, "load_encoder", lambda name: TextEncoder(name=name, encode=count_letters))
    videos = json.loads(split.read_text(encoding="utf-8"))["videos"]
    here = [{**video, "video_path": str(split.parent / video["video_path"])} for video in videos[:1]]
    lost = {**videos[0], "video_id": "lost", "video_path": "lost.mp4"}
    partly = write_split(tmp_path, *here, lost)
    options = ["sweep", str(partly), "--checkpoint", str(tiny_folder), "--device", "cpu:1", "--out"]
    options += [str(tmp_path / "out"), "--speak", "0.4,0.6", "--update", "0.5", "--metric", "speaking_talk_ratio"]
    assert main(options) == 1
    printed = capfd.readouterr()
    assert "2 points, exact; 1 of 2 videos" in printed.out
    assert f"best {find_best(read_sweep(tmp_path / 'out'), 'speaking_talk_ratio')}" in printed.out
    assert "failed: lost: " in printed.err
    assert main([*options[:7], str(run)]) == 2
    assert "is not empty and holds no sweep; name a new folder" in capfd.readouterr().err


def test_the_command_previews(split: Path, run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ["sweep", str(split), "--preview", str(run), "--out", str(tmp_path / "out")]
    assert main([*options, "--metric", "speaking_talk_ratio", "dst_update_talk_ratio"]) == 0
    printed = capfd.readouterr().out
    assert f"81 points, preview from the traces of {run}; 2 of 2 videos" in printed
    assert printed.count("best ") == 2
    scores = read_sweep(tmp_path / "out")
    assert (scores.is_exact, scores.metrics, len(scores.points)) == (False, PREVIEW_METRICS, 81)
    assert main(options) == 2
    assert "holds a sweep already; continue it with --resume" in capfd.readouterr().err
    assert main([*options, "--resume"]) == 0
