"""The signals: values per frame against their thresholds, with the decisions as markers; the cache and the latency."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from stepscope.app.figures.text import LINE, clean_text, fit_text, text_width, to_markup, wrap_text
from stepscope.app.figures.timeline.run import Signal, TimelineRun
from stepscope.app.figures.timeline.sheet import Sheet

_GAP: Final = 8.0
_MIN_WORD_PX: Final = 20
_STATES: Final = {
    **dict.fromkeys(("silent", "silence", "listen"), "reference"),
    "standby": "active",
    **dict.fromkeys(("respond", "response", "speak"), "done"),
    "delegate": "user",
}
"""Colours of states: the usual words, and those of Streamo and MiniCPM-o."""
_OTHERS: Final = ("latency", "reference", "speak", "update")
"""Colours of a model's own words, in turn."""
_REACH: Final = 0.1
"""Room above 1 and below 0 for markers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The sign of a kind of decision."""

    entry: str
    """Its words in the legend."""
    word: str
    """Its words in counts and tables. They differ from those of failures, which judge texts, too."""
    colour: str
    symbol: str
    """Plotly's name."""
    size_px: float
    """Diameter beside texts of 12 pixels."""


MARKS: Final = {
    "in_time": Mark(entry="decision in time", word="in time", colour="matched", symbol="circle", size_px=8),
    "unexpected": Mark(
        entry="unexpected decision", word="unexpected", colour="redundant", symbol="triangle-up", size_px=9
    ),
    "undecided": Mark(entry="no decision", word="no decision", colour="missed", symbol="x-thin", size_px=8),
}
"""Signs by the field of ``Decisions``: those of the player (``signals/decision_marks.js``)."""
_STROKE_PX: Final = 1.8
"""Width of the lines of a thin sign, as in the player."""


def draw_signal(sheet: Sheet, run: TimelineRun, signal: Signal) -> None:
    """Add one signal: its curve, its threshold and its decisions; of one without known values the decisions alone."""
    name, counts = _label_lines(sheet, run, signal)
    height = max(5.2 if _has_values(signal) else 0.0, LINE * len([*name, *counts])) * sheet.size
    sheet.top += _GAP
    span, ticks = signal.high - signal.low, [signal.low, (signal.low + signal.high) / 2, signal.high]
    ticks = ticks if _has_values(signal) else []
    axis = sheet.add_axis(
        sheet.top,
        height,
        range=[signal.low - _REACH * span, signal.high + _REACH * span],
        tickvals=ticks,
        ticktext=[f"{tick:.4g}" for tick in ticks],
    )
    ink = _ink(sheet, signal)
    _draw_curve(sheet, run, signal.values, axis, ink, name=to_markup(clean_text(signal.label)))
    if signal.threshold is not None:
        ends = {"x": [sheet.from_s, sheet.to_s], "y": [signal.threshold] * 2}
        dashes = {"color": ink, "width": 1.1, "dash": "dash"}
        sheet.add(go.Scatter(**ends, mode="lines", line=dashes, xaxis="x", yaxis=axis, hoverinfo="skip"))
        sheet.signs.setdefault("threshold", {"symbol": "line-ew-open", "color": sheet.colours["ink"], "dash": True})
    _draw_decisions(sheet, run, signal, axis)
    line = LINE * sheet.size
    top = sheet.top + max(0.0, (height - line * len([*name, *counts])) / 2)
    sheet.label(name, top + line * len(name) / 2, colour=ink)
    if counts:
        sheet.label(counts, top + line * (len(name) + len(counts) / 2))
    sheet.top += height


def _label_lines(sheet: Sheet, run: TimelineRun, signal: Signal) -> tuple[list[str], list[str]]:
    """Return the lines of the name with its condition, and of the counts of decisions."""
    widest = max(text_width(f"{tick:.4g}", sheet.size) for tick in (0.5, signal.low, signal.high))
    room, label = sheet.gutter_px - widest - 16, clean_text(signal.label)
    whole = f"{label} {signal.condition}".strip()
    parts = [whole] if text_width(whole, sheet.size) <= room else [label, signal.condition]
    name = [line for part in parts for line in wrap_text(part, room, sheet.size, max_lines=2)]
    counts = []
    for field, mark in MARKS.items():
        number = sum(sheet.is_visible(run.time_of(frame)) for frame in getattr(signal.decisions, field))
        if number and run.sample is not None:
            counts.append(f"{mark.word}: {number}")
    return name, ["decisions only", *counts] if counts else []


def _draw_decisions(sheet: Sheet, run: TimelineRun, signal: Signal, axis: str) -> None:
    for field, mark in MARKS.items():
        shown = [
            (frame, time) for frame in getattr(signal.decisions, field) if sheet.is_visible(time := run.time_of(frame))
        ]
        if not shown:
            continue
        has_reference = run.sample is not None
        ink = sheet.colours[mark.colour] if has_reference else _ink(sheet, signal)
        entry = mark.entry if has_reference else "decision"
        size = mark.size_px * sheet.size / 12
        sheet.signs.setdefault(entry, {"symbol": mark.symbol, "color": ink, "size": size})
        heights = [_mark_height(signal, field, frame) for frame, _ in shown]
        sheet.add(
            go.Scatter(
                x=[time for _, time in shown],
                y=heights,
                mode="markers",
                marker={"symbol": mark.symbol, "color": ink, "size": size, "line": mark_line(mark.symbol, ink)},
                name=f"{to_markup(clean_text(signal.label))}: {mark.word}",
                hovertemplate=f"%{{x:.2f}} s{', %{y:.3f}' * _has_values(signal)}<extra>%{{fullData.name}}</extra>",
                xaxis="x",
                yaxis=axis,
                cliponaxis=False,
            )
        )


def _has_values(signal: Signal) -> bool:
    return not all(map(math.isnan, signal.values))


def _mark_height(signal: Signal, field: str, frame: int) -> float:
    if not _has_values(signal):
        return (signal.low + signal.high) / 2
    return signal.low if field == "undecided" else float(np.nan_to_num(signal.values[frame]))


def mark_line(symbol: str, ink: str) -> dict[str, Any]:
    """Return the outline of a marker: thin signs have nothing else."""
    return {"color": ink, "width": _STROKE_PX if symbol.endswith("-thin") else 0}


def _ink(sheet: Sheet, signal: Signal) -> str:
    return sheet.colours.get(signal.colour or signal.name, sheet.colours["ink"])


def draw_states(sheet: Sheet, run: TimelineRun) -> None:
    """Add the states of the assistant as a band: a bar from each change to the next, with the word where it fits."""
    changes = [(0, run.outputs[0].state)] if run.outputs else []
    changes += [
        (after.frame_index, after.state) for before, after in pairwise(run.outputs) if after.state != before.state
    ]
    height, others = LINE * sheet.size, sorted({state for _, state in changes if state and state not in _STATES})
    sheet.label(["state"], sheet.top + height / 2)
    ends = [run.time_of(frame) for frame, _ in changes[1:]] + [run.reached_s]
    for (frame, state), end_s in zip(changes, ends, strict=True):
        span = sheet.clip(run.time_of(frame), end_s)
        if state is None or span is None:
            continue
        colour = _STATES.get(state) or _OTHERS[others.index(state) % len(_OTHERS)]
        box = {"x0": span[0], "x1": span[1], "y0": sheet.top, "y1": sheet.top + height, "xref": "x", "yref": "y"}
        fill = {"fillcolor": sheet.colours[colour], "opacity": 0.3, "line": {"width": 0}}
        sheet.shapes.append({"type": "rect", "layer": "below", **box, **fill})
        width = sheet.plot_px * (span[1] - span[0]) / (sheet.to_s - sheet.from_s)
        if word := fit_text(clean_text(state), width - 6, sheet.size) if width > _MIN_WORD_PX else "":
            at = sheet.gutter_px + sheet.plot_px * (span[0] - sheet.from_s) / (sheet.to_s - sheet.from_s)
            sheet.label([word], sheet.top + height / 2, x=at)
    sheet.top += height + 3


def draw_cache(sheet: Sheet, run: TimelineRun) -> None:
    """Add the tokens in the cache, with its refreshes; nothing if they are not known, as in many imported runs."""
    tokens = [float(output.cache_tokens) for output in run.outputs]
    if not any(tokens):
        return
    height, ink = 2.6 * sheet.size, sheet.colours["latency"]
    refreshes = [output.time_s for output in run.outputs if output.refreshed and sheet.is_visible(output.time_s)]
    most = max([*tokens, 1.0])
    sheet.top += _GAP
    ticks = {"tickvals": [0, most], "ticktext": ["0", f"{most:.0f}"]}
    axis = sheet.add_axis(sheet.top, height, range=[0, 1.15 * most], **ticks)
    _draw_curve(sheet, run, tokens, axis, ink, name="tokens", fills=True)
    if refreshes:
        sheet.add(
            go.Scatter(
                x=[x for time in refreshes for x in (time, time, None)],
                y=[y for _ in refreshes for y in (0, 1.15 * most, None)],
                mode="lines",
                line={"color": sheet.colours["ink"], "width": 1, "dash": "dot"},
                name="refresh",
                hoverinfo="name",
                xaxis="x",
                yaxis=axis,
            )
        )
        sheet.signs["cache refresh"] = {"symbol": "line-ns-open", "color": sheet.colours["ink"], "dash": True}
    room = sheet.gutter_px - text_width(f"{most:.0f}", sheet.size) - 16
    lines = wrap_text("cache tokens", room, sheet.size, max_lines=2)
    sheet.label(lines, sheet.top + height / 2, colour=ink)
    sheet.top += height


def draw_latency(sheet: Sheet, run: TimelineRun) -> None:
    """Add the model time of each frame; nothing if it was not measured, as in imported runs.

    The axis ends at the longest time in the range, as in the player.
    """
    measured = [output for output in run.outputs if output.latency_ms > 0]
    if not measured:
        return
    height, ink = 2.6 * sheet.size, sheet.colours["latency"]
    most = max((output.latency_ms for output in measured if sheet.is_visible(output.time_s)), default=1.0)
    sheet.top += _GAP
    word = f"{most:.0f}" if most >= 10 else f"{most:.2g}"
    axis = sheet.add_axis(sheet.top, height, range=[0, 1.15 * most], tickvals=[0, most], ticktext=["0", word])
    values = [output.latency_ms if output.latency_ms > 0 else math.nan for output in run.outputs]
    _draw_curve(sheet, run, values, axis, ink, name="latency (ms)")
    lines = wrap_text("latency (ms)", sheet.gutter_px - text_width(word, sheet.size) - 16, sheet.size, max_lines=2)
    sheet.label(lines, sheet.top + height / 2, colour=ink)
    sheet.top += height


def _draw_curve(
    sheet: Sheet, run: TimelineRun, values: Sequence[float], axis: str, ink: str, *, name: str, fills: bool = False
) -> None:
    """Add the curve of the visible frames and of one to either side, which the border cuts."""
    times = np.array([output.time_s for output in run.outputs])
    first = max(0, int(np.searchsorted(times, sheet.from_s)) - 1)
    last = min(len(times), int(np.searchsorted(times, sheet.to_s, side="right")) + 1)
    kept = first + reduce_curve(np.array(values[first:last], float), most=int(2 * sheet.plot_px))
    shown = np.array([values[frame] for frame in kept.tolist()], float)
    line = {"color": ink, "width": 1.0 if fills else 1.4}
    sheet.add(
        go.Scatter(
            x=times[kept].tolist(),
            y=[None if np.isnan(values[frame]) else values[frame] for frame in kept.tolist()],
            mode="lines+markers" if _has_lone_point(shown) else "lines",
            line=line,
            marker={"color": ink, "size": 3},
            fill="tozeroy" if fills else None,
            name=name,
            hovertemplate="%{x:.2f} s, %{y:.3g}<extra>%{fullData.name}</extra>",
            xaxis="x",
            yaxis=axis,
        )
    )


def _has_lone_point(values: NDArray[np.float64]) -> bool:
    """Return whether a known value has unknown neighbours, so that no line leads to it."""
    known = np.pad(~np.isnan(values), 1)
    return bool((known[1:-1] & ~known[:-2] & ~known[2:]).any())


def reduce_curve(values: NDArray[np.float64], *, most: int) -> NDArray[np.intp]:
    """Return the indices of about ``most`` values that look like all: the extremes of equal parts.

    Of ``0 5 1 2 9 3`` with ``most`` 4 the parts are ``0 5 1`` and ``2 9 3``, and the indices 0, 1, 3 and 4.
    """
    if len(values) <= most:
        return np.arange(len(values))
    kept = {0, len(values) - 1}
    for part in np.array_split(np.arange(len(values)), max(1, most // 2)):
        known = part[~np.isnan(values[part])]
        if len(known):
            kept |= {int(known[np.argmin(values[known])]), int(known[np.argmax(values[known])])}
        else:
            kept.add(int(part[0]))
    return np.array(sorted(kept))
