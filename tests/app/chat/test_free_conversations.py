"""The handlers of the tab *Chat*: conversations without a video."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from PIL import Image

from stepscope.app.chat import handlers
from stepscope.app.chat.prompts import free_prompt
from stepscope.app.chat.window import ChatWindow
from stepscope.app.chat.workers import open_workers
from stepscope.app.window.context import AppContext
from stepscope.engine.chat.worker import WorkerOptions
from stepscope.engine.model.checkpoint import Checkpoint
from tests.support.chat import edit, questions, take, wait_until_idle


def chat(
    context: AppContext, window: ChatWindow | None, text: str, *files: Path, system: str = ""
) -> tuple[ChatWindow, str]:
    """Ask without a video; return the window and the last status."""
    asked: ChatWindow = handlers.queue_message(window, {"text": text, "files": list(map(str, files))}).window
    return asked, chat_answer(context, asked, system)


def chat_answer(context: AppContext, window: ChatWindow, system: str = "") -> str:
    with ThreadPoolExecutor(1) as threads:
        views = handlers.answer(context, threads, partial(free_prompt, context, system=system), window)
        return str(take(views)[-1].status)


def test_without_a_video_pictures_and_text_are_asked_and_reused(context: AppContext, tmp_path: Path) -> None:
    for name, colour in {"red": (255, 0, 0), "blue": (0, 0, 255)}.items():
        Image.new("RGB", (40, 30), colour).save(tmp_path / f"{name}.png")
    window, first = chat(context, None, "What is this?", tmp_path / "red.png")
    window, second = chat(context, window, "And this?", tmp_path / "blue.png")
    num_reused = [int(status.removeprefix("Answered: ").partition(" ")[0]) for status in (first, second)]
    assert num_reused[1] > num_reused[0]
    shown = window.messages()
    assert [message["content"]["path"] for message in shown if isinstance(message["content"], dict)] == [
        str(tmp_path / "red.png"),
        str(tmp_path / "blue.png"),
    ]
    assert [window.find_turn(number) for number in range(len(shown))] == [-1, 0, 0, 0, 1, 1]
    edit(window, 4, "Which colour?")
    chat_answer(context, window)
    assert questions(window) == ["What is this?", "Which colour?"]
    assert window.turns[1].pictures == window.branches.branches[0].turns[1].pictures
    wait_until_idle(context)


def test_without_a_video_the_answer_depends_on_the_system_prompt(context: AppContext) -> None:
    base, _ = chat(context, None, "What is next?")
    other, status = chat(context, None, "What is next?", system="Task: build the boat")
    assert base.turns[0].answer != other.turns[0].answer
    assert " at " not in status


def test_without_a_video_a_picture_that_cannot_be_read_is_refused(context: AppContext, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"not a picture")
    window, status = chat(context, None, "What is this?", tmp_path / "broken.png")
    assert "cannot be read" in status
    assert window.messages() == []
    assert "removed" in chat(context, window, "What is this?", tmp_path / "gone.png")[1]
    assert "A picture ends with" in handlers.queue_message(window, {"text": "x", "files": ["a.svg"]}).status
    assert "20000 characters" in chat(context, window, "What?", system="x" * 20_001)[1]


OPTIONS = WorkerOptions(checkpoint="nowhere", budget_bytes=5, host_budget_bytes=7)
"""Options with which no worker can load a model, so that a shared one is used or the test fails."""


def test_workers_on_the_device_of_the_page_share_its_weights(checkpoint: Checkpoint) -> None:
    with open_workers("cpu:3", checkpoint, OPTIONS) as workers:
        assert len({id(worker.store) for worker in workers}) == 3
        assert len({worker.name for worker in workers}) == 3
