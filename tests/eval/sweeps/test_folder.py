"""Reading sweep folders: a bad sweep or video is named in one sentence, and everything else works."""

import json
import shutil
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.app.core.batch_context import SWEEPS_FOLDER, BatchContext
from stepscope.app.core.job_queue import JobQueue
from stepscope.app.tabs.batch.sweeps import handlers as sweeping
from stepscope.app.tabs.batch.sweeps.folders import download_sweep, unused_folder
from stepscope.app.tabs.batch.sweeps.handlers import RECOMMENDED, SweepView
from stepscope.eval.data.samples import Split
from stepscope.eval.metrics.definitions import NUM_FAILURES
from stepscope.eval.metrics.score import analyze_video
from stepscope.eval.metrics.system import SystemCounts
from stepscope.eval.metrics.values import Values
from stepscope.eval.runs.folder import digest_sample
from stepscope.eval.runs.worker_messages import WorkerConfig
from stepscope.eval.sweeps.best_point import find_best
from stepscope.eval.sweeps.exact import score_sweep
from stepscope.eval.sweeps.folder import SweepFolder, SweptVideo, read_sweep, write_sweep
from stepscope.eval.sweeps.grid import make_grid
from tests.support.data.batches import SCORING
from tests.support.data.damage import change, copy_of, damage, few, refusal_of
from tests.support.data.run_folders import SAMPLES, SETTINGS, outputs, write_run
from tests.support.streams.fakes import count_letters

SPLIT = Split(path=Path("/val.json"), entries=SAMPLES)
GRID = make_grid(5)
FOLDER = "val-0000-5"
FILES = ("sweep.json", "sweep.csv", "a.sweep.json")


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
    """Write a run with traces and its exact sweep, as the page keeps them."""
    write_run(runs / "run")
    write_exact(runs / SWEEPS_FOLDER / FOLDER, SETTINGS)
    return runs


def page_of(runs: Path) -> BatchContext:
    jobs = JobQueue(encode=count_letters, scoring=SCORING)
    return BatchContext(
        jobs=jobs, splits={"val": SPLIT}, runs=runs, work=WorkerConfig(checkpoint="tiny"), takes_paths=True
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of runs that is not changed."""
    return write_runs(tmp_path_factory.mktemp("swept") / "whole")


@pytest.fixture
def runs(whole: Path) -> Path:
    return copy_of(whole, "changed")


def show(runs: Path, metric: str = RECOMMENDED) -> SweepView:
    return sweeping.show_sweep(page_of(runs), "run", metric, 5)


@pytest.mark.parametrize(
    ("speak", "said", "num_tied"),
    [
        (
            0.5,
            "Failures 0. The present thresholds stay: no point is better.",
            13,
        ),
        (
            0.4,
            "Failures 0. The present thresholds stay: no point is better.",
            14,
        ),
        (0.275, "Present: speak 0.275, update 0.5; 2. Better by 2, 95 % interval 2 to 2, paired by video.", 0),
    ],
)
def test_the_best_point_is_compared_with_the_run_on_the_grid_or_off_it(
    runs: Path, speak: float, said: str, num_tied: int
) -> None:
    change(runs / "run" / "run.json", config={"speak_threshold": speak, "update_threshold": 0.5, "seed": 0})
    view = show(runs)
    assert said in view.said
    assert (f"{num_tied} points have this value." in view.search) == bool(num_tied)
    assert view.apply.visible == (not num_tied), "no button where nothing is gained"
    star = next(trace for trace in json.loads(view.heat)["light"]["data"] if trace["name"].startswith("best"))
    assert star["customdata"] == [list(view.best.thresholds)], "the chart marks the point of the sentence"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"points": "x"}, "sweep.json cannot be read: points: "),
        ({"points": [{"speak_threshold": 0.5, "update_threshold": 2, "F1": 1}]}, "sweep.json cannot be read: update "),
        ({"points": [{"speak_threshold": 0.5, "F1": 1}]}, "a point has no update_threshold"),
        ({"points": [{"speak_threshold": 0.5, "update_threshold": 0.5}]}, "different scores, or none"),
        ({"num_videos": -1}, "sweep.json cannot be read: num_videos: "),
        ({"errors": [1]}, "sweep.json cannot be read: errors: "),
        ({"settings": {"config": [["lookahead", 8]]}}, "sweep.json cannot be read: settings.config: "),
        ({"settings": {"speak": "0.5"}}, "sweep.json cannot be read: settings.speak: "),
        ({"settings": 5}, "sweep.json cannot be read: settings: "),
    ],
)
def test_a_bad_sweep_is_named_and_the_preview_is_shown(runs: Path, changes: dict[str, Any], reason: str) -> None:
    path = runs / SWEEPS_FOLDER / FOLDER / "sweep.json"
    settings = json.loads(path.read_text())["settings"]
    if isinstance(changes.get("settings"), dict):
        changes = {"settings": {**settings, **changes["settings"]}}
    change(path, **changes)
    assert reason in refusal_of(lambda: read_sweep(path.parent))
    view = show(runs)
    assert "Preview from the traces of run" in view.search
    assert f"The sweep {FOLDER} is skipped: sweep.json cannot be read: " in view.search
    assert reason.partition("cannot be read: ")[2] in view.search
    assert str(runs) not in view.search
    assert view.heat


def test_a_sweep_without_all_it_should_say_is_refused(runs: Path) -> None:
    path = runs / SWEEPS_FOLDER / FOLDER / "sweep.json"
    content = json.loads(path.read_text())
    del content["num_videos"]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"sweep\.json cannot be read: num_videos is missing; sweep into a new folder"):
        read_sweep(path.parent)


def test_a_bad_sweep_of_another_split_is_not_named(runs: Path) -> None:
    (runs / SWEEPS_FOLDER / "test-0000-5").mkdir()
    (runs / SWEEPS_FOLDER / "test-0000-5" / "sweep.json").write_text("{")
    assert "cannot be read" not in show(runs).search


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
        ({"points": [0]}, "must have 25 entries each"),
        ({"points": [-1] * 25}, r"points\[0\]: "),
        ({"runs": [{}, {}]}, r"runs\[0\] must have num_videos"),
        ({"passes": [2**60] * 25}, r"passes\[0\]: "),
        ({"error": None}, "error: "),
        ({"runs": ["dst", "num_illegal"]}, r"runs\[0\]\.dst must have num_refs"),
    ],
)
def test_a_bad_video_of_a_sweep_is_named_and_the_others_are_scored(
    runs: Path, changes: dict[str, Any], reason: str
) -> None:
    path = runs / SWEEPS_FOLDER / FOLDER / "a.sweep.json"
    if "dst" in changes.get("runs", ()):
        changes = {"runs": without_count(path, *changes["runs"])}
    change(path, **changes)
    scores = score_sweep(runs / SWEEPS_FOLDER / FOLDER, SPLIT, GRID, {})
    assert list(scores.errors) == ["a"]
    assert scores.num_videos == 1
    with pytest.raises(ValueError, match=reason):
        raise ValueError(scores.errors["a"])
    assert scores.errors["a"].endswith("; continue the sweep with --resume")


def without_count(path: Path, group: str, name: str) -> list[dict[str, Any]]:
    """Return the runs of a video's file without a count."""
    runs: list[dict[str, Any]] = json.loads(path.read_text())["runs"]
    for run in runs:
        del run[group][name]
    return runs


@pytest.mark.slow
@settings(few, max_examples=8)
@given(data=st.data())
def test_any_damage_of_a_sweep_is_a_result_or_a_sentence(whole: Path, data: st.DataObject) -> None:
    runs = copy_of(whole, "damaged")
    folder = runs / SWEEPS_FOLDER / FOLDER
    for name in data.draw(st.lists(st.sampled_from(FILES), min_size=1, max_size=2, unique=True)):
        damage(folder / name, data.draw)
    video = SweepFolder(folder).video("a", num_points=len(GRID))
    assert video is None or not video.error or "\n" not in video.error
    scores = score_sweep(folder, SPLIT, GRID, {})
    assert "b" not in scores.errors
    assert all(reason and "\n" not in reason for reason in scores.errors.values())
    for metric in scores.metrics:
        with suppress(ValueError):  # undefined at every point
            find_best(scores, metric)
    for read in (lambda: SweepFolder(folder).content(), lambda: read_sweep(folder)):
        assert "\n" not in refusal_of(read)
    is_read = not refusal_of(lambda: SweepFolder(folder).content())
    look_at_page(runs)
    refused = refusal_of(lambda: resume(folder))
    assert "\n" not in refused
    if is_read and (folder / "sweep.json").exists():
        assert not refused or "holds a sweep with" in refused


def resume(folder: Path) -> None:
    settings = json.loads((folder.parent.parent.parent / "whole" / SWEEPS_FOLDER / FOLDER / "sweep.json").read_text())
    with SweepFolder.open(folder, settings["settings"], resume=True):
        pass


def look_at_page(runs: Path) -> None:
    """Show a run with its damaged sweep, and an intact run, as the page does."""
    shutil.copytree(runs / "run", runs / "other", dirs_exist_ok=True)
    batches = page_of(runs)
    for name, metrics in (("run", (RECOMMENDED, "F1", NUM_FAILURES)), ("other", (RECOMMENDED,))):
        for metric in metrics:
            view, size = sweeping.enter_sweep(batches, name, metric, 5)
            words = f"{view.said} {view.search}"
            assert ("Exact: " in words) != ("Preview from the traces" in words)
            assert "\n" not in words
            assert size == 5
        for table in ("sweep.csv", "sweep.json"):
            assert all(path is not None for path in download_sweep(batches, table, name, 5))
