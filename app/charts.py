"""Still charts of a run, as one Plotly figure over one axis of time, so that a zoom holds for all of it.

Above the two probabilities against their thresholds, a marker where they triggered; below a band per step, the
reference above the model. Texts are untrusted and escaped: Plotly renders a little HTML in labels.
"""

import html
import textwrap
from typing import Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.palette import GRID, INK, SPEAK, STATE_COLOURS, STATE_PATTERNS, UPDATE
from app.runs import Moment, Run, judge_updates, predicted_moments, reference_moments, spans
from app.words import STATE_WORDS, clock
from engine.records import FrameOutput

TRACE_PX: Final = 105
BAND_PX: Final = 17
LABEL_CHARS: Final = 26
HOVER_CHARS: Final = 60
TICK_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600)
MOST_TICKS: Final = 16


def draw_run(run: Run) -> go.Figure:
    """Draw a run with at least one output."""
    reference = reference_moments(run)
    num_bands = len(run.task.steps) * (2 if reference else 1)
    bands_px = BAND_PX * num_bands + 10
    heights = [TRACE_PX, TRACE_PX, bands_px] if num_bands else [TRACE_PX, TRACE_PX]
    figure = make_subplots(rows=len(heights), cols=1, shared_xaxes=True, row_heights=heights, vertical_spacing=0.035)
    _draw_speaking(figure, run)
    _draw_updating(figure, run)
    if num_bands:
        _draw_bands(figure, run, reference)
    _style(figure, run, height=sum(heights) + 90)
    return figure


def _draw_speaking(figure: go.Figure, run: Run) -> None:
    spoken = [output for output in run.outputs if output.response is not None]
    _draw_trace(figure, run, name="speak", probs=[o.speak_prob for o in run.outputs], row=1, colour=SPEAK)
    _draw_threshold(figure, run.config.speak_threshold, row=1, colour=SPEAK)
    texts = [_hover(output.response or "") for output in spoken]
    probs = [output.speak_prob for output in spoken]
    _draw_triggers(figure, spoken, probs, texts, name="spoke", symbols=["circle"] * len(spoken), row=1, colour=SPEAK)


def _draw_updating(figure: go.Figure, run: Run) -> None:
    updated = [output for output in run.outputs if output.updates]
    verdicts = judge_updates(run)
    _draw_trace(figure, run, name="update", probs=[o.update_prob for o in run.outputs], row=2, colour=UPDATE)
    _draw_threshold(figure, run.config.update_threshold, row=2, colour=UPDATE)
    texts, symbols = [], []
    for output in updated:
        judged = verdicts[output.frame_index]
        marks = [f" ({verdict})" if verdict != "legal" else "" for verdict in judged]
        texts.append("<br>".join(_hover(t) + mark for t, mark in zip(output.updates, marks, strict=True)))
        symbols.append("diamond" if set(judged) == {"legal"} else "x")
    probs = [output.update_prob for output in updated]
    _draw_triggers(figure, updated, probs, texts, name="updated (x: illegal)", symbols=symbols, row=2, colour=UPDATE)


def _draw_trace(figure: go.Figure, run: Run, *, name: str, probs: list[float], row: int, colour: str) -> None:
    figure.add_scatter(
        x=[output.time_s for output in run.outputs],
        y=probs,
        customdata=[clock(output.time_s, digits=1) for output in run.outputs],
        hovertemplate=f"%{{customdata}}  {name} %{{y:.3f}}<extra></extra>",
        mode="lines",
        line={"color": colour, "width": 1.6},
        name=f"{name} probability",
        showlegend=False,
        row=row,
        col=1,
    )


def _draw_threshold(figure: go.Figure, threshold: float, *, row: int, colour: str) -> None:
    figure.add_hline(
        y=threshold,
        line={"color": colour, "width": 1.3, "dash": "dash"},
        annotation={"text": f"threshold<br>{threshold:.2f}", "font": {"color": colour, "size": 11}, "xanchor": "left"},
        annotation_position="right",
        row=row,
        col=1,
    )


def _draw_triggers(
    figure: go.Figure,
    outputs: list[FrameOutput],
    probs: list[float],
    texts: list[str],
    *,
    name: str,
    symbols: list[str],
    row: int,
    colour: str,
) -> None:
    figure.add_scatter(
        x=[output.time_s for output in outputs],
        y=probs,
        text=texts,
        customdata=[clock(output.time_s, digits=1) for output in outputs],
        hovertemplate="%{customdata}  %{y:.3f}<br>%{text}<extra></extra>",
        mode="markers",
        cliponaxis=False,
        marker={"color": colour, "size": 9, "symbol": symbols},
        name=name,
        row=row,
        col=1,
    )


def _draw_bands(figure: go.Figure, run: Run, reference: list[Moment]) -> None:
    lanes = (
        [("reference", reference), ("model", predicted_moments(run))] if reference else [("", predicted_moments(run))]
    )
    end_s = run.reached_s + 1 / run.config.fps
    bars: dict[str, list[tuple[int, float, float, str]]] = {state: [] for state in STATE_WORDS}
    labels = []
    for number, step in enumerate(run.task.steps):
        for place, (lane, moments) in enumerate(lanes):
            height = number * len(lanes) + place
            labels.append(_band_label(f"{step.id} {step.name}", lane, is_first=place == 0))
            for span in spans(moments, step_id=step.id, end_s=end_s):
                hover = f"{html.escape(step.id)} {lane}: {STATE_WORDS[span.state]}, {clock(span.start_s, digits=1)}"
                bars[span.state].append((height, span.start_s, span.end_s, f"{hover} to {clock(span.end_s, digits=1)}"))
    for state, pieces in bars.items():
        figure.add_bar(
            y=[height for height, *_ in pieces],
            base=[start_s for _, start_s, *_ in pieces],
            x=[end_s - start_s for _, start_s, end_s, _ in pieces],
            customdata=[hover for *_, hover in pieces],
            hovertemplate="%{customdata}<extra></extra>",
            orientation="h",
            width=0.78,
            marker={
                "color": STATE_COLOURS[state],
                "pattern": {"shape": STATE_PATTERNS[state], "size": 5, "solidity": 0.35},
                "line": {"width": 0},
            },
            name=STATE_WORDS[state],
            row=3,
            col=1,
        )
    ticks = list(range(len(labels)))
    figure.update_yaxes(tickvals=ticks, ticktext=labels, range=[len(labels) - 0.4, -0.6], showgrid=False, row=3, col=1)


def _style(figure: go.Figure, run: Run, *, height: int) -> None:
    end_s = max(run.clip.duration_s, run.reached_s)
    step_s = next((step for step in TICK_STEPS_S if end_s / step <= MOST_TICKS), 3600)
    ticks = [step_s * number for number in range(int(end_s / step_s) + 1)]
    figure.update_layout(
        height=height,
        margin={"l": 10, "r": 70, "t": 44, "b": 34},
        barmode="overlay",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "size": 12},
        legend={"orientation": "h", "y": 1.03, "yanchor": "bottom", "x": 1, "xanchor": "right"},
        hoverlabel={"align": "left"},
    )
    figure.update_xaxes(
        range=[-0.005 * end_s, end_s],  # room for a marker at the start
        tickvals=ticks,
        ticktext=[clock(tick) for tick in ticks],
        gridcolor=GRID,
        zeroline=False,
    )
    figure.update_yaxes(automargin=True, zeroline=False, gridcolor=GRID)
    for row, title in ((1, "speak"), (2, "update")):
        figure.update_yaxes(range=[-0.04, 1.12], tickvals=[0, 0.5, 1], title=title, row=row, col=1)


def _band_label(name: str, lane: str, *, is_first: bool) -> str:
    short = name if len(name) <= LABEL_CHARS else name[: LABEL_CHARS - 1] + "…"
    return f"{html.escape(short) if is_first else ''}  {lane}"


def _hover(text: str) -> str:
    """Escape a text for a hover label and break it into lines."""
    return "<br>".join(html.escape(line) for line in textwrap.wrap(text, HOVER_CHARS))
