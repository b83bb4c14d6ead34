"""The batch tab without a browser: the line of jobs, its run folders, its tables, and the way into the player."""

import json
import math
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from app.batch import compare as comparing
from app.batch import handlers
from app.batch import job_queue as jobs
from app.batch import saved_runs as saved
from app.batch.context import FEATURES_FOLDER, BatchContext
from app.batch.handlers import BatchView, ShownRun
from app.batch.job_queue import Job, JobQueue
from app.batch.results import HEADERS, VIDEO_COLUMNS, draw_corpus, read_results, video_table
from app.batch.selection.handlers import save_slice
from app.batch.sweeps import folders as sweeps
from app.batch.sweeps import handlers as sweeping
from app.batch.sweeps.render import RECOMMENDED
from app.formatting import as_sentence
from app.player.context import AppContext
from app.player.session.live_run import Cancellable
from app.player.views import Buttons, ClipView, RunView, show_run, status_line
from app.videos import read_splits
from eval.data.samples import Split
from eval.metrics.definitions import NUM_FAILURES, find_metric
from eval.runs.folder import RunFolder
from eval.runs.output_folder import lock_folder
from eval.runs.progress import Progress
from tests.support.batches import SCORING, copies, make_worker_config, no_java, write_split
from tests.support.benches import make_context
from tests.support.fakes import count_letters

HOSTILE = "<img src=x onerror=alert(1)> {{1+1}} ${1+1}"


@pytest.fixture
def batches(demo_manifest: Path, tiny_folder: Path, tmp_path: Path) -> BatchContext:
    return serve(write_split(tmp_path, *copies(demo_manifest, tmp_path, 3)), tiny_folder, tmp_path / "runs")


@pytest.fixture(scope="module")
def finished(demo_manifest: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> BatchContext:
    """Run three videos as ``a``, and once more as ``silent``; tests may look at them, and run others."""
    folder = tmp_path_factory.mktemp("finished")
    batches = serve(write_split(folder, *copies(demo_manifest, folder, 3)), tiny_folder, folder / "runs")
    for name, speak in (("a", 0.0), ("silent", 1.0)):
        start(batches, name=name, speak=speak)
        wait_for(batches, name, "done")
    return batches


def serve(split: Path, checkpoint: Path, runs: Path) -> BatchContext:
    return BatchContext(
        jobs=JobQueue(encode=count_letters, scoring=SCORING, make_scorer=no_java),
        splits=read_splits([], [split]),
        runs=runs,
        work=make_worker_config(checkpoint),
        takes_paths=True,
    )


def start(batches: BatchContext, **changes: Any) -> BatchView:
    form = {
        "split": "split",
        "checkpoint": "",
        "speak": 0.0,
        "update": 0.5,
        "devices": "cpu:1",
        "live": False,
        "name": "a",
    }
    return handlers.start(batches, **{**form, **changes}, order="as in the split")


def wait_for(batches: BatchContext, name: str, *states: str) -> Job:
    until = time.monotonic() + 300
    while (job := batches.jobs.find(name)) is None or job.state not in states:
        assert time.monotonic() < until, f"{name} is {job.state if job else 'nowhere'}: {job.problem if job else ''}"
        time.sleep(0.05)
    return job


def test_a_run_is_shown_while_it_goes_on_and_its_tables_are_those_on_disk(
    batches: BatchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = start(batches)
    assert view.shown.name == "a"
    assert wait_for(batches, "a", "done").problem.startswith("text scores are missing: ")
    folder = batches.runs / "a"
    view = handlers.show(batches, "a", "as in the split")
    assert view.status.value.startswith("⚠ a: 3 videos; text scores are missing: ")
    assert [row[0] for row in view.videos] == ["v0", "v1", "v2"]
    assert len(view.videos[0]) == len(HEADERS)
    assert view.videos_csv.interactive
    assert view.traces_csv.interactive
    assert "<summary>run a · split split · model " in view.origin
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert f"<b>{metrics['scores']['F1']:.3f}</b>" in view.corpus
    assert find_metric("F1").definition.split("<")[0] in view.corpus
    assert set(view.precision_recall["head"]) <= {"speak", "update"}
    assert view.failures["failures"].sum() == sum(json.loads((folder / "charts.json").read_text())["failures"].values())
    again = handlers.tick(batches, view.shown, "a", "as in the split")
    assert (again.status.value, again.runs) == (view.status.value, gr.skip())
    monkeypatch.setattr(handlers, "REPEAT_STATUS_S", 0.0)
    same = handlers.tick(batches, view.shown, "a", "as in the split")
    assert all(value == gr.skip() for value in same)


@pytest.mark.slow
def test_the_same_settings_go_on_with_the_run_that_is_there(batches: BatchContext) -> None:
    start(batches, name="")
    (name,) = batches.run_names()
    wait_for(batches, name, "done")
    before = (batches.runs / name / "v1.jsonl").stat().st_mtime_ns
    start(batches, name="")
    wait_for(batches, name, "done")
    assert batches.run_names() == [name]
    assert (batches.runs / name / "v1.jsonl").stat().st_mtime_ns == before
    start(batches, name="", speak=0.9)
    assert len(batches.run_names()) == 2


@pytest.mark.slow
def test_another_threshold_reuses_the_embeddings(batches: BatchContext) -> None:
    start(batches)
    wait_for(batches, "a", "done")
    kept = {path.name: path.stat().st_mtime_ns for path in (batches.runs / FEATURES_FOLDER).iterdir()}
    start(batches, name="b", speak=0.9)
    wait_for(batches, "b", "done")
    assert len(kept) >= 1
    assert {path.name: path.stat().st_mtime_ns for path in (batches.runs / FEATURES_FOLDER).iterdir()} == kept


def endless(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Make every batch last until the event is set, at one frame a second."""
    go_on = threading.Event()

    def run_batch(split: Split, *_: Any, **__: Any) -> Any:
        while not go_on.is_set():
            yield Progress(num_videos=3, num_finished=0, num_frames=72, num_done=12, elapsed_s=12, workers=())
            time.sleep(0.01)

    monkeypatch.setattr(jobs, "run_batch", run_batch)
    return go_on


def test_a_second_run_waits_with_its_place_and_time_and_a_cancelled_one_makes_room(
    batches: BatchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless(monkeypatch)
    start(batches)
    first = wait_for(batches, "a", "running")
    while first.progress is None:
        time.sleep(0.01)
    view = start(batches, name="b")
    assert view.status.value == "b is queued: 1 ahead, about 1:00 until it starts."  # 60 frames at one a second
    view = start(batches, name="c")
    assert view.status.value == "c is queued: 2 ahead, about 1:54 until it starts."  # and 54 of b
    assert batches.run_names() == ["c", "b", "a"]
    swept = sweeping.show_sweep(batches, "a", RECOMMENDED, 5).said
    assert swept == "a is still running; its points are shown when it has finished."
    handlers.cancel(batches, "b", "as in the split")
    handlers.cancel(batches, "a", "as in the split")
    wait_for(batches, "c", "running")
    assert first.state == "cancelled"
    view = handlers.tick(batches, ShownRun(name="a"), "a", "as in the split")
    assert "was cancelled" in view.status.value
    assert view.progress == ""
    handlers.cancel(batches, "c", "as in the split")
    wait_for(batches, "c", "cancelled")


def test_an_answer_that_a_click_has_overtaken_is_put_right(
    batches: BatchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = endless(monkeypatch)
    start(batches)
    wait_for(batches, "a", "running")
    seen = start(batches, name="b").shown
    handlers.cancel(batches, "b", "as in the split")
    late = handlers.tick(batches, seen, "b", "as in the split")  # asked for before a was chosen, comes after it
    assert "b was cancelled" in late.status.value
    assert "value" not in late.runs.constructor_args
    view = handlers.tick(batches, late.shown, "a", "as in the split")
    assert (view.shown.name, view.status.value[:3]) == ("a", "a: ")
    assert handlers.tick(batches, view.shown, "a", "most missed").shown.order == "most missed"
    late = handlers.tick(batches, view.shown, "a", "as in the split")  # comes after the answer to Cancel
    handlers.cancel(batches, "a", "as in the split")
    wait_for(batches, "a", "cancelled")
    go_on.set()
    assert (late.status.value[:3], late.shown) == ("a: ", view.shown)
    assert "was cancelled" in handlers.tick(batches, late.shown, "a", "as in the split").status.value


def test_a_run_under_way_cannot_be_started_twice(batches: BatchContext, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = endless(monkeypatch)
    start(batches)
    view = start(batches)
    assert view.problem.value == "⚠ a is already running or queued; wait for it or cancel it."
    view = start(batches, name="")  # which has no folder yet that could be recognised
    assert view.problem.value == "⚠ a is already running or queued; wait for it or cancel it."
    assert batches.run_names() == ["a"]
    go_on.set()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"split": None}, "no split is chosen"),
        ({"speak": 2}, "the speak threshold must be a number from 0 to 1; got 2"),
        ({"update": None}, "the update threshold must be a number from 0 to 1; got nothing"),
        ({"devices": "cpu:0"}, "cpu:0 must give a number of processes"),
        ({"devices": ""}, "device '' is not available"),
        ({"name": "../x"}, "a run's name may have letters"),
        ({"name": ".x"}, "a run's name may have letters"),
        ({"name": "x" * 81}, "a run's name may have letters"),
        ({"checkpoint": "/nowhere"}, "nowhere"),
    ],
)
def test_a_wrong_entry_is_said_and_nothing_is_started(
    batches: BatchContext, changes: dict[str, Any], words: str
) -> None:
    view = start(batches, **changes)
    assert view.problem.value.startswith("⚠ ")
    assert words in view.problem.value
    assert batches.run_names() == []
    assert not batches.runs.exists()


def test_a_page_for_others_runs_its_own_checkpoint_on_what_it_offers(batches: BatchContext) -> None:
    view = start(replace(batches, takes_paths=False), checkpoint="somebody/else")
    assert view.problem.value == "⚠ this page runs its own checkpoint only."
    for devices in ("ray://10.0.0.1:10001", "cpu:1024"):
        view = start(replace(batches, takes_paths=False), devices=devices)
        assert view.problem.value == "⚠ choose devices from the list: auto, cpu:1, cpu:2, cpu:4, cuda, cuda:0."


def test_a_failed_video_has_its_reason_and_the_line_goes_on(batches: BatchContext, tmp_path: Path) -> None:
    (tmp_path / "v1.mp4").write_bytes(b"noise")
    start(batches)
    wait_for(batches, "a", "done")
    view = handlers.show(batches, "a", "only failed")
    assert view.status.value.startswith("⚠ a: 3 videos, 1 of them failed; ")
    assert [row[0] for row in view.videos] == ["v1"]
    assert str(view.videos[0][-1]).startswith("failed: ")
    assert set(view.videos[0][1:-1]) == {None}  # neither 0 failures nor another score


def test_a_start_under_the_name_of_another_run_is_refused_to_who_pressed_it_and_the_run_stays(
    finished: BatchContext,
) -> None:
    later = replace(finished, jobs=JobQueue(encode=count_letters, scoring=SCORING, make_scorer=no_java))
    before = handlers.show(later, "a", "as in the split")
    view = start(later, speak=0.9)
    assert "a holds a run with another speak_threshold (0.0; now 0.9)" in view.problem.value
    assert view.problem.value.startswith("⚠ ")
    assert view.videos == gr.skip()  # what is shown stays
    assert later.jobs.find("a") is None
    after = handlers.show(later, "a", "as in the split")
    assert (after.status.value, after.videos) == (before.status.value, before.videos)
    assert after.status.value == "a: 3 videos."


def test_a_run_that_another_program_writes_keeps_its_status_in_all_other_windows(finished: BatchContext) -> None:
    later = replace(finished, jobs=JobQueue(encode=count_letters, scoring=SCORING, make_scorer=no_java))
    with lock_folder(later.runs / "a"):
        seen = start(later).shown
        wait_for(later, "a", "refused")
    mine = handlers.tick(later, seen, "a", "as in the split")
    assert "is being written by another program" in mine.status.value
    others = handlers.show(later, "a", "as in the split")
    assert others.status.value == "a: 3 videos."
    assert [row[0] for row in others.videos] == ["v0", "v1", "v2"]
    assert handlers.tick(later, others.shown, "a", "as in the split").status == gr.skip()


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
        ("as in the split", "abcd"),
        ("worst responses", "bdac"),
        ("most redundant", "dabc"),
        ("only failed", ""),
        ("unknown", "abcd"),
    ],
)
def test_the_table_of_videos_is_sorted_and_filtered(order: str, names: str) -> None:
    table = video_table(ROWS, order)
    assert "".join(str(row[0]) for row in table) == names
    assert all(cell is None or not (isinstance(cell, float) and math.isnan(cell)) for row in table for cell in row)


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text("[", encoding="utf-8")
    (tmp_path / "charts.json").write_text("[]", encoding="utf-8")
    results = read_results(tmp_path)
    assert (list(results.rows), dict(results.metrics), dict(results.charts)) == ([], {}, {})
    assert draw_corpus(results.metrics) == ""


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"video_id\nv0\n", b"video_id,error,F1\nv0,,much\n"])
def test_a_run_whose_table_is_damaged_says_so(batches: BatchContext, content: bytes) -> None:
    folder = batches.runs / "old"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}", encoding="utf-8")
    (folder / "metrics.json").write_text('{"scores": {}}', encoding="utf-8")
    (folder / "videos.csv").write_bytes(content)
    view = handlers.show(batches, "old", "worst updates")
    assert view.status.value.startswith("⚠ old: videos.csv cannot be read: ")
    assert view.videos == []


def test_a_table_with_more_or_fewer_columns_is_shown(tmp_path: Path) -> None:
    (tmp_path / "videos.csv").write_text("video_id,error,F1\na,,0.9,more\nb,\nc,,0.2\n", encoding="utf-8")
    rows = read_results(tmp_path).rows
    assert [row[0] for row in video_table(rows, "worst responses")] == ["c", "a", "b"]
    assert [row[0] for row in video_table(rows, "most missed")] == ["a", "b", "c"]


@pytest.fixture(scope="module")
def context(demo_manifest: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> AppContext:
    return make_context(tiny_folder, demo_manifest, tmp_path_factory.mktemp("copies"))


@pytest.mark.slow
def test_two_runs_are_compared_and_each_row_opens_both(context: AppContext, finished: BatchContext) -> None:
    batches = finished
    assert comparing.list_other_runs(batches, "a", "a").choices == [("silent", "silent")]
    view = comparing.compare(context, batches, "a", "silent", "only B", "missing_rate")
    assert view.said.startswith("A is a, B is silent; 3 videos.")
    assert ("Responses missed" in view.scores, "Responses missed" in view.failures) == (True, False)
    assert ("Failures" in view.scores, "Failures: wrong state" in view.failures) == (False, True)
    assert "Times are not compared: silent reused kept embeddings in 3 of 3 videos." in view.scores
    assert view.videos["headers"][:4] == ["Video", "Responses missed, A", "Responses missed, B", "B - A"]
    rows = view.videos["data"]
    assert {row[0] for row in rows} == {"v0", "v1", "v2"}
    assert [row[3] for row in rows] == [pytest.approx(row[2] - row[1], abs=0.0011) for row in rows]
    assert [row[3] for row in rows] == sorted((row[3] for row in rows), reverse=True)  # most missed in B first
    assert rows[0][3] > 0
    fewer = comparing.sort_videos(batches, view.compared, "num_redundant")["data"]
    assert [row[3] for row in fewer] == sorted((row[3] for row in fewer), reverse=True)
    assert all(row[3] <= 0 for row in fewer)  # a silent run has none
    assert {row[2] for row in view.turns} == {"only B"}
    chosen = comparing.choose_turns(batches, view.compared, "both")
    assert chosen == comparing.compare(context, batches, "a", "silent", "both", "F1").turns
    assert (chosen != view.turns, comparing.choose_turns(batches, None, "both")) == (True, [])
    event: Any = SimpleNamespace(row_value=view.turns[0])
    shown = json.loads(saved.open_turn(context, batches, None, view.compared, event)[9])
    assert (shown["run_name"], shown["other"]["run_name"]) == ("silent", "a"), "it is wrong only in B"
    assert shown["open_at"] == view.turns[0][1]
    event = SimpleNamespace(row_value=["v1"])
    of_a, of_b = next(video.scores for video in view.compared.videos if video.video_id == "v1")
    above = ("silent", "a") if of_b[NUM_FAILURES] > of_a[NUM_FAILURES] else ("a", "silent")
    shown = json.loads(saved.open_both(context, batches, None, view.compared, event)[9])
    assert (shown["name"], shown["run_name"], shown["other"]["run_name"]) == ("v1", *above)
    swapped = view.compared._replace(
        a="silent", b="a", videos=[replace(v, scores=v.scores[::-1]) for v in view.compared.videos]
    )
    shown = json.loads(saved.open_both(context, batches, None, swapped, event)[9])
    assert (shown["run_name"], shown["other"]["run_name"]) == above, "the run with more failures is above"
    assert shown["open_at"] is not None
    assert comparing.compare(context, batches, "a", "a", "both", "F1").said.startswith("choose two runs")
    assert "no such run" in comparing.compare(context, batches, "a", "../x", "both", "F1").said


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
    assert re.match(r"Best: speak [\d.]+, update [\d.]+; Decisions F1 ±1 s [\d.]+", shown.said)
    assert "Preview from the traces of a, 1 videos: " in shown.said
    assert "Recommended: a preview has no texts" in shown.said
    path, text = read_now(sweeps.download_sweep(batches, "a", 5, "sweep.csv"))
    assert (path.name, text.count("\n")) == ("a-preview-5-sweep.csv", 26)
    unknown = sweeping.show_sweep(batches, "a", "num_failures", 5)  # never another score in its place
    assert "Failures needs exact points: press Run each point" in unknown.said
    assert (unknown.heat, unknown.best, unknown.apply.interactive) == ("", None, False)
    assert ("Failures (needs exact points)", "num_failures") in unknown.metric.choices
    moments = list(sweeping.run_points(context, batches, Cancellable(), "a", 5, "cpu:2"))
    assert "0 of 25 runs, 0 of 1 videos" in moments[0].progress
    assert [(m.exact.interactive, m.cancel.interactive) for m in (moments[0], moments[-1])] == [
        (False, True), (True, False)
    ]  # fmt: skip
    exact = sweeping.show_sweep(batches, "a", RECOMMENDED, 5)
    assert re.match(r"Best: speak [\d.]+, update [\d.]+; Failures \d+\.", exact.said)
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
    live, *buttons = sweeping.begin_sweep()
    assert "Waiting" in sweeping.SweepButtons(*buttons).progress
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


def test_a_run_whose_name_no_browser_could_write_is_left_out(finished: BatchContext, tmp_path: Path) -> None:
    batches = replace(finished, runs=tmp_path)
    for name in (b"odd\xff", b"plain"):
        folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        folder.mkdir()
        (folder / "run.json").write_text("{}", encoding="utf-8")
    assert [name for name in batches.run_names() if name not in ("a", "silent")] == ["plain"]


def test_half_a_surrogate_pair_in_a_run_folder_does_not_blank_the_tab(finished: BatchContext, tmp_path: Path) -> None:
    batches = replace(finished, runs=tmp_path)
    shutil.copytree(finished.runs / "a", tmp_path / "odd")
    changes: dict[str, dict[str, Any]] = {
        "run.json": {"checkpoint": "odd \ud800", "versions": {"torch": "\udfff"}},
        "metrics.json": {"errors": {"v0": "odd \ud800"}, "remarks": {"v1": "\ud800"}},
    }
    for name, change in changes.items():
        content = json.loads((tmp_path / "odd" / name).read_text(encoding="utf-8"))
        (tmp_path / "odd" / name).write_text(json.dumps({**content, **change}), encoding="utf-8")
    view = handlers.show(batches, "odd", "as in the split")
    assert "odd ?" in view.origin
    for shown in (view.origin, view.status.value, json.dumps(view.videos, ensure_ascii=False), view.corpus):
        shown.encode()
    assert read_results(tmp_path / "odd").metrics["errors"] == {"v0": "odd ?"}
    assert status_line("odd \ud800").value == "odd ?"
    assert as_sentence("odd \ud800") == "odd ?."


def test_what_a_program_leaves_out_is_refused_with_a_sentence(context: AppContext, finished: BatchContext) -> None:
    event: Any = SimpleNamespace(row_value=["v1", 0.5, "only B"])
    for opened in (saved.open_both, saved.open_turn):
        with pytest.warns(UserWarning, match="no runs are compared"):
            assert opened(context, finished, None, None, event)[0] == gr.skip()
    view = handlers.start(finished, "split", None, 0.5, 0.5, "nothing", False, None, "as in the split")
    assert "nothing" in view.problem.value
    assert "choose a run" in save_slice(finished, None, None, None, None)[1]
    (ended,) = sweeping.run_points(context, finished, None, "nothing", 5, "cpu:1")
    assert "choose a run" in ended.progress


def test_a_row_opens_its_video_at_the_worst_moment(context: AppContext, finished: BatchContext) -> None:
    batches = finished
    event: Any = SimpleNamespace(row_value=["v1", 0.5])
    page = saved.open_video(context, batches, None, "a", event)
    clip_view, run_view, buttons = ClipView(*page[:7]), RunView(*page[7:11]), Buttons(*page[11:14])
    shown = json.loads(run_view.player)
    assert clip_view.clip is not None
    assert clip_view.clip.name == "v1"
    assert Path(clip_view.video).read_bytes() == clip_view.clip.path.read_bytes()
    assert clip_view.clip.sample is not None
    outputs = RunFolder(batches.runs / "a").outputs(clip_view.clip.sample)
    assert shown["open_at"] in {outputs[failure["frame"]].time_s for failure in shown["failures"]}
    assert run_view.status.value.endswith("This is its worst moment; press N for the next failure.")
    assert buttons.live.run.outputs == outputs
    assert page[16].selected == "player"
    still = replace(outputs[0], response=None, updates=(), dst_state=dict.fromkeys(outputs[0].dst_state, "not_started"))
    bare = replace(clip_view.clip, sample=replace(buttons.live.run.clip.sample, turns=()))
    silent = replace(buttons.live.run, outputs=[still], clip=bare)
    without = show_run(silent, "v1.", encode=context.encode, open_at="worst")
    assert without.status.value == "v1. It has no failures."
    assert json.loads(without.player)["open_at"] is None
    with pytest.raises(ValueError, match="there is no run"):
        saved.read_saved(context, batches, "../a", "v1")
    with pytest.raises(ValueError, match="has no video"):
        saved.read_saved(context, batches, "a", HOSTILE)
    with pytest.raises(ValueError, match="start the page with --split"):
        saved.read_saved(context, replace(batches, splits={}), "a", "v1")
