"""Exact points equal runs of their own, and a sweep resumes after any interruption."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.eval.__main__ import main
from stepscope.eval.cli import sweep_command as command_line
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.turns import TextEncoder
from stepscope.eval.metrics.counts import Pool
from stepscope.eval.metrics.score import VideoCounts, analyze_video, score_counts
from stepscope.eval.runs.worker_messages import WorkerConfig
from stepscope.eval.sweeps.best_point import explain_best, find_best, find_present
from stepscope.eval.sweeps.exact import score_sweep
from stepscope.eval.sweeps.folder import SweepFolder, read_sweep
from stepscope.eval.sweeps.grid import SWEEP_METRICS, Grid, make_grid
from stepscope.eval.sweeps.preview import PREVIEW_METRICS
from tests.support.data.batches import begin_sweep, make_worker_config, sweep, write_split
from tests.support.streams.batches import run_sample
from tests.support.streams.fakes import count_letters

NUM_VIDEOS = 2


def test_every_exact_point_scores_as_a_run_of_its_own(
    split: Path, work: WorkerConfig, grid: Grid, swept: Path, checkpoint: Checkpoint
) -> None:
    scores = read_sweep(swept)
    assert (scores.is_exact, scores.num_videos, scores.errors, scores.metrics) == (True, NUM_VIDEOS, {}, SWEEP_METRICS)
    assert scores.grid == grid
    for (speak, update), point in zip(grid.pairs(), scores.points, strict=True):
        config = replace(work.config, speak_threshold=speak, update_threshold=update).frame_by_frame()
        rows = []
        for sample in read_split(split).samples:
            result = run_sample(checkpoint, replace(work, config=config), sample)
            rows.append(analyze_video(sample, result.outputs, encode=count_letters).counts)
        wanted = score_counts(Pool(rows, VideoCounts).total())
        assert point == pytest.approx({name: wanted[name] for name in SWEEP_METRICS}, nan_ok=True)
    files = [SweepFolder(swept).video(f"v{index}", num_points=len(grid)) for index in range(NUM_VIDEOS)]
    assert [len(video.runs) > len(grid) // 2 for video in files if video] == [True] * NUM_VIDEOS  # the points do differ


def test_a_closed_sweep_keeps_its_finished_videos_and_goes_on(
    split: Path, work: WorkerConfig, grid: Grid, swept: Path, tmp_path: Path
) -> None:
    out = tmp_path / "sweep"
    with closing(begin_sweep(split, replace(work, batch_size=1), grid, out)) as moments:
        next(moment for moment in moments if moment.num_finished == 1)
        next(moments)
    partly = score_sweep(out, read_split(split), grid, SweepFolder(out).settings() or {})
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


def same(out: Path, other: Path) -> bool:
    """Whether two folders hold the same scores."""
    return (out / "sweep.csv").read_text(encoding="utf-8") == (other / "sweep.csv").read_text(encoding="utf-8")


def test_a_sweep_of_a_silent_token_varies_the_one_threshold_that_it_has(split: Path, tmp_path: Path) -> None:
    config = replace(make_worker_config(Path("x")).config, decision_policy="streaming-eos", max_new_tokens=4)
    work = WorkerConfig(checkpoint="bundled-silent-token", config=config)
    with pytest.raises(ValueError, match="decides by streaming-eos is over the speak threshold alone"):
        sweep(split, work, make_grid(5), tmp_path / "refused")
    grid = replace(make_grid(5, config.policy), speak=(0.05, 0.5))
    sweep(split, work, grid, tmp_path / "swept")
    scores = read_sweep(tmp_path / "swept")
    assert scores.grid == grid
    assert len(scores.points) == 2
    assert find_best(scores, "num_failures").place.startswith("theta ")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--update", "0.5:1.5:3"], "update thresholds must be within [0, 1]; got 1.5"),
        (["--speak", "0:1:200", "--update", "0:1:200"], "the grid has 40000 points"),
        (["--metric", "dst_num_predictions"], "dst_num_predictions has no better or worse values"),
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
    monkeypatch.setattr(command_line, "import_encoder", lambda name: TextEncoder(name=name, encode=count_letters))
    videos = json.loads(split.read_text(encoding="utf-8"))["videos"]
    here = [{**video, "video_path": str(split.parent / video["video_path"])} for video in videos[:1]]
    lost = {**videos[0], "video_id": "lost", "video_path": "lost.mp4"}
    partly = write_split(tmp_path, *here, lost)
    options = ["sweep", str(partly), "--checkpoint", str(tiny_folder), "--device", "cpu:1", "--out"]
    options += [str(tmp_path / "out"), "--speak", "0.4,0.5", "--update", "0.5", "--metric", "speaking_talk_ratio"]
    assert main(options) == 1
    printed = capfd.readouterr()
    assert "2 points, exact; 1 of 2 videos" in printed.out
    scores = read_sweep(tmp_path / "out")
    best = find_best(scores, "speaking_talk_ratio", present=find_present(scores, (0.5, 0.5)))
    assert f"best {best}. {explain_best(best)}" in printed.out
    assert "The present thresholds stay: no point is better." in printed.out
    assert "failed: lost: " in printed.err
    assert main([*options[:7], str(run)]) == 2
    assert "is not empty and holds no sweep; name a new folder" in capfd.readouterr().err


def test_the_command_previews(split: Path, run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ["sweep", str(split), "--preview", str(run), "--out", str(tmp_path / "out")]
    assert main([*options, "--metric", "speaking_talk_ratio", "dst_update_talk_ratio"]) == 0
    printed = capfd.readouterr().out
    assert f"81 points, preview from the traces of {run}; 2 of 2 videos" in printed
    assert printed.count("best ") == 2
    assert printed.count("present thresholds stay") + printed.count("Present: speak 0.5, update 0.5; ") == 2
    scores = read_sweep(tmp_path / "out")
    assert (scores.is_exact, scores.metrics, len(scores.points)) == (False, PREVIEW_METRICS, 81)
    assert main(options) == 2
    assert "holds a sweep already; continue it with --resume" in capfd.readouterr().err
    assert main([*options, "--resume"]) == 0
