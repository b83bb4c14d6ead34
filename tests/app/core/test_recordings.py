"""Recordings stay within a memory budget and are released when their window closes."""

import gc
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.context import AppContext
from stepscope.app.core.live_run import LiveRun, RecordingCache
from stepscope.app.reviews.store import open_store
from stepscope.app.tabs.player import reruns
from stepscope.engine.config import Thresholds
from tests.support.pages.benches import make_page, run_views
from tests.support.pages.browser import free_port
from tests.support.pages.page_http import TASK, PageClient


def ran(context: AppContext) -> LiveRun:
    live = LiveRun()
    list(run_views(context, context.bundled_videos.clips[0], live))
    return live


def exact(context: AppContext, live: LiveRun) -> list[tuple[Any, ...]]:
    live.requested = Thresholds(speak=0.2, update=0.3)
    list(reruns.rerun(context, live))
    assert live.run is not None
    return [(output.response, output.updates, dict(output.dst_state)) for output in live.run.outputs]


def test_a_recording_counts_the_bytes_of_its_frames_and_its_cache(context: AppContext) -> None:
    live = ran(replace(context, recordings=RecordingCache()))
    assert live.recording is not None
    model = context.checkpoint.model
    frames = 12 * model.tokens_per_frame * model.feature_dim * 4
    cache = live.recording._cache
    assert cache is not None
    held = sum(buffer.nbytes for layer in cache.layers for buffer in layer._buffers)
    assert held > 0
    assert live.recording.num_bytes == frames + held


def test_the_least_recently_used_recordings_are_given_up_and_results_stay_the_same(context: AppContext) -> None:
    large = replace(context, recordings=RecordingCache())
    one = ran(large)
    size = large.recordings.num_bytes
    exact(large, one)
    budget = large.recordings.num_bytes + size + size // 2
    small = replace(context, recordings=RecordingCache(budget))
    first, second = ran(small), ran(small)
    exact(small, first)  # used last
    third = ran(small)
    assert [live.recording is not None for live in (first, second, third)] == [True, False, True]
    assert small.recordings.num_bytes <= budget
    assert exact(small, second) == exact(small, first) == exact(small, third)


def test_a_recording_larger_than_the_budget_is_not_kept(context: AppContext) -> None:
    small = replace(context, recordings=RecordingCache(10))
    live = ran(small)
    assert (live.recording, small.recordings.num_bytes) == (None, 0)
    assert exact(small, live) == exact(context, ran(context))


def test_a_window_that_is_gone_or_closed_keeps_nothing(context: AppContext) -> None:
    own = replace(context, recordings=RecordingCache())
    live = ran(own)
    size = own.recordings.num_bytes
    other = ran(own)
    assert own.recordings.num_bytes == 2 * size
    del other
    gc.collect()
    assert own.recordings.num_bytes == size
    own.recordings.release(live)
    assert (own.recordings.num_bytes, live.recording) == (0, None)


@pytest.fixture
def window(context: AppContext, tmp_path: Path) -> Iterator[tuple[PageClient, AppContext]]:
    """Serve the page in this process, and open a window."""
    own = replace(context, recordings=RecordingCache())
    port = free_port()
    with open_store(tmp_path / "reviews.sqlite") as store:
        page = make_page(own, runs=tmp_path, store=store)
        page.launch(server_port=port, prevent_thread_lock=True, quiet=True, ssr_mode=False, enable_monitoring=False)
        with closing(page), PageClient(address=f"http://127.0.0.1:{port}") as client:
            yield client, own


@pytest.mark.filterwarnings("ignore")  # Gradio's, whose queue runs in this process here
def test_a_closed_window_gives_its_recording_up(window: tuple[PageClient, AppContext]) -> None:
    client, context = window
    chosen = client.find_event("chosen", "select")
    begun = client.find_event("run", "click")
    with client.http.stream("GET", f"/gradio_api/heartbeat/{client.session}") as heartbeat:
        lines = heartbeat.iter_lines()  # as long as it lives, the window is open
        next(lines)
        client.run(chosen["id"], [None, "truck-1", 0.5, 0.5])
        streams = client.find_begun(client.run(begun["id"], client.inputs(begun, **TASK)))
        client.run(streams["id"], client.inputs(streams, **TASK))
        assert context.recordings.num_bytes > 0
    until = time.monotonic() + 60
    while context.recordings.num_bytes and time.monotonic() < until:
        time.sleep(0.1)
    assert context.recordings.num_bytes == 0
