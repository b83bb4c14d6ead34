"""On ZeroGPU the model runs in a forked process, one call per run, with the same results."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from stepscope.app.cli import serve
from stepscope.app.cli.stepscope import main
from stepscope.app.player import handlers, reruns, streaming
from stepscope.app.player.inspection import inspect_run
from stepscope.app.space.zero_gpu import ZeroGpuModel, find_gpu
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.config import Thresholds
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from tests.support.pages.benches import make_context, run_through, run_views
from tests.support.pages.browser import free_port
from tests.support.streams.zero_gpu import FakeSpaces


@pytest.fixture(scope="module")
def here(tiny_folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> AppContext:
    return make_context(tiny_folder, demo_manifest, tmp_path_factory.mktemp("copies"))


@pytest.fixture
def spaces(monkeypatch: pytest.MonkeyPatch) -> FakeSpaces:
    fake = FakeSpaces()
    modules: dict[str, Any] = sys.modules
    monkeypatch.setitem(modules, "spaces", fake)
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    return fake


@pytest.fixture
def there(here: AppContext, spaces: FakeSpaces) -> AppContext:
    gpu = find_gpu()
    assert gpu is not None
    return replace(here, remote=ZeroGpuModel(here.checkpoint, gpu))


def run(context: AppContext, **changes: Any) -> LiveRun:
    return run_through(context, context.bundled_videos.find("truck-1"), **changes)


def decisions(live: LiveRun) -> list[tuple[Any, ...]]:
    assert live.run is not None
    return [(o.time_s, o.speak_prob, o.update_prob, o.response, o.updates, o.dst_state) for o in live.run.outputs]


def test_elsewhere_there_is_no_such_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    assert find_gpu() is None


def test_a_run_is_one_call_in_another_process_with_the_same_outputs(
    here: AppContext, there: AppContext, spaces: FakeSpaces
) -> None:
    live = run(there, speak_threshold=0.2)
    assert decisions(live) == decisions(run(here, speak_threshold=0.2))
    assert len(decisions(live)) == 12
    assert len(spaces.pids) == 1
    assert spaces.pids[0] != os.getpid()
    assert live.recording is None
    assert live.run is not None
    assert live.run.settings["device"] == "cuda"


def test_other_thresholds_and_an_inspection_are_further_calls(
    here: AppContext, there: AppContext, spaces: FakeSpaces
) -> None:
    live = run(there)
    live.requested = Thresholds(speak=0.0, update=1.0)
    (*_, last) = reruns.rerun(there, Window(live=live))
    assert last.status.value.startswith("Done: the same run with speak 0, update 1")
    assert decisions(live) == decisions(run(here, speak_threshold=0.0, update_threshold=1.0))
    event: Any = SimpleNamespace(frame=3)
    found = inspect_run(there, Window(live=live), event)
    assert found == inspect_run(here, Window(live=live), event)
    assert "Task: build the toy truck" in found["prompt"]
    assert len(spaces.pids) == 3


def test_a_refusal_is_a_sentence_and_the_page_goes_on(there: AppContext, spaces: FakeSpaces) -> None:
    spaces.refusal, live = gr.Error("You have exceeded your quota. <a href='https://x'>Sign in</a>"), LiveRun()
    *_, last = run_views(there, there.bundled_videos.find("truck-1"), live, goal="build")
    assert last.status.value.startswith("⚠ ")
    assert "ZeroGPU: You have exceeded" in last.status.value
    assert "<a" not in last.status.value
    assert live.ended.is_set()
    spaces.refusal = None
    assert len(decisions(run(there))) == 12


def test_stop_ends_the_process(there: AppContext, spaces: FakeSpaces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "STATUS_INTERVAL_S", 0.0)
    live = LiveRun()
    going: Iterator[Any] = run_views(there, there.bundled_videos.find("truck-1"), live)
    next(going)
    live.is_cancelled = True
    assert list(going) == []
    assert handlers.show_stopped(there, Window(live=live)).status.value.startswith("Stopped at ")
    with pytest.raises(ProcessLookupError):
        os.kill(spaces.pids[0], 0)


class StoppedError(ValueError):
    """The page is built, and is not served."""


@pytest.mark.usefixtures("spaces")
def test_the_page_places_the_model_on_the_gpu_at_start(
    tiny_folder: Path, demo_manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def load(options: Any, *, device: str, graphs: str) -> Checkpoint:
        seen.append((device, graphs))
        return load_model(options.checkpoint, device="cpu")

    def build(context: AppContext, *_: Any) -> None:
        seen.append(context.remote is not None)
        raise StoppedError

    monkeypatch.setattr(serve, "load_as", load)
    monkeypatch.setattr(serve, "build_page", build)
    options = ["--checkpoint", str(tiny_folder), "--data", str(demo_manifest), "--runs", str(tmp_path / "runs")]
    assert main(["demo", *options, "--device", "cpu", "--port", str(free_port())]) == 2
    assert seen == [("cuda", "off"), True]
