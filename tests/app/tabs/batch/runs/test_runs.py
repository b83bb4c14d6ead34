"""The shown run of the batch tab without a browser: its status, its place in the queue, its tables."""

import errno
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from stepscope.app.core import job_queue
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import Job
from stepscope.app.core.results import HEADERS
from stepscope.app.formatting import as_sentence
from stepscope.app.tabs.batch.runs import handlers
from stepscope.app.tabs.batch.runs.handlers import ShownRun, draw_job
from stepscope.app.tabs.batch.sweeps import handlers as sweeping
from stepscope.app.tabs.batch.sweeps.handlers import RECOMMENDED
from stepscope.app.web.views import status_line
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.reports.table_files import read_results
from stepscope.eval.runs.output_folder import lock_folder
from stepscope.eval.runs.worker_messages import Progress, VideoStatus, WorkerStatus, WorkerUsage
from tests.support.pages.batch_tab import endless, make_jobs, start, wait_for


def test_the_tables_of_a_finished_run_are_those_on_disk(finished: BatchContext) -> None:
    assert wait_for(finished, "a", "done").problem.startswith("text scores are missing: ")
    folder = finished.runs / "a"
    view = handlers.show(finished, "a", "as in the split")
    assert re.match(r"⚠ Done: a, 3 videos, \d+ failures, \d+ s; text scores are missing: ", view.status.value)
    assert [row[0] for row in view.videos["data"]] == ["v0", "v1", "v2"]
    assert len(view.videos["data"][0]) == len(HEADERS)
    assert view.videos_csv.interactive
    assert view.traces_csv.interactive
    assert "<summary>run a · split split.json · model " in view.origin
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert f"<b>{metrics['scores']['F1']:.3f}</b>" in view.corpus
    assert find_metric("F1").definition.split("<")[0] in view.corpus
    same = tick(finished, view)
    assert all(value == gr.skip() for value in same)


@pytest.mark.parametrize(
    ("device_mb", "memory"), [(None, "memory 800.0 MiB"), (80 * 1024.0, "memory 800.0 MiB of 80.0 GiB on the GPU")]
)
def test_a_running_run_shows_its_queue_and_the_cost_of_each_worker(
    batches: BatchContext, monkeypatch: pytest.MonkeyPatch, device_mb: float | None, memory: str
) -> None:
    usage = WorkerUsage(tokens_per_s=1234.4, cache_tokens=4000, cache_mb=30.0, memory_mb=800.0, device_mb=device_mb)
    video = VideoStatus(video_id="v1", num_frames=20, num_done=4)
    worker = WorkerStatus(name="node <1>", videos=(video,), total_done=4, usage=usage)
    idle = WorkerStatus(name="cpu 2")
    progress = Progress(num_videos=9, num_finished=1, num_frames=40, num_done=4, elapsed_s=2.0, workers=(worker, idle))
    go_on = endless(monkeypatch, progress)
    start(batches)
    job = wait_for(batches, "a", "running")
    while job.progress is None:
        time.sleep(0.01)
    view = handlers.show(batches, "a", "as in the split")
    go_on.set()
    assert view.status.value == "a: 1 of 9 videos, 7 in the queue, 2.0 frames/s, 1,234 tokens/s, 0:18 left."
    assert f"1,234 tokens/s · KV cache 4,000 tokens, 30.0 MiB · {memory}</span>" in view.progress
    assert "node &lt;1&gt;" in view.progress
    assert view.progress.count("KV cache") == 1, "an idle worker costs nothing"


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
    status = handlers.show(batches, "a", "as in the split").status.value
    assert status == "a: 0 of 3 videos, 1.0 frames/s, 1:00 left, 2 runs wait behind it."
    swept = sweeping.show_sweep(batches, "a", RECOMMENDED, 5).said
    assert swept == "a is still running; its points are shown when it has finished."
    handlers.cancel(batches, "b", "as in the split")
    handlers.cancel(batches, "a", "as in the split")
    wait_for(batches, "c", "running")
    assert first.state == "cancelled"
    view = handlers.tick(batches, ShownRun(name="a"), "", "a", "as in the split")
    assert "was cancelled" in view.status.value
    assert "frames/s" not in view.progress
    handlers.cancel(batches, "c", "as in the split")
    wait_for(batches, "c", "cancelled")


def test_a_reply_that_is_rendered_after_a_later_one_is_put_right(
    batches: BatchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = endless(monkeypatch)
    start(batches)
    wait_for(batches, "a", "running")
    queued = start(batches, name="b")
    handlers.cancel(batches, "b", "as in the split")
    cancelled = tick(batches, queued, "b")
    assert "b was cancelled" in cancelled.status.value
    assert "value" not in cancelled.runs.constructor_args  # a may have been chosen since
    early = tick(batches, cancelled._replace(progress=draw_job("a", batches.jobs.find("a"))), "a")
    assert early == handlers.UNCHANGED._replace(shown=ShownRun(name="a")), "sent before the page showed b"
    late = tick(batches, cancelled, "a")
    assert (late.shown.name, late.status.value[:3]) == ("a", "a: ")
    assert tick(batches, late, "a", "most missed").shown.order == "most missed"
    handlers.cancel(batches, "a", "as in the split")
    wait_for(batches, "a", "cancelled")
    go_on.set()
    final = tick(batches, late, "a")
    assert "was cancelled" in final.status.value
    assert tick(batches, final, "a").status == gr.skip()
    overtaken = final._replace(progress=late.progress)  # the server has sent both, the page rendered `late` last
    assert "was cancelled" in tick(batches, overtaken, "a").status.value


def tick(batches: BatchContext, last: handlers.BatchView, name: str = "a", order: str = "as in the split") -> Any:
    return handlers.tick(batches, last.shown, last.progress, name, order)


@pytest.mark.parametrize(
    ("fail", "reason"),
    [
        (lambda path: OSError(errno.ENOSPC, "No space left", f"{path}/run.json"), "run.json: No space left"),
        (lambda path: ValueError(f"{path} is full"), "a is full"),
    ],
)
def test_a_run_that_cannot_be_written_names_no_folder(
    batches: BatchContext, fail: Callable[[Path], Exception], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any, out: Path, **__: Any) -> None:
        raise fail(out)

    monkeypatch.setattr(job_queue, "run_batch", run)
    start(batches)
    wait_for(batches, "a", "failed")
    assert handlers.show(batches, "a", "as in the split").status.value == f"⚠ a failed: {reason}."


def test_a_failed_video_has_its_reason_and_the_line_goes_on(batches: BatchContext, tmp_path: Path) -> None:
    (tmp_path / "v1.mp4").write_bytes(b"noise")
    start(batches)
    wait_for(batches, "a", "done")
    view = handlers.show(batches, "a", "only failed")
    assert view.status.value.startswith("⚠ Done: a, 3 videos, 1 of them failed, ")
    assert [row[0] for row in view.videos["data"]] == ["v1"]
    assert str(view.videos["data"][0][-1]).startswith("failed: ")
    assert set(view.videos["data"][0][1:-1]) == {None}  # neither 0 failures nor another score


def test_a_run_that_another_program_writes_keeps_its_status_in_all_other_windows(finished: BatchContext) -> None:
    later = replace(finished, jobs=make_jobs())
    with lock_folder(later.runs / "a"):
        seen = start(later)
        wait_for(later, "a", "refused")
    mine = tick(later, seen)
    assert "is being written by another program" in mine.status.value
    others = handlers.show(later, "a", "as in the split")
    assert others.status.value == "a: 3 videos."
    assert [row[0] for row in others.videos["data"]] == ["v0", "v1", "v2"]
    assert tick(later, others).status == gr.skip()


def test_a_start_that_is_refused_before_the_answer_is_written_is_explained(
    finished: BatchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = replace(finished, jobs=make_jobs())
    submit = later.jobs.submit

    def submit_and_wait(job: Job) -> None:
        submit(job)
        wait_for(later, "a", "refused")

    monkeypatch.setattr(later.jobs, "submit", submit_and_wait)
    with lock_folder(later.runs / "a"):
        seen = start(later)
    assert "is being written by another program" in tick(later, seen).status.value


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"video_id\nv0\n", b"video_id,error,F1\nv0,,much\n"])
def test_a_run_whose_table_is_damaged_says_so(batches: BatchContext, content: bytes) -> None:
    folder = batches.runs / "old"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}", encoding="utf-8")
    (folder / "metrics.json").write_text('{"scores": {}}', encoding="utf-8")
    (folder / "videos.csv").write_bytes(content)
    view = handlers.show(batches, "old", "worst updates")
    assert view.status.value.startswith("⚠ old: videos.csv cannot be read: ")
    assert view.videos["data"] == []


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
    assert as_sentence("odd \ud800 \u202e") == "odd ? \\u202e."
