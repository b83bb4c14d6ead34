"""The shown run of the batch tab without a browser: its status, its place in the queue, its tables."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.batch.runs import handlers
from stepscope.app.batch.runs.files import offer_files
from stepscope.app.batch.runs.handlers import ShownRun
from stepscope.app.batch.sweeps import tab as sweeping
from stepscope.app.batch.sweeps.tab import RECOMMENDED, SweepForm
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.results import VIDEO_COLUMNS
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.runs.output_folder import lock_folder
from stepscope.eval.runs.worker_messages import Progress, VideoStatus, WorkerStatus, WorkerUsage
from tests.support.pages.batch_tab import endless, make_jobs, select, shown_videos, start, status_of, wait_for


def test_the_tables_of_a_finished_run_are_those_on_disk(finished: BatchContext) -> None:
    assert wait_for(finished, "a", "done").problem.startswith("text scores are missing: ")
    folder = finished.runs / "a"
    view = handlers.show(finished, select("a"))
    assert re.match(r"⚠ Done: a, 3 videos, \d+ failures, \d+ s; text scores are missing: ", status_of(view))
    assert [video["id"] for video in shown_videos(view)] == ["v0", "v1", "v2"]
    about = {run["name"]: run["about"] for run in json.loads(view.rows.value)["runs"]}
    assert about["a"].endswith(" · speak 0, update 0.5")
    assert {len(video["scores"]) for video in shown_videos(view)} == {len(VIDEO_COLUMNS)}
    offered = offer_files(finished, select("a"), ())
    assert offered.videos_csv.interactive
    assert {"videos.csv", "traces.csv"} <= set(offered.files.value)
    assert offered.export.value == f"Export {len(offered.files.value)} files of a as a zip"
    assert offer_files(finished, select("a"), ["traces.csv"]).export.value == "Export a-traces.csv"
    assert "<summary>how this run was made</summary><table>\n<tr><th>run</th><td>a</td></tr>" in view.origin
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert f"<b>{metrics['scores']['F1']:.3f}</b>" in view.corpus
    assert find_metric("F1").definition.split("<")[0] in view.corpus
    same = tick(finished, view)
    assert same == Updates()


def test_a_running_run_shows_its_queue_and_the_cost_of_each_worker(
    batches: BatchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = WorkerUsage(tokens_per_s=1234.4, cache_tokens=4000, cache_mb=30.0, memory_mb=800.0, device_mb=80 * 1024.0)
    video = VideoStatus(video_id="v1", num_frames=20, num_done=4)
    worker = WorkerStatus(name="node <1>", videos=(video,), total_done=4, usage=usage)
    idle = WorkerStatus(name="cpu 2")
    progress = Progress(num_videos=9, num_finished=1, num_frames=40, num_done=4, elapsed_s=2.0, workers=(worker, idle))
    go_on = endless(monkeypatch, progress)
    start(batches)
    job = wait_for(batches, "a", "running")
    while job.progress is None:
        time.sleep(0.01)
    view = handlers.show(batches, select("a"))
    assert status_of(view) == "1 of 9 videos, 7 in the queue, 2.0 frames/s, 1,234 tokens/s, 0:18 left."
    live = json.loads(handlers.tick(batches, view.shown, select("a")).rows.props["patch"])["a"]
    cost = "1,234 tokens/s · KV cache 4,000 tokens, 30.0 MiB · memory 800.0 MiB of 80.0 GiB on the GPU"
    assert (live["said"], live["done"], live["total"]) == (status_of(view), 4, 40)
    busy, idle_worker = live["workers"]
    assert (busy["name"], busy["about"].endswith(cost)) == ("node <1>", True)
    assert idle_worker == {"name": "cpu 2", "about": "idle · 0.0 frames/s"}, "an idle worker costs nothing"
    go_on.set()


def test_a_second_run_waits_with_its_place_and_a_cancelled_one_makes_room(
    batches: BatchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless(monkeypatch)
    start(batches)
    first = wait_for(batches, "a", "running")
    while first.progress is None:
        time.sleep(0.01)
    view = start(batches, name="b")
    assert status_of(view) == "b is queued: 1 ahead."
    view = start(batches, name="c")
    assert status_of(view) == "c is queued: 2 ahead."
    stale = handlers.tick(batches, view.shown, select("a"))  # sent before the page had the reply to Start
    assert stale == Updates(shown=ShownRun(name="a"))
    assert batches.run_names() == ["c", "b", "a"]
    status = status_of(handlers.show(batches, select("a")))
    assert status == "0 of 3 videos, 1.0 frames/s, 1:00 left, 2 runs wait behind it."
    swept = sweeping.show_sweep(batches, SweepForm(run="a", metric=RECOMMENDED, size=5)).said
    assert swept == "a is still running; its points are shown when it has finished."
    handlers.cancel(batches, select("b"))
    handlers.cancel(batches, select("a"))
    wait_for(batches, "c", "running")
    assert first.state == "cancelled"
    view = handlers.tick(batches, ShownRun(name="a"), select("a"))
    assert "was cancelled" in status_of(view)
    assert "frames/s" not in status_of(view)
    handlers.cancel(batches, select("c"))
    wait_for(batches, "c", "cancelled")


def tick(batches: BatchContext, last: Updates, name: str = "a") -> Any:
    return handlers.tick(batches, last.shown, select(name))


def test_a_failed_video_has_its_reason_and_the_line_goes_on(batches: BatchContext, tmp_path: Path) -> None:
    (tmp_path / "v1.mp4").write_bytes(b"noise")
    start(batches)
    wait_for(batches, "a", "done")
    view = handlers.show(batches, select("a", order="error"))
    assert status_of(view).startswith("⚠ Done: a, 3 videos, 1 of them failed, ")
    first, *_ = shown_videos(view)
    assert (first["id"], first["remark"].startswith("failed: ")) == ("v1", True)
    assert set(first["scores"]) == {None}, "neither 0 failures nor another score"


def test_a_run_that_another_program_writes_keeps_its_status_in_all_other_windows(finished: BatchContext) -> None:
    later = replace(finished, jobs=make_jobs())
    with lock_folder(later.runs / "a"):
        seen = start(later)
        wait_for(later, "a", "refused")
    mine = tick(later, seen)
    assert "is being written by another program" in status_of(mine)
    others = handlers.show(later, select("a"))
    assert status_of(others) == "3 videos."
    assert [video["id"] for video in shown_videos(others)] == ["v0", "v1", "v2"]
    assert tick(later, others) == Updates()


def test_a_run_whose_table_is_damaged_says_so(batches: BatchContext) -> None:
    folder = batches.runs / "old"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}", encoding="utf-8")
    (folder / "metrics.json").write_text('{"scores": {}}', encoding="utf-8")
    (folder / "videos.csv").write_bytes(b"video_id,error,F1\nv0,,much\n")
    view = handlers.show(batches, select("old", order="dst_f1"))
    assert status_of(view).startswith("⚠ videos.csv cannot be read: ")
    assert shown_videos(view) == []
