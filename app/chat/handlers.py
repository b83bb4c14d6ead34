"""Event handlers of conversations: the panel *Ask* and the tab *Chat*. They never change the run of the window."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import gradio as gr

from stepscope.app.chat.prompts import PromptSteps
from stepscope.app.chat.views import AnswerDisplay, show_window
from stepscope.app.chat.window import ChatWindow, NewQuestion, Question
from stepscope.app.controls.widgets import UPDATE_INTERVAL_S, Pace, Updates
from stepscope.app.core.pictures import ENDINGS
from stepscope.app.formatting import as_sentence
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import Window
from stepscope.engine.chat.service import iterate_in_thread
from stepscope.engine.chat.worker import ChatPrompt
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import strip_text

MAX_QUESTION_CHARS: Final = 2000
NO_QUESTION: Final = "Type a question."
WAITING: Final = "Waiting for the model."


def queue_question(window: ChatWindow | None, shown: Window, asked: Question) -> Updates:
    """Show a question about the displayed run at once; ``answer`` answers it when the model is free."""
    new = NewQuestion(text=strip_text(asked.text), time_s=_time_of(shown, asked.frame))
    return _queue(_window_of(window, shown), new, emptied="")


def queue_message(window: ChatWindow | None, typed: Mapping[str, Any] | None) -> Updates:
    """Show a question of a conversation without a video at once, with its pictures."""
    files = tuple(map(str, (typed or {}).get("files") or ()))
    new = NewQuestion(text=strip_text(str((typed or {}).get("text") or "")), files=files)
    if any(Path(file).suffix.lower() not in ENDINGS for file in files):
        return Updates(status=f"A picture ends with {', '.join(ENDINGS)}; remove the other files.")
    return _queue(window or ChatWindow(), new, emptied={"text": "", "files": []})


def _queue(window: ChatWindow, new: NewQuestion, *, emptied: Any) -> Updates:
    if window.is_waiting:
        return Updates(status="The last answer is still being written: wait for it, or stop it.")
    if not new.text:
        return Updates(window=window, status=NO_QUESTION)
    if len(new.text) > MAX_QUESTION_CHARS:
        return Updates(window=window, status=f"The question has more than {MAX_QUESTION_CHARS} characters: shorten it.")
    window.begin(window.branches, new)
    return Updates(show_window(window, WAITING, is_running=True), question=emptied)


def queue_again(window: ChatWindow | None) -> Updates:
    """Open the last question again, in a new branch."""
    if window is None or window.is_waiting or not window.turns:
        return Updates()
    window.begin(window.branches.regenerate())
    return show_window(window, WAITING, is_running=True)


def queue_edit(window: ChatWindow | None, event: gr.EditData) -> Updates:
    """Replace an earlier question in a new branch; the turns after it stay in the old one."""
    if window is None or window.is_waiting:
        return Updates()
    message = event.index[0] if isinstance(event.index, tuple | list) else event.index
    try:
        window.begin(window.branches.edit(window.find_turn(int(message)), str(event.value)[:MAX_QUESTION_CHARS]))
    except ValueError as error:
        return show_window(window, as_sentence(error), is_running=False)
    return show_window(window, WAITING, is_running=True)


def show_branch(window: ChatWindow | None, index: object) -> Updates:
    """Show the chosen branch."""
    if window is None or window.is_waiting or not isinstance(index, int):
        return Updates()
    try:
        window.branches = window.branches.show(index)
    except ValueError as error:
        return Updates(status=as_sentence(error))
    return show_window(window, f"Branch {index + 1} of {len(window.branches.branches)}.", is_running=False)


def stop(window: ChatWindow | None) -> None:
    """Stop the answer of this window only."""
    if window is not None:
        window.request.stop()


def clear(window: ChatWindow | None) -> Updates:
    """Begin a new conversation; a running answer is stopped."""
    stop(window)
    return show_window(ChatWindow(), "", is_running=False)


async def answer(
    context: AppContext,
    threads: ThreadPoolExecutor,
    build: Callable[[ChatWindow], PromptSteps],
    window: ChatWindow | None,
    *,
    owner: str = "",
) -> AsyncGenerator[Updates]:
    """Stream the answer to the waiting question. Closing the generator leaves the queue, or frees the worker.

    ``build``, one of ``app.chat.prompts``, makes the prompt in a thread. The question may reuse kept caches of its
    ``owner``.
    """
    if window is None or not window.is_waiting:
        yield Updates()
        return
    try:
        async with aclosing(_answer(context, threads, build, window, owner)) as views:
            async for view in views:
                yield view
    except (EngineError, ValueError) as error:
        window.withdraw()
        yield show_window(window, as_sentence(error), is_running=False)
    finally:
        if window.is_waiting:  # the page was closed
            window.withdraw()


async def _answer(
    context: AppContext,
    threads: ThreadPoolExecutor,
    build: Callable[[ChatWindow], PromptSteps],
    window: ChatWindow,
    owner: str,
) -> AsyncGenerator[Updates]:
    began, prompt, pace = time.perf_counter(), None, Pace(UPDATE_INTERVAL_S)
    async with aclosing(iterate_in_thread(threads, lambda: build(window))) as steps:
        async for step in steps:
            if isinstance(step, ChatPrompt):
                prompt = replace(step, owner=owner)
            elif pace.is_due():
                yield Updates(status=step)
    assert prompt is not None
    window.request.start(context.config.max_new_tokens)
    display = AnswerDisplay(window, began)
    async with aclosing(context.chat_service.answer(prompt, window.request)) as events:
        async for event in events:
            if (view := display.show(event)) is not None:
                yield view


def _time_of(shown: Window, frame: int) -> float:
    outputs = shown.run.outputs if shown.run is not None else ()
    return outputs[min(frame, len(outputs) - 1)].time_s if outputs else 0.0


def _window_of(window: ChatWindow | None, shown: Window) -> ChatWindow:
    video_id = shown.run.clip.video_id if shown.run is not None else ""
    if window is None or (window.video_id != video_id and not window.is_waiting):
        return ChatWindow(video_id=video_id)
    return window
