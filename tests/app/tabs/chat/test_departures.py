"""Windows of a served panel that close while queued, prefilling or generating: the worker is free within 3 s."""

import json
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import gradio as gr
import pytest

from stepscope.app.context import AppContext
from stepscope.app.core.live_run import LiveRun
from stepscope.app.tabs.chat.panel import make_ask_panel
from stepscope.engine.chat.answering import AnswerEvent
from stepscope.engine.chat.worker import ChatPrompt, ChatWorker
from stepscope.engine.config import StreamConfig
from tests.app.tabs.chat.conftest import make_live
from tests.support.pages.browser import free_port
from tests.support.pages.page_http import PageClient
from tests.support.stores import check_store

pytestmark = pytest.mark.filterwarnings("ignore")  # Gradio's, whose queue runs in this process here
PASS_S = 0.1
"""Duration of each pass; a whole answer takes 20 s."""
LONG = "What is next? " * 100


class SlowWorker(ChatWorker):
    """A worker whose every event takes time."""

    def answer(
        self, prompt: ChatPrompt, *, max_new_tokens: int = 128, is_stopped: Callable[[], bool] = lambda: False
    ) -> Generator[AnswerEvent]:
        with closing(super().answer(prompt, max_new_tokens=max_new_tokens, is_stopped=is_stopped)) as events:
            for event in events:
                time.sleep(PASS_S)
                yield event


@dataclass(kw_only=True)
class Served:
    """A served panel on a finished run."""

    address: str
    context: AppContext

    def wait_until_free(self) -> None:
        pool, until = self.context.chat_service.pool, time.monotonic() + 3
        while pool.status.num_queued or not all(worker.is_idle for worker in pool.status.workers):
            assert time.monotonic() < until, "the worker is still busy"
            time.sleep(0.01)
        for worker in pool.workers:
            check_store(worker.store)
            assert worker.store.stats.num_locked == 0


@pytest.fixture(scope="module")
def served(context: AppContext) -> Iterator[Served]:
    finished = make_live(context)
    assert finished.run is not None
    run, recording = finished.run, finished.recording
    workers = [SlowWorker(context.checkpoint)]
    context = replace(context, config=StreamConfig(max_new_tokens=200), chat_workers=workers)
    with gr.Blocks() as page:
        live = gr.State(None)
        opener = gr.Button(elem_id="open")
        make_ask_panel(context, live=live, video=gr.Textbox(), user_turns=gr.Textbox())
        opener.click(lambda: LiveRun.finished(run, recording=recording), None, live)
    port = free_port()
    page.launch(server_port=port, prevent_thread_lock=True, quiet=True, ssr_mode=False, enable_monitoring=False)
    with closing(page):
        yield Served(address=f"http://127.0.0.1:{port}", context=context)


class Window:
    """One window of the panel."""

    def __init__(self, served: Served) -> None:
        self.client = PageClient(address=served.address)
        self.client.run(self.client.find_event("open", "click")["id"], [])

    def ask(self, question: str) -> int:
        """Type a question; return the event that answers it."""
        asks = self.client.find_event("ask_button", "click")
        self.client.run(asks["id"], [None, None, question, "5"])
        return next(int(event["id"]) for event in self.client.events() if event["trigger_after"] == asks["id"])

    def read(self, answers: int, *, until: str) -> str:
        """Start the answer and read its messages until one contains a text; then the window closes."""
        self.client.join(answers, [None, None]).raise_for_status()
        params = {"session_hash": self.client.session}
        with self.client.http.stream("GET", "/gradio_api/queue/data", params=params) as stream:
            for line in stream.iter_lines():
                message = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {"msg": ""}
                if until in line or message["msg"] == "process_completed":
                    return line
        raise AssertionError("the stream of messages ended")


@pytest.mark.parametrize(("phase", "question"), [("Reading the context", LONG), ("Answering", "What is next?")])
def test_a_window_that_closes_frees_its_worker(served: Served, phase: str, question: str) -> None:
    window = Window(served)
    assert phase in window.read(window.ask(question), until=phase)
    served.wait_until_free()


def test_a_window_that_closes_in_the_queue_leaves_it_and_the_next_one_is_answered(served: Served) -> None:
    pool = served.context.chat_service.pool
    first, second = Window(served), Window(served)
    with pool.enqueue((1,)):
        assert "Your question is next" in first.read(first.ask("What is next?"), until="Your question is next")
        until = time.monotonic() + 3
        while pool.status.num_queued:
            assert time.monotonic() < until, "the question is still queued"
            time.sleep(0.01)
    answers = second.ask("And then?")
    assert "Answering" in second.read(answers, until="Answering")
    served.wait_until_free()
