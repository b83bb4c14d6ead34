"""Reading sweep folders: a bad sweep or video is named in one sentence, and everything else works."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.core.batch_context import SWEEPS_FOLDER, unused_folder
from stepscope.eval.data.samples import Split
from stepscope.eval.metrics.score import analyze_video
from stepscope.eval.metrics.system import SystemCounts
from stepscope.eval.metrics.values import Values
from stepscope.eval.runs.folder import digest_sample
from stepscope.eval.sweeps.exact import score_sweep
from stepscope.eval.sweeps.folder import SweepFolder, SweptVideo, read_sweep, write_sweep
from stepscope.eval.sweeps.grid import make_grid
from tests.support.data.batches import SCORING
from tests.support.data.damage import change, copy_of, refusal_of
from tests.support.data.run_folders import SAMPLES, SETTINGS, outputs
from tests.support.streams.fakes import count_letters

SPLIT = Split(path=Path("/val.json"), entries=SAMPLES)
GRID = make_grid(5)
FOLDER = "val-0000-5"


def write_exact(path: Path, settings: dict[str, Any]) -> Path:
    """Write a finished exact sweep of both videos, in which two kinds of runs alternate."""
    wanted = {**settings, **asdict(SCORING), "speak": GRID.speak, "update": GRID.update}
    del wanted["devices"], wanted["live"]
    with SweepFolder.open(path, wanted) as folder:
        for sample in SAMPLES:
            runs = []
            for frames in (outputs(), [replace(output, response=None) for output in outputs()]):
                bare = analyze_video(sample, frames, encode=count_letters).counts
                speaking, updating = (
                    replace(decided, expected_probs=Values.of(), other_probs=Values.of())
                    for decided in (bare.speaking, bare.updating)
                )
                runs.append(replace(bare, speaking=speaking, updating=updating, system=SystemCounts()))
            folder.save_video(
                SweptVideo(
                    video_id=sample.video_id,
                    source=digest_sample(sample),
                    runs=tuple(runs),
                    points=tuple(place % 2 for place in range(len(GRID))),
                    passes=(1,) * len(GRID),
                )
            )
    write_sweep(path, score_sweep(path, SPLIT, GRID, wanted), wanted, warnings={}, num_passes=50)
    return path


def write_runs(runs: Path) -> Path:
    """Write an exact sweep, as the page keeps it."""
    write_exact(runs / SWEEPS_FOLDER / FOLDER, SETTINGS)
    return runs


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of runs that is not changed."""
    return write_runs(tmp_path_factory.mktemp("swept") / "whole")


@pytest.fixture
def runs(whole: Path) -> Path:
    return copy_of(whole, "changed")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"points": [{"speak_threshold": 0.5, "update_threshold": 2, "F1": 1}]}, "sweep.json cannot be read: update "),
        ({"settings": 5}, "sweep.json cannot be read: settings: "),
    ],
)
def test_a_bad_sweep_is_named(runs: Path, changes: dict[str, Any], reason: str) -> None:
    path = runs / SWEEPS_FOLDER / FOLDER / "sweep.json"
    change(path, **changes)
    assert reason in refusal_of(lambda: read_sweep(path.parent))


def test_points_are_run_into_a_new_folder_beside_a_bad_sweep(runs: Path) -> None:
    folder = runs / SWEEPS_FOLDER / FOLDER
    (folder / "sweep.json").write_text("{")
    with pytest.raises(ValueError, match="restore the file"), SweepFolder.open(folder, {}, resume=True):
        pass
    assert unused_folder(folder) == folder.with_name(f"{FOLDER}-2")
    folder.with_name(f"{FOLDER}-2").mkdir()  # nothing was written into it yet
    assert unused_folder(folder) == folder.with_name(f"{FOLDER}-2")
    assert unused_folder(folder.with_name("new")) == folder.with_name("new")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"video_id": "b"}, "is of the video b, not of a"),
        ({"points": [0] * 25, "runs": []}, "its points must be indices of its 0 runs"),
        ({"runs": [{}, {}]}, r"runs\[0\] must have num_videos"),
    ],
)
def test_a_bad_video_of_a_sweep_is_named_and_the_others_are_scored(
    runs: Path, changes: dict[str, Any], reason: str
) -> None:
    path = runs / SWEEPS_FOLDER / FOLDER / "a.sweep.json"
    change(path, **changes)
    scores = score_sweep(runs / SWEEPS_FOLDER / FOLDER, SPLIT, GRID, {})
    assert list(scores.errors) == ["a"]
    assert scores.num_videos == 1
    with pytest.raises(ValueError, match=reason):
        raise ValueError(scores.errors["a"])
    assert scores.errors["a"].endswith("; continue the sweep with --resume")
