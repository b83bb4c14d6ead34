"""Sweeps of a run without a browser: shown, run, cancelled and applied."""

import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.batch.sweeps import folders as sweeps
from stepscope.app.batch.sweeps import tab as sweeping
from stepscope.app.batch.sweeps.tab import RECOMMENDED, SweepForm
from stepscope.app.controls import cancellable
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import Cancellable
from tests.support.data.batches import copies, write_split
from tests.support.data.recorded import record_toy
from tests.support.pages.batch_tab import make_batches, start, wait_for


def points(run: str, metric: str, signals: str | None = None) -> SweepForm:
    return SweepForm(run=run, metric=metric, size=5, signals=signals)


def read_now(download: Iterator[Any]) -> tuple[Path, str]:
    """Return the file that a download yields, with its text, while it is there."""
    path = Path(next(download))
    return path, path.read_text(encoding="utf-8")


def previewed(applied: Updates) -> Any:
    """Return the thresholds of the patch that the player gets."""
    return json.loads(applied.preview.props["patch"])["thresholds"]


@pytest.fixture(scope="module")
def done(demo_manifest: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> BatchContext:
    """Run one video as ``a``."""
    folder = tmp_path_factory.mktemp("swept")
    split = write_split(folder, *copies(demo_manifest, folder, 1))
    batches = make_batches(split, checkpoint=tiny_folder, runs=folder / "runs")
    start(batches)
    wait_for(batches, "a", "done")
    return batches


@pytest.fixture
def one_video(done: BatchContext, tmp_path: Path) -> BatchContext:
    """Return the page of a copy of the run, which no test has swept."""
    shutil.copytree(done.runs, tmp_path / "copied")
    return replace(done, runs=tmp_path / "copied")


def test_a_sweep_is_previewed_and_run_and_its_best_point_is_applied(
    context: AppContext, one_video: BatchContext
) -> None:
    batches = one_video
    shown = sweeping.show_sweep(batches, points("a", RECOMMENDED))
    grid, _, star, run = json.loads(shown.heat)["light"]["data"]
    assert grid["x"] == grid["y"] == [0.05, 0.275, 0.5, 0.725, 0.95]
    assert [len(row) for row in grid["z"]] == [5] * 5
    assert star["customdata"] == [[shown.best.speak_threshold, shown.best.update_threshold]]
    assert run["customdata"] == [[0.0, 0.5]], "the thresholds of the run"
    assert re.match(r"Best: speak [\d.]+, update [\d.]+; Decisions F1 ±1 s [\d.]+", shown.said)
    assert "Preview from the traces of a, 1 video: " in shown.search
    path, text = read_now(sweeps.download_sweep(batches, "sweep.csv", "a", 5))
    assert (path.name, text.count("\n")) == ("a-preview-5-sweep.csv", 26)
    unknown = sweeping.show_sweep(batches, points("a", "num_failures"))  # never another score in its place
    assert "Failures needs exact points: press Run each point" in unknown.said
    assert (unknown.heat, unknown.best, unknown.apply.interactive) == ("", None, False)
    assert ("Failures (needs exact points)", "num_failures") in unknown.metric.choices
    assert shown.metric.choices[0] == ("recommended", RECOMMENDED)
    moments = list(sweeping.run_points(context, batches, Cancellable(), "a", 5, "cpu:2"))
    assert "0 of 25 runs, 0 of 1 video" in moments[0].progress
    assert [(m.start.interactive, m.cancel.interactive) for m in (moments[0], moments[-1])] == [
        (False, True), (True, False)
    ]  # fmt: skip
    exact = sweeping.show_sweep(batches, points("a", RECOMMENDED))
    assert re.match(r"Best: speak [\d.]+, update [\d.]+; Failures \d+\.", exact.said)
    assert exact.metric.choices[0] == shown.metric.choices[0]  # a focused box keeps the label of its choice
    is_at_edge = not {0.05, 0.95}.isdisjoint((exact.best.speak_threshold, exact.best.update_threshold))
    assert ("At the edge of the grid of " in exact.search) == is_at_edge
    assert "Exact: each of 25 points was run, 1 video." in exact.search
    path, text = read_now(sweeps.download_sweep(batches, "sweep.json", "a", 5))
    assert path.name == "a-exact-5-sweep.json"
    failures = {row["num_failures"] for row in json.loads(text)["points"]}
    assert exact.best.value == min(failures)
    assert len(failures) > 1
    applied = sweeping.apply_best(exact.best, exact.said, "a")
    assert (
        applied.form == applied.player == Updates(**dict(zip(("speak", "update"), exact.best.thresholds, strict=True)))
    )
    said = applied.said
    assert previewed(applied) == dict(zip(("speak", "update"), exact.best.thresholds, strict=True))
    assert said.startswith(exact.said)
    assert "Done: speak " in said
    assert said.endswith(" set for the next run here, and in the player.")
    assert sweeping.apply_best(exact.best, said, "a").said == said
    picked: Any = SimpleNamespace(point=[0.275, 0.725])
    applied = sweeping.apply_picked(exact.best, said, "a", picked)
    assert applied.form == applied.player == Updates(speak=0.275, update=0.725)
    elsewhere = applied.said
    assert elsewhere.count("Done: ") == 1
    assert elsewhere.endswith("Done: speak 0.275, update 0.725 set for the next run here, and in the player.")
    apply: Any = partial(sweeping.apply_picked, exact.best, said, "a")
    for point in (None, ["0.5", 0.5], [2, 0.5]):
        assert apply(SimpleNamespace(point=point)) == Updates()
    again = list(sweeping.run_points(context, batches, Cancellable(), "a", 5, "cpu:2"))
    assert "0 of 0 runs, 1 of 1 video" in again[0].progress
    foreign = replace(batches, takes_paths=False, work=replace(batches.work, checkpoint="other"))
    (refused,) = sweeping.run_points(context, foreign, Cancellable(), "a", 5, "auto")
    assert "this page runs its own checkpoint and the bundled ones only" in refused.progress
    assert sweeping.show_sweep(batches, points("nothing", RECOMMENDED)).said.startswith("there is no run 'nothing'")


def test_the_thresholds_of_a_named_signal_are_previewed_and_used_in_the_player(
    context: AppContext, batches: BatchContext
) -> None:
    run = record_toy(batches.runs / "toy").name
    first = sweeping.show_sweep(batches, points(run, RECOMMENDED))
    assert first.signals.choices == [("says <yes>", "yes"), ("informative", "informative"), ("not talk", "not talk")]
    shown = sweeping.show_sweep(batches, points(run, "speaking_event_f1_0s", "informative"))
    assert shown.said.startswith("Best: informative 1.1; Speak decision F1 ±0 s of the rule's decisions 1.00")
    assert (shown.signals.value, shown.signals.visible, shown.apply.value) == ("informative", True, "Use 1.1")
    drawn = json.loads(shown.heat)["light"]
    assert [trace["name"] for trace in drawn["data"]][-2:] == ["best, 1.1", "this run, 1.6"]
    assert drawn["layout"]["title"]["text"] == "Decisions by informative"
    assert drawn["data"][0]["name"] == "Speak decision F1 ±1 s of the rule's decisions"
    along = json.loads(shown.curves)["light"]["layout"]["yaxis"]["title"]["text"]
    assert along == "Speak decision F1 ±0 s of the rule's decisions"
    used = sweeping.apply_best(shown.best, shown.said, run)
    assert previewed(used) == {"used": {"run": "toy", "signals": {"informative": 1.1}}}
    assert used.said.endswith("Done: informative 1.1 set in the player, for the videos of toy.")
    assert used.form == used.player == Updates(), "the sliders are of the model's probabilities"
    point: Any = SimpleNamespace(point=[2.9, None])
    picked = sweeping.apply_picked(shown.best, used.said, run, point)
    assert previewed(picked)["used"]["signals"] == {"informative": 2.9}
    _, text = read_now(sweeps.download_sweep(batches, "sweep.csv", run, 5, "informative"))
    assert text.splitlines()[1].startswith("informative,0.2,,")
    (refused,) = sweeping.run_points(context, batches, Cancellable(), run, 5, "auto")
    assert "toy was recorded from another program" in refused.progress
    assert "is no score of a preview of these signals" in sweeping.show_sweep(batches, points(run, "num_failures")).said


def test_a_sweep_that_was_cancelled_says_nothing_after_it(context: AppContext, one_video: BatchContext) -> None:
    batches = one_video
    live, buttons = cancellable.begin()
    assert "Waiting" in buttons.progress
    assert (
        "Cancelled. " in cancellable.cancel(sweeping.CANCELLED, Cancellable()).progress
    )  # not started: there is nothing to wait for
    moments = sweeping.run_points(context, batches, live, "a", 5, "cpu:1")
    assert "0 of 25 runs" in next(moments).progress
    assert cancellable.halt(live).cancel.interactive is False
    with ThreadPoolExecutor(1) as threads:
        cancelled = threads.submit(cancellable.cancel, sweeping.CANCELLED, live)
        (last,) = moments
        for ended in (last, cancelled.result(timeout=60)):
            assert (ended.start.interactive, ended.cancel.interactive) == (True, False)
            assert "Cancelled. " in ended.progress
