"""The wiring of handlers that return views."""

import ast
import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import gradio as gr
import pytest
from anyio import to_thread
from gradio.data_classes import PredictBodyInternal
from gradio.queueing import Queue
from gradio.server_messages import ProcessCompletedMessage
from gradio.state_holder import SessionState, StateHolder

from stepscope.app.controls.cancellable import WorkButtons
from stepscope.app.controls.gradio_private import drop_hidden_progress
from stepscope.app.controls.run_inputs import ThresholdSliders
from stepscope.app.controls.widgets import Arguments, Updates, by_component, wire
from stepscope.app.server import gradio_patches
from stepscope.app.server.gradio_patches import (
    MAX_CHOSEN,
    MAX_EVENT_BYTES,
    MAX_EVENTS,
    MAX_THREADS,
    SharedThreads,
    bound_choices,
    share_queue,
    share_sessions,
    show_turns_in_components,
)
from stepscope.app.server.identity import current_user
from stepscope.app.server.limits import MAX_BODY_BYTES
from stepscope.app.style.colours import COLOURS
from stepscope.app.window.live_run import Window
from tests.support.paths import ROOT


class Sliders(NamedTuple):
    speak: Any
    update: Any


class View(NamedTuple):
    status: Any
    sliders: Sliders


LAYOUT = View(status="status", sliders=Sliders(speak="speak", update="update"))


def test_the_updates_of_inner_views_belong_to_their_own_components() -> None:
    view = View(status="Done.", sliders=Sliders(speak=0.4, update=0.6))
    assert by_component(LAYOUT, view) == {"status": "Done.", "speak": 0.4, "update": 0.6}


def test_a_page_calls_handlers_that_return_or_yield_views_and_those_that_ask_for_the_event() -> None:
    def double(factor: int, value: float) -> View:
        return View(status=f"{value}", sliders=Sliders(speak=factor * value, update=gr.skip()))

    def count(value: float) -> Iterator[Sliders]:
        yield Sliders(speak=value, update=1)
        yield Sliders(speak=value, update=2)

    def name(value: float, request: gr.Request) -> View:
        return View(status=type(request).__name__, sliders=Sliders(speak=value, update=value))

    def pick(factor: float, value: float, event: gr.SelectData) -> View:
        return View(status=f"{event}", sliders=Sliders(speak=factor * value, update=value))

    with gr.Blocks() as page:
        speak, update, status = gr.Number(), gr.Number(), gr.Textbox()
        layout = View(status=status, sliders=Sliders(speak=speak, update=update))
        button = gr.Button()
        wire(button.click, partial(double, 2), speak, layout)
        wire(button.click, count, speak, layout.sliders)
        wire(button.click, name, speak, layout)
        wire(button.click, partial(pick, 2), speak, layout)
    doubled, counted, named, picked = page.fns.values()
    assert list(doubled.outputs) == [status, speak, update]
    assert doubled.fn is not None
    assert counted.fn is not None
    assert doubled.fn(0.25) == {status: "0.25", speak: 0.5, update: gr.skip()}
    assert list(counted.fn(0.25)) == [{speak: 0.25, update: 1}, {speak: 0.25, update: 2}]
    inputs, *_ = gr.helpers.special_args(named.fn, [0.25], gr.Request())
    assert inputs[1].__class__ is gr.Request, "Gradio finds the annotation through the wrapper"
    assert picked.fn is not None
    _, _, event_index, _ = gr.helpers.special_args(picked.fn)
    assert event_index == 1, "Gradio finds that of a partial"


@dataclass(frozen=True)
class Form:
    name: Any
    sliders: Sliders


def test_a_form_arrives_as_one_record_and_is_updated_by_name() -> None:
    def scale(factor: int, seen: str, form: Form, request: gr.Request) -> Updates:
        assert type(request) is gr.Request
        return Updates(sliders=Updates(speak=factor * form.sliders.speak), status=f"{seen} {form.name}")

    with gr.Blocks() as page:
        seen, name, speak, update, status = (gr.Textbox() for _ in range(5))
        form, button = Form(name, Sliders(speak, update)), gr.Button()
        wire(button.click, partial(scale, 2), [seen, form], {"sliders": form.sliders, "status": status})
        wire(button.click, lambda form: Updates(), form, {"status": status})
    scaled, none = page.fns.values()
    assert (list(scaled.inputs), list(scaled.outputs)) == ([seen, name, speak, update], [speak, update, status])
    values, *_ = gr.helpers.special_args(scaled.fn, ["a", "b", 0.25, 0.5], gr.Request())
    assert scaled.fn is not None
    assert scaled.fn(*values) == {speak: 0.5, status: "a b"}
    assert none.fn is not None
    assert none.fn("b", 0.25, 0.5) == gr.skip(), "an empty value would be one of the component"
    with pytest.raises(KeyError, match="stauts"):
        by_component({"status": status}, Updates(stauts="x"))


@dataclass(frozen=True, kw_only=True)
class Place(Arguments):
    frame: int
    name: str = "none"


def test_the_arguments_of_an_event_are_read_and_a_wrong_type_is_refused_in_a_sentence() -> None:
    def name(factor: int, place: Place) -> Updates:
        return Updates(status=f"{place.name} {factor * place.frame}")

    with gr.Blocks() as page:
        factor, status, button = gr.Number(), gr.Textbox(), gr.Button()
        wire(button.click, name, factor, {"status": status})
    (named,) = page.fns.values()
    assert named.fn is not None
    _, _, event_index, _ = gr.helpers.special_args(named.fn)
    assert event_index == 1
    assert named.fn(2, gr.EventData(None, {"frame": 3, "more": 1})) == {status: "none 6"}
    assert named.fn(2, gr.EventData(None, {"frame": 3, "name": "\ud800"})) == {status: "? 6"}
    for sent in ({"frame": "<b>"}, {"frame": 1.5}, {}, None, {"frame": 1, "name": 2}):
        with pytest.raises(gr.Error, match=r"the page sent an invalid request: \w+: .*; reload it"):
            named.fn(2, gr.EventData(None, sent))


@pytest.mark.parametrize("folder", ["batch", "live", "player"])
def test_each_name_that_a_handler_updates_is_that_of_a_component(folder: str) -> None:
    updated, named = set[str](), {*WorkButtons._fields, *ThresholdSliders._fields}
    named |= {part.name for part in fields(Window)}
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "app" / folder).rglob("*.py")]
    gc.disable()  # after a test with greenlets, their collection within a parse miscounts its depth in Python 3.11
    with ThreadPoolExecutor(1) as thread:
        trees = [*thread.map(ast.parse, texts)]
    gc.enable()
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id="Updates" | "PlayerView")):
                    updated |= {keyword.arg for keyword in node.keywords if keyword.arg is not None}
                case ast.Dict():
                    named |= {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
                case ast.ClassDef(name=name) if name.endswith(("Form", "Selection", "Components")):
                    named |= {ast.unparse(field.target) for field in node.body if isinstance(field, ast.AnnAssign)}
    assert updated
    assert updated <= named


def test_an_event_with_hidden_progress_sets_the_status_of_no_component() -> None:
    with gr.Blocks() as page:
        text, button = gr.Textbox(), gr.Button()
        button.click(str, text, text, show_progress="hidden")
        text.submit(str, text, text, show_progress="minimal")
    drop_hidden_progress(page)
    shown = [event["show_progress_on"] for event in page.get_config_file()["dependencies"]]
    assert shown == [[], None], "None stands for the outputs"


LIGHT, DARK = "#ffffff", "#27272a"
"""Block backgrounds of the theme: white, and neutral 800."""


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2.1."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", COLOURS)
def test_colours_can_be_read_in_both_themes(name: str) -> None:
    least = 3.0 if name == "active" else 4.5  # the colour of no text
    assert contrast(COLOURS[name].light, LIGHT) >= least
    assert contrast(COLOURS[name].dark, DARK) >= least


def test_choices_and_cells_show_marks_that_turn_a_text_and_keep_their_values() -> None:
    def show() -> tuple[Any, Any]:
        return gr.Dropdown(choices=[name, "b"], value=name), [[name, None], ["b", 1.0]]

    name, shown = "rtl\u202egnp", "rtl\\u202egnp"
    show_turns_in_components()
    with gr.Blocks() as page:
        runs, table, button = gr.Dropdown([name]), gr.Dataframe(headers=["run", "score"]), gr.Button()
        wire(button.click, show, None, (runs, table))
    assert runs.get_config()["choices"] == [(shown, name)]
    listed, rows = asyncio.run(page.process_api(0, [], state=SessionState(page)))["data"]
    assert (listed["choices"], listed["value"]) == ([[shown, name], ["b", "b"]], name)
    assert rows["data"] == [[name, None], ["b", 1.0]]
    assert rows["metadata"] == {"display_value": [[shown, ""], []]}


def test_a_list_takes_a_bounded_number_of_values_and_logs_no_unknown_one(recwarn: pytest.WarningsRecorder) -> None:
    bound_choices()
    names = gr.Dropdown(["a"], multiselect=True)
    assert names.preprocess(["a"] * MAX_CHOSEN) == ["a"] * MAX_CHOSEN
    with pytest.raises(gr.Error, match=f"at most {MAX_CHOSEN} values"):
        names.preprocess(["a"] * (MAX_CHOSEN + 1))
    gr.Dropdown(["a"], value="x" * 1000)
    assert not recwarn.list


def test_the_sessions_of_one_user_replace_no_session_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("update", "delete_all_expired_state"):
        monkeypatch.setattr(StateHolder, name, getattr(StateHolder, name))  # restored at the end
    share_sessions()
    states = StateHolder()
    states.set_blocks(gr.Blocks())
    states.capacity = 10
    for user, number in [("anna", 2), ("", 20), ("bob", 20), ("", 20)]:  # connections without an event have no user
        token = current_user.set(user)
        for index in range(number):
            states[f"{user}{index}"].state_data[0] = user
        current_user.reset(token)
    assert len(states.session_data) == len(states.time_last_used) == 10
    assert list(states.session_data)[:6] == ["anna0", "anna1", "bob16", "bob17", "bob18", "bob19"]
    assert states["anna0"].state_data == {0: "anna"}
    states["anna1"].is_closed = states["bob16"].is_closed = True
    states["bob16"].STATE_TTL_WHEN_CLOSED = -1
    states.delete_all_expired_state()
    assert "bob16" not in states.session_data
    assert {"anna1", "bob17"} <= set(states.session_data)


@pytest.fixture
def _shared_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("push", "get_events", "process_events"):
        monkeypatch.setattr(Queue, name, getattr(Queue, name))  # restored at the end
    monkeypatch.setattr(gr.Blocks, "create_limiter", gr.Blocks.create_limiter)
    share_queue()


@pytest.mark.usefixtures("_shared_queue")
def test_no_user_takes_the_whole_queue_and_answers_that_nobody_reads_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with gr.Blocks() as page:
        gr.Button().click(str.upper, gr.Textbox(), gr.Textbox())
    queue = page.queue()._queue

    def push(user: str | None, session: str, *, size: int = 0) -> Any:
        headers = [(b"content-length", str(size).encode())]
        request: Any = SimpleNamespace(scope={"client": ("192.0.2.1", 5000), "headers": headers})
        body = PredictBodyInternal(fn_index=0, data=["a" * 1000], session_hash=session)
        return asyncio.run(queue.push(body, request, user))

    def answer_all() -> None:
        for event in list(queue.event_ids_to_events.values()):
            message = ProcessCompletedMessage(output={"data": event.data.data}, success=True)
            asyncio.run(queue.remove_from_queue(event._id))
            queue.send_message(event, message)

    assert [push("anna", f"a{number}")[0] for number in range(MAX_EVENTS + 3)] == [True] * MAX_EVENTS + [False] * 3
    assert [push(user, "other")[0] for user in ("bob", None)] == [True, True]
    own = [push("cora", f"c{number}", size=MAX_BODY_BYTES)[0] for number in range(6)]
    assert own == [True] * (MAX_EVENT_BYTES // MAX_BODY_BYTES) + [False] * 2
    (waiting,) = queue.event_queue_per_concurrency_id.values()
    assert [event.username for event in waiting.queue[:5]] == ["anna", "bob", None, "cora", "anna"]
    answer_all()
    assert push("anna", "a0")[1:] == (
        f"{MAX_EVENTS} actions of yours, or 32 MiB, wait or run; try again later.",
        "queue_full",
    )
    monkeypatch.setattr(gradio_patches, "UNREAD_S", 0)
    assert push("anna", "new")[0]
    assert set(queue.pending_messages_per_session) == {"new"}


def test_the_threads_of_one_user_leave_those_of_others_free() -> None:
    is_done, began = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        began.release()
        is_done.wait(60)

    async def run_all() -> bool:
        limiter: Any = SharedThreads()

        async def run(user: str, function: Callable[..., Any]) -> Any:
            current_user.set(user)
            return await to_thread.run_sync(function, limiter=limiter)

        tasks = [asyncio.create_task(run("anna", work)) for _ in range(MAX_THREADS + 1)]
        held = [await run("bob", began.acquire) for _ in range(MAX_THREADS)]
        is_another = await run("bob", lambda: began.acquire(timeout=0.1))
        is_done.set()
        await asyncio.gather(*tasks)
        return all(held) and not is_another and not limiter._limiters

    assert asyncio.run(run_all())
