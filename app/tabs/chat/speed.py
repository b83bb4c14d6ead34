"""The charts of the speed of answers in the tab *Chat*."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.widgets import AT_ONCE, MODEL_QUEUE, UPDATE_INTERVAL_S, Pace, make_status_line, wire
from stepscope.app.figures.charts import answers
from stepscope.app.web.component import make_chart, pack_chart
from stepscope.engine.bench.reuse import compare_lengths
from stepscope.engine.chat.timings import ReusePoint
from stepscope.engine.errors import EngineError

MEASURED_TURNS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
"""Lengths of the measured conversations, in answered turns; those beyond the model's context are skipped."""
HINT: Final = "The latest 200 answers of this server. Measure compares conversations of growing length."


class SpeedView(NamedTuple):
    """The components of the charts."""

    measured: Any = gr.skip()
    """State: the ``ReusePoint`` records of the window."""
    first_token: Any = gr.skip()
    cached_share: Any = gr.skip()
    times: Any = gr.skip()
    status: Any = gr.skip()


def make_speed_charts(context: AppContext) -> Callable[[Any], Any]:
    """Make the charts and wire their button; return the function that draws the latest answers after an event."""
    with gr.Accordion("Speed of answers", open=False, elem_id="chat_speed"):
        with gr.Row():
            status = make_status_line("speed_status", value=HINT)
            measure = gr.Button("Measure", size="sm", scale=0, min_width=110, elem_id="measure_reuse")
        with gr.Row(elem_classes="charts"):
            first_token, cached_share, times = map(make_chart, ("speed_first", "speed_share", "speed_times"))
    view = SpeedView(gr.State(()), first_token, cached_share, times, status)
    wire(measure.click, partial(measure_reuse, context), None, view, **MODEL_QUEUE, show_progress="hidden")
    return lambda event: wire(event, partial(show_charts, context), view.measured, view, **AT_ONCE)


def show_charts(context: AppContext, measured: tuple[ReusePoint, ...]) -> SpeedView:
    """Return the charts of the latest answers and of a window's measurements."""
    timings = tuple(context.chat_service.timings)
    return SpeedView(
        first_token=pack_chart(lambda theme: answers.first_token(timings, measured, theme), revision="first"),
        cached_share=pack_chart(lambda theme: answers.cached_share(timings, theme), revision="share"),
        times=pack_chart(lambda theme: answers.times(timings, theme), revision="times"),
    )


def measure_reuse(context: AppContext) -> Generator[SpeedView]:
    """Measure questions after ever longer conversations, with and without cached turns; yield the charts."""
    points: tuple[ReusePoint, ...] = ()
    pace = Pace(UPDATE_INTERVAL_S)
    yield SpeedView(status="Measuring.")
    try:
        for point in compare_lengths(context.checkpoint, MEASURED_TURNS):
            points = (*points, point)
            if pace.is_due():
                view = show_charts(context, points)
                yield view._replace(measured=points, status=f"Measured {point.prompt_tokens:,} tokens.")
    except EngineError as error:
        yield show_charts(context, points)._replace(measured=points, status=str(error))
        return
    last = points[-1]
    ratio = last.cold.first_s / last.warm.first_s
    yield show_charts(context, points)._replace(
        measured=points,
        status=f"At {last.prompt_tokens:,} tokens the first token comes {ratio:.1f} times sooner with reuse: "
        f"{1000 * last.warm.first_s:,.1f} ms instead of {1000 * last.cold.first_s:,.1f} ms.",
    )
