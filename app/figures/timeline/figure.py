"""The view of one video of a run as one Plotly figure: the lanes above the signals, over one time axis."""

import math
from dataclasses import replace

import plotly.graph_objects as go

from stepscope.app.figures.paper import Width
from stepscope.app.figures.render import Drawing
from stepscope.app.figures.template import GRID_COLOUR
from stepscope.app.figures.text import LINE, clean_text, wrap_text
from stepscope.app.figures.timeline.legend import draw_legend
from stepscope.app.figures.timeline.run import TimelineRun
from stepscope.app.figures.timeline.sheet import Sheet
from stepscope.app.figures.timeline.signals import draw_cache, draw_latency, draw_signal, draw_states
from stepscope.app.figures.timeline.steps import draw_steps
from stepscope.app.figures.timeline.table import timeline_rows
from stepscope.app.figures.timeline.turns import (
    assistant_turns,
    draw_links,
    draw_turns,
    links,
    reference_turns,
    user_turns,
)
from stepscope.app.formatting import format_clock
from stepscope.app.style.colours import Theme

DEFAULT_WIDTH_PX = 1000
MIN_WIDTH_PX, MAX_WIDTH_PX = 240, 6000


def build_timeline(
    run: TimelineRun,
    *,
    from_s: float | None = None,
    to_s: float | None = None,
    width_px: int = DEFAULT_WIDTH_PX,
    theme: Theme = "light",
    below: TimelineRun | None = None,
) -> go.Figure:
    """Return the figure of a range of a video, by default of the whole video.

    The lanes of ``below``, a second run of the video, follow those of the run: its messages, states and signals.

    Raises ``ValueError`` if the range is empty or outside the video, or the width is not possible.
    """
    start, end = check_range(run.duration_s, from_s, to_s)
    check_width(width_px)
    sheet = Sheet(from_s=start, to_s=end, width_px=width_px, theme=theme)
    if below is not None:
        _draw_heading(sheet, run)
    _draw_first(sheet, run)
    if below is not None:
        _draw_second(sheet, below)
    sheet.top += 4
    axis_y = sheet.top
    sheet.top += LINE * sheet.size + 12
    draw_legend(sheet)
    span = f"{format_clock(start, digits=1)} to {format_clock(end, digits=1)}"
    names = " and ".join(shown.run_name for shown in (run, below) if shown is not None)
    return sheet.finish(axis_y=axis_y, title=f"{run.video_id}, {names}, {span}")


def _draw_first(sheet: Sheet, run: TimelineRun) -> None:
    if run.user_turns:
        draw_turns(sheet, "user", user_turns(run))
        sheet.top += 3
    if run.sample is not None:
        draw_turns(sheet, "reference", reference_turns(run))
        draw_links(sheet, links(run))
    _draw_decided(sheet, run)
    if run.outputs:
        draw_cache(sheet, run)
        draw_latency(sheet, run)
    _shade_unreached(sheet, run, top=2)


def _draw_second(sheet: Sheet, run: TimelineRun) -> None:
    sheet.top += 6
    top = sheet.top
    edge = {"xref": "x2", "x0": 0, "x1": sheet.width_px, "yref": "y", "y0": top, "y1": top}
    sheet.shapes.append({"type": "line", "layer": "below", **edge, "line": {"width": 1, "color": GRID_COLOUR}})
    _draw_heading(sheet, run)
    _draw_decided(sheet, run if run.has_states else replace(run, steps=()))  # the reference is above
    _shade_unreached(sheet, run, top=top)


def _draw_heading(sheet: Sheet, run: TimelineRun) -> None:
    """Add a line with the letter and the name of a run."""
    height = LINE * sheet.size + 2
    heading = clean_text(f"{run.letter}: {run.run_name}" if run.letter else run.run_name)
    sheet.label(wrap_text(heading, sheet.width_px - 8, sheet.size, max_lines=1), sheet.top + height / 2)
    sheet.top += height


def _draw_decided(sheet: Sheet, run: TimelineRun) -> None:
    """Add the lanes of the model: its messages, its states and its signals."""
    draw_turns(sheet, f"{run.letter} assistant".strip(), assistant_turns(run))
    if any(output.state for output in run.outputs):
        draw_states(sheet, run)
    if run.steps:
        draw_steps(sheet, run)
    for signal in run.signals:
        draw_signal(sheet, run, signal)


def draw_timeline(
    run: TimelineRun, *, from_s: float, to_s: float, width: Width, theme: Theme, below: TimelineRun | None = None
) -> Drawing:
    """Return the figure of a range at a width, with its data. Arguments and errors are those of ``build_timeline``."""
    start, end = check_range(run.duration_s, from_s, to_s)
    made = build_timeline(run, from_s=start, to_s=end, width_px=width.pixels, theme=theme, below=below)
    return Drawing(figure=made, width=width, rows=tuple(timeline_rows(run, from_s=start, to_s=end, below=below)))


def check_width(width_px: int) -> None:
    """Raise ``ValueError`` if a figure cannot have this width."""
    if not MIN_WIDTH_PX <= width_px <= MAX_WIDTH_PX:
        raise ValueError(f"a figure is {MIN_WIDTH_PX} to {MAX_WIDTH_PX} pixels (96 in an inch) wide; got {width_px}")


def check_range(duration_s: float, from_s: float | None, to_s: float | None) -> tuple[float, float]:
    """Return the range of a figure within a video. Raises ``ValueError`` if it is empty."""
    start, end = 0.0 if from_s is None else from_s, duration_s if to_s is None else to_s
    if not (math.isfinite(start) and math.isfinite(end)) or start < 0:
        raise ValueError(f"the range must be times from 0 s; got {start:g} to {end:g} s")
    end = min(end, duration_s)
    if not start < end:
        raise ValueError(f"the range from {start:g} to {end:g} s is empty; the video lasts {duration_s:g} s")
    return start, end


def _shade_unreached(sheet: Sheet, run: TimelineRun, *, top: float) -> None:
    """Shade the times that the run has not reached, from the height ``top`` of its lanes down."""
    if unreached := sheet.clip(run.reached_s, sheet.to_s):
        place = {"xref": "x", "x0": unreached[0], "x1": unreached[1], "yref": "y", "y0": top, "y1": sheet.top}
        fill = {"fillcolor": "rgba(125, 132, 142, 0.12)", "line": {"width": 0}}
        sheet.shapes.append({"type": "rect", "layer": "below", **place, **fill})
