"""Questions to the handlers of conversations, and their answers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

import gradio as gr

from stepscope.app.chat import handlers
from stepscope.app.chat.prompts import EncodedClips, run_prompt
from stepscope.app.chat.window import ChatWindow, Question
from stepscope.app.controls.widgets import Updates
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from tests.support.chat_socket import wait_until_free


def ask(context: AppContext, window: ChatWindow | None, live: LiveRun | None, text: str) -> tuple[ChatWindow, str]:
    """Ask at frame 5; return the window and the last status."""
    asked: ChatWindow = handlers.queue_question(window, Window(live=live), Question(text=text, frame=5)).window
    return asked, answer(context, asked, live)


def answer(context: AppContext, window: ChatWindow, live: LiveRun | None) -> str:
    return str(take(answering(context, window, live))[-1].status)


def answering(context: AppContext, window: ChatWindow, live: LiveRun | None) -> AsyncGenerator[Updates]:
    """Return the views of the answer to the waiting question about a run."""
    clips = EncodedClips()
    return handlers.answer(context, clips.threads, partial(run_prompt, context, clips, live=live), window)


def edit(window: ChatWindow, message: int, text: str) -> None:
    handlers.queue_edit(window, gr.EditData(None, {"index": message, "value": text, "previous_value": ""}))


def questions(window: ChatWindow) -> list[str]:
    return [turn.question for turn in window.turns]


def take(views: AsyncGenerator[Updates], num_views: int | None = None) -> list[Updates]:
    """Return the first views, or all, and close the rest."""

    async def collect() -> list[Updates]:
        taken: list[Updates] = []
        async with aclosing(views):
            while len(taken) != num_views and (view := await anext(views, None)) is not None:
                taken.append(view)
        return taken

    return asyncio.run(collect())


def wait_until_idle(context: AppContext) -> None:
    wait_until_free(context.chat_service.pool)
