"""The live tab without a browser: a session from Start to the recording in the player."""

import base64
import io
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import gradio as gr
import numpy as np
import pytest
from PIL import Image

from stepscope.app.controls.gradio_private import list_waiting
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import JobQueue
from stepscope.app.core.model_use import ModelUse
from stepscope.app.core.places import RecentSessions
from stepscope.app.live import handlers
from stepscope.app.live.handlers import FILE, URL, WEBCAM, read_recorded
from stepscope.app.live.window import LiveWindows, decode_picture
from stepscope.app.window.context import AppContext
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.folder import COPIED, RunFolder
from stepscope.eval.runs.worker_messages import WorkerConfig
from tests.support.streams.fakes import count_letters

STEPS = "S1: attach the wheel\nS2: put on the roof\nS3: load the block"


@pytest.fixture
def batches(tmp_path: Path) -> BatchContext:
    jobs = JobQueue(encode=count_letters, scoring=ScoreSettings(text_encoder="letters"))
    return BatchContext(
        jobs=jobs,
        splits={},
        runs=(tmp_path / "runs").resolve(),
        work=WorkerConfig(checkpoint="none"),
        takes_paths=True,
        recent=RecentSessions(lambda: "window 1"),
    )


def queue(context: AppContext, windows: LiveWindows, kind: str, *, can_connect: bool = True, **changes: Any) -> Updates:
    boxes = {"bundled": "truck-1", "upload": None, "url": "", "goal": "build", "steps": STEPS, "speak": 1, "update": 1}
    form = handlers.SessionForm(**{**boxes, **changes, "kind": kind})
    return handlers.queue_session(context, windows, "browser", None, form, can_connect=can_connect)


def text_of(view: Updates) -> str:
    return str(view.status.value)


def test_a_page_for_others_opens_no_address(context: AppContext) -> None:
    windows = LiveWindows(ModelUse())
    view = queue(context, windows, handlers.URL, url="http://127.0.0.1:9/stream", can_connect=False)
    assert "opens no network streams" in text_of(view)
    assert "Waiting" in text_of(queue(context, windows, handlers.FILE, can_connect=False))


def jpeg(value: int) -> str:
    box = io.BytesIO()
    Image.fromarray(np.full((24, 32, 3), value, np.uint8)).save(box, "JPEG")
    return base64.b64encode(box.getvalue()).decode()


def test_a_webcam_session_is_recorded_and_opens_in_the_player(
    context: AppContext, batches: BatchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "STATUS_INTERVAL_S", 0.0)
    windows = LiveWindows(context.model_use)
    queued = queue(context, windows, WEBCAM, strategy="sink-window")
    window = queued.window
    assert json.loads(queued.monitor) == {"key": window.key, "is_webcam": True, "fps": 2.0}
    windows.push({"key": window.key, "picture": jpeg(90)})
    seen, head, has_asked = [], None, False
    for view in handlers.stream_session(context, batches, window):
        windows.push({"key": window.key, "picture": jpeg(90)})
        head = head or view.player
        seen.append(view)
        assert window.session is not None
        if window.session.status.num_decided >= 1 and not has_asked:
            has_asked = text_of(handlers.ask(window, "What is next?")).startswith("Asked")
        if window.session.asked.turns and window.session.status.num_decided > 1 and not window.is_cancelled:
            handlers.stop_session(window)
    assert json.loads(str(head))["head"]["is_live"] is True
    assert text_of(seen[-2]).startswith("Streaming, 0:0")
    assert all(f"</b> {label}<" in seen[-2].numbers for label in ("decided", "dropped", "lag", "real-time factor"))
    assert text_of(seen[-1]) == f"Stopped. Recorded as {window.run_name}."
    assert windows.look({"key": window.key}) is None
    sample = batches.splits[window.run_name].samples[0]
    assert [turn.text for turn in sample.turns if turn.role == "user"] == ["What is next?"]
    outputs = RunFolder(batches.runs / window.run_name).outputs(sample)
    assert any(output.response is not None for output in outputs), "the question is answered below the threshold"
    opened = handlers.open_recording(context, batches, window)
    shown = json.loads(opened.player)
    assert (shown["run_name"], shown["is_finished"]) == (window.run_name, True)
    assert opened.status.value.startswith(f"{window.run_name}, 0:")
    assert opened.status.value.endswith("the video, and turn on “score by corrected”.")
    assert (shown["has_reference"], shown["is_copied"], shown["failures"]) == (False, True, [])
    assert all(turn["verdict"] is None and turn["link"] is not None for turn in shown["turns"])
    assert opened.scores == "", "a copy of its own output is no reference to score against"
    again: dict[str, Any] = {}
    assert read_recorded(again, batches.runs) == []
    assert again[window.run_name].samples == (sample,)
    settings = RunFolder(batches.runs / window.run_name).settings()
    assert settings is not None
    assert settings["config"]["context_strategy"] == "sink-window"
    record = RunFolder(batches.runs / window.run_name).record(sample.video_id)
    assert record is not None
    assert record.undecided is not None
    assert sum(record.undecided.values()) == sum(output.state is not None for output in outputs)
    rows = batches.recorded_rows(window.run_name)
    assert [(row["video_id"], row["warning"]) for row in rows] == [(sample.video_id, COPIED)]
    assert len(window.run_name.split("-")[-1]) == 16, "nobody guesses it on a page of several people"
    own = batches.listed_splits(), batches.listed_runs()
    batches = replace(batches, recent=RecentSessions(lambda: "another"))
    assert (own, batches.listed_splits(), batches.listed_runs()) == ((again, [window.run_name]), {}, [])


def test_a_session_yields_to_others_after_its_time(
    context: AppContext, batches: BatchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "STATUS_INTERVAL_S", 0.0)
    now, waiting = 0.0, 0
    use = ModelUse(limit_s=600, list_waiting=lambda: [f"window {number}" for number in range(waiting)], now=lambda: now)
    context = replace(context, model_use=use)
    windows = LiveWindows(use)
    window = queue(context, windows, WEBCAM).window
    windows.push({"key": window.key, "picture": jpeg(90)})
    seen: list[str] = []
    for view in handlers.stream_session(context, batches, window):
        windows.push({"key": window.key, "picture": jpeg(90)})
        seen.append(text_of(view) if view.status != gr.skip() else "")
        assert window.session is not None
        if window.session.status.num_decided == 0:
            continue
        if now == 0.0:
            now = 3600.0  # an hour alone has no end
        elif waiting == 0:
            assert use.describe_wait() == "Waiting to start: a live session has the model and ends now."
            now, waiting = 540.0, 2
        elif seen[-1].startswith("Others wait"):
            now = 601.0
    assert any(text.startswith("Others wait for the model (2): this session ends in 1:00.") for text in seen)
    assert seen[-1].startswith("Stopped, because others wait for the model. ")
    assert f"Recorded as {window.run_name}." in seen[-1]
    assert use.left_s is None
    assert use.describe_wait() == "Waiting to start. 2 before you in the queue."


def test_waiting_events_are_found_in_the_queue_of_the_page() -> None:
    with gr.Blocks() as page:
        button = gr.Button()
        button.click(lambda: None, None, None, concurrency_id="model", concurrency_limit=1)
    page.queue()
    assert list_waiting(page) == []
    for function in page.fns.values():
        page._queue.create_event_queue_for_fn(function)  # as at the start of the server
    assert list_waiting(page) == []
    queue_of_model = page._queue.event_queue_per_concurrency_id["model"]
    queue_of_model.queue += [Mock(session_hash="a"), Mock(session_hash="b")]
    assert list_waiting(page) == ["a", "b"]


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        (URL, {"url": "file:///etc/passwd"}, "a live source is a URL such as"),
        (FILE, {"speak": 2}, "the speak threshold must be a number from 0 to 1"),
        (WEBCAM, {"steps": "S1: a\nS1: b"}, "step ids must differ"),
        (WEBCAM, {"goal": ""}, "webcam needs a goal; enter them, then press Start."),
    ],
)
def test_an_unusable_input_is_refused(context: AppContext, kind: str, changes: dict[str, Any], words: str) -> None:
    view = queue(context, LiveWindows(ModelUse()), kind, **changes)
    assert words in text_of(view)
    assert {"window", "begin"}.isdisjoint(vars(view)), "it does not enter the queue of the model"


def test_a_dead_address_ends_with_one_sentence_and_start_is_ready(context: AppContext, batches: BatchContext) -> None:
    window = queue(context, LiveWindows(ModelUse()), URL, url="http://me:secret@127.0.0.1:9/a.mjpg").window
    batches.runs.mkdir(exist_ok=True)
    before = set(batches.runs.iterdir())
    *_, last = handlers.stream_session(context, batches, window)
    assert "http://***@127.0.0.1:9/a.mjpg: cannot be opened" in text_of(last)
    assert "secret" not in text_of(last)
    assert (last.start.interactive, last.stop.interactive, last.open.interactive) == (True, False, False)
    assert last.player == "", "no lanes without a frame"
    assert before == set(batches.runs.iterdir()), "nor a run"
    assert window.ended.is_set()


def test_a_camera_that_the_browser_refuses_is_one_sentence(context: AppContext, batches: BatchContext) -> None:
    windows = LiveWindows(ModelUse())
    window = queue(context, windows, WEBCAM).window
    assert windows.push({"key": window.key, "problem": "NotAllowedError"}) is False
    *_, last = handlers.stream_session(context, batches, window)
    assert text_of(last) == (
        "⚠ webcam: the browser does not let this page use a camera; allow it beside the address, then press Start."
    )


@pytest.mark.parametrize("data", [None, base64.b64encode(b"GIF89a").decode(), "A" * 5_000_000])
def test_only_small_pictures_are_decoded(data: object) -> None:
    assert decode_picture(data) is None


def test_a_pushed_picture_of_huge_dimensions_is_not_decoded() -> None:
    content = base64.b64decode(jpeg(90))
    large = content.replace(struct.pack(">HH", 24, 32), struct.pack(">HH", 30_000, 30_000))
    assert large != content
    assert decode_picture(base64.b64encode(large).decode()) is None


def test_a_key_of_another_window_finds_nothing() -> None:
    windows = LiveWindows(ModelUse())
    assert windows.look({"key": "x"}) is None
    assert windows.push({"key": ["x"], "picture": ""}) is None
