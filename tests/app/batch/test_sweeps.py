"""Sweeps of a run without a browser: shown, run, cancelled and applied."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.batch.context import BatchContext
from app.batch.sweeps import folders as sweeps
from app.batch.sweeps import handlers as sweeping
from app.batch.sweeps.render import RECOMMENDED
from app.player.context import AppContext
from app.player.session.live_run import Cancellable
from app.videos import read_splits
from tests.support.data.batches import copies, write_split
from tests.support.pages.batch_tab import start, wait_for


def read_now(download: Iterator[Any]) -> tuple[Path, str]:
    """Return the file that a download yields, with its text, while it is there."""
    path = Path(next(download))
    return path, path.read_text(encoding="utf-8")


def one_video(batches: BatchContext, demo_manifest: Path, tmp_path: Path) -> BatchContext:
    """Run one video as ``a``."""
    write_split(tmp_path, *copies(demo_manifest, tmp_path, 1))
    batches = replace(batches, splits=read_splits([], [tmp_path / "split.json"]))
    start(batches)
    wait_for(batches, "a", "done")
    return batches


def test_a_sweep_is_previewed_and_run_and_its_best_point_is_applied(
    context: AppContext, batches: BatchContext, demo_manifest: Path, tmp_path: Path
) -> None:
    batches = one_video(batches, demo_manifest, tmp_path)
    shown = sweeping.show_sweep(batches, "a", RECOMMENDED, 5)
    assert shown.heat.count('class="cell') == 25
    assert shown.heat.count("cell best") == 1
    assert re.findall(r'"axis">(.*?)<', shown.heat) == [
        *["0.95", "0.725", "0.5", "0.275", "0.05"],
        *["0.05", "0.275", "0.5", "0.725", "0.95"],
    ]
    assert re.match(r"Best: speak [\d.]+, update [\d.]+; Decisions F1 ±1 s [\d.]+", shown.said)
    assert "Preview from the traces of a, 1 videos: " in shown.said
    assert "Recommended: a preview has no texts" in shown.said
    path, text = read_now(sweeps.download_sweep(batches, "a", 5, "sweep.csv"))
    assert (path.name, text.count("\n")) == ("a-preview-5-sweep.csv", 26)
    unknown = sweeping.show_sweep(batches, "a", "num_failures", 5)  # never another score in its place
    assert "Failures needs exact points: press Run each point" in unknown.said
    assert (unknown.heat, unknown.best, unknown.apply.interactive) == ("", None, False)
    assert ("Failures (needs exact points)", "num_failures") in unknown.metric.choices
    assert shown.metric.choices[0] == ("recommended", RECOMMENDED)
    moments = list(sweeping.run_points(context, batches, Cancellable(), "a", 5, "cpu:2"))
    assert "0 of 25 runs, 0 of 1 videos" in moments[0].progress
    assert [(m.exact.interactive, m.cancel.interactive) for m in (moments[0], moments[-1])] == [
        (False, True), (True, False)
    ]  # fmt: skip
    exact = sweeping.show_sweep(batches, "a", RECOMMENDED, 5)
    assert re.match(r"Best: speak [\d.]+, update [\d.]+; Failures \d+\.", exact.said)
    assert exact.metric.choices[0] == shown.metric.choices[0]  # a focused box keeps the label of its choice
    is_at_edge = not {0.05, 0.95}.isdisjoint((exact.best.speak_threshold, exact.best.update_threshold))
    assert ("At the edge of the grid of " in exact.said) == is_at_edge
    assert (
        "Exact: each of 25 points was run, 1 videos. Recommended: it counts all failures that N steps through"
        in exact.said
    )
    path, text = read_now(sweeps.download_sweep(batches, "a", 5, "sweep.json"))
    assert path.name == "a-exact-5-sweep.json"
    failures = {row["num_failures"] for row in json.loads(text)["points"]}
    assert exact.best.value == min(failures)
    assert len(failures) > 1
    *used, said = sweeping.apply_best(exact.best, exact.said)
    assert tuple(used) == (exact.best.speak_threshold, exact.best.update_threshold) * 2
    assert said.startswith(exact.said)
    assert "In use: the next run here and the player have speak" in said
    assert sweeping.apply_best(exact.best, said)[-1] == said
    again = list(sweeping.run_points(context, batches, Cancellable(), "a", 5, "cpu:2"))
    assert "0 of 0 runs, 1 of 1 videos" in again[0].progress
    foreign = replace(batches, takes_paths=False, work=replace(batches.work, checkpoint="other"))
    (refused,) = sweeping.run_points(context, foreign, Cancellable(), "a", 5, "auto")
    assert "this page runs its own checkpoint only" in refused.progress
    assert sweeping.show_sweep(batches, "nothing", RECOMMENDED, 5).said.startswith("choose a run")


def test_a_sweep_that_was_cancelled_says_nothing_after_it(
    context: AppContext, batches: BatchContext, demo_manifest: Path, tmp_path: Path
) -> None:
    batches = one_video(batches, demo_manifest, tmp_path)
    live, buttons = sweeping.begin_sweep()
    assert "Waiting" in buttons.progress
    assert "Cancelled. " in sweeping.cancel_sweep(Cancellable()).progress  # not started: there is nothing to wait for
    moments = sweeping.run_points(context, batches, live, "a", 5, "cpu:1")
    assert "0 of 25 runs" in next(moments).progress
    assert sweeping.halt_sweep(live).cancel.interactive is False
    with ThreadPoolExecutor(1) as threads:
        cancelled = threads.submit(sweeping.cancel_sweep, live)
        (last,) = moments
        for ended in (last, cancelled.result(timeout=60)):
            assert (ended.exact.interactive, ended.cancel.interactive) == (True, False)
            assert "Cancelled. " in ended.progress


@pytest.mark.slow
def test_another_score_or_another_run_of_the_model_stays_with_the_points_that_were_run(
    context: AppContext, batches: BatchContext, demo_manifest: Path, tmp_path: Path
) -> None:
    batches = one_video(batches, demo_manifest, tmp_path)
    list(sweeping.run_points(context, batches, Cancellable(), "a", 5, "cpu:1"))
    for metric in ("F1", "dst_f1", "dst_joint_goal_accuracy", "failures_missed_update", "speaking_event_f1_1s"):
        view = sweeping.show_sweep(batches, "a", metric, 5)
        assert "Exact: each of 25 points was run" in view.said, metric
        assert ("Updating F1 ±1 s", "dst_update_event_f1_1s") in view.metric.choices
    assert sweeping.enter_sweep(batches, "a", RECOMMENDED, 9)[-1] == 5  # whose points were run
    other = sweeping.show_sweep(batches, "a", "speaking_event_f1_1s", 9)
    assert "Preview from the traces of a" in other.said
    assert "Exact points are available for 5 thresholds per axis." in other.said
    start(batches, name="b", speak=0.9)  # another threshold, the same sweep
    wait_for(batches, "b", "done")
    assert "Exact: " in sweeping.show_sweep(batches, "b", "F1", 5).said
    settings = json.loads((batches.runs / "b" / "run.json").read_text(encoding="utf-8"))
    (batches.runs / "b" / "run.json").write_text(json.dumps({**settings, "dataset": "wtag"}), encoding="utf-8")
    assert "Preview " in sweeping.show_sweep(batches, "b", "dst_update_event_f1_1s", 5).said
