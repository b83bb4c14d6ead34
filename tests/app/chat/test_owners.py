"""Two users of one page never reuse each other's questions, on the path that the page takes to its worker."""

import asyncio
import re
from dataclasses import replace
from typing import Any

import gradio as gr
from starlette.applications import Starlette
from starlette.requests import Request

from stepscope.app.chat import handlers
from stepscope.app.chat.tab import make_chat_tab
from stepscope.app.core.videos import BundledVideos
from stepscope.app.window.context import AppContext
from tests.support.chat import wait_until_idle


def test_a_question_on_the_page_reuses_no_tokens_of_another_user(context: AppContext) -> None:
    context = replace(context, bundled_videos=BundledVideos(clips=()))
    with gr.Blocks() as page, gr.Tab("Chat"):
        make_chat_tab(context)
    answer = next(function.fn for function in page.fns.values() if function.name == "answer")
    assert answer is not None
    app: Any = Starlette()
    app.cookie_id, app.tokens = "x", {"secret": "ann", "other": "bob"}

    def count_cached(token: str, window: str) -> int:
        """Ask in a browser window of the user with a token; return the tokens that were reused."""
        cookies = [(b"cookie", f"access-token-x={token}".encode())]
        request = gr.Request(Request({"type": "http", "headers": cookies, "app": app}), session_hash=window)
        asked = handlers.queue_message(None, {"text": "The safe opens with 4711."}).window

        async def collect() -> list[dict[Any, Any]]:
            return [view async for view in answer(request, asked, "Be brief.")]

        said = [str(value) for value in asyncio.run(collect())[-1].values()]
        (found,) = [match for text in said if (match := re.search(r"Answered: (\d+) of \d+ prompt tokens", text))]
        wait_until_idle(context)
        return int(found[1])

    assert count_cached("secret", "window 1") == 0
    assert count_cached("other", "window 2") == 0
    assert count_cached("secret", "window 3") > 0
    assert count_cached("", "window 4") == 0
    assert count_cached("", "window 5") == 0
