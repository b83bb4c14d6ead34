"""The lanes of the steps: the reference's state above the model's, hatched where they differ."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from stepscope.app.figures.text import LINE, clean_text, text_width, wrap_text
from stepscope.app.figures.timeline.bands import Band, model_bands, reference_bands
from stepscope.app.figures.timeline.run import TimelineRun
from stepscope.app.figures.timeline.sheet import Sheet
from stepscope.app.style.colours import Theme
from stepscope.engine.dialogue import STATES

Span = tuple[float, float]

_STATES: Final = (("not started", "reference", 0.16), ("in progress", "active", 0.5), ("completed", "done", 0.9))
"""Per state its word, its colour, and the share of the band's height."""
_FAINT: Final[dict[Theme, str]] = {"light": "#b9bec6", "dark": "#6b717b"}
_MANY_STEPS: Final = 8
_LABEL_GAP: Final = 10.0
DIFFERENT: Final = "model differs"


def state_spans(band: Band, run: TimelineRun, *, end_s: float) -> Iterator[tuple[str, Span]]:
    """Yield each state of a band with its begin and end in seconds."""
    for number, (frame, state) in enumerate(band):
        after = run.time_of(band[number + 1][0]) if number + 1 < len(band) else end_s
        yield STATES[state], (0.0 if frame < 0 else run.time_of(frame), after)


def differences(run: TimelineRun, step_id: str) -> list[Span]:
    """Return the times in which the model's state of a step is wrong; none if its states are not known."""
    spans: list[Span] = []
    for failure in run.judged.failures if run.judged and run.has_states else ():
        if step_id in failure.step_ids:
            end = failure.end_frame
            span = run.time_of(failure.frame_index), run.time_of(end) if end < len(run.outputs) else run.reached_s
            if spans and spans[-1][1] == span[0]:
                spans[-1] = spans[-1][0], span[1]
            else:
                spans.append(span)
    return spans


def step_bands(run: TimelineRun) -> dict[str, list[list[tuple[str, Span]]]]:
    """Return the states of each step by source: ``reference`` and ``model``, as far as they are known."""
    sources = {}
    if run.sample is not None:
        sources["reference"] = [
            list(state_spans(band, run, end_s=run.duration_s)) for band in reference_bands(run.sample)
        ]
    if run.has_states:
        model = model_bands(run.steps, run.outputs, run.initial_state)
        sources["model"] = [list(state_spans(band, run, end_s=run.reached_s)) for band in model]
    return sources


def draw_steps(sheet: Sheet, run: TimelineRun) -> None:
    """Add a lane for each step whose states are known."""
    sources = step_bands(run)
    if not sources:
        return
    band_px = _band_px(sheet, run, num_bands=len(sources))
    sheet.top += 4
    if len(sources) > 1 or not run.has_states:
        words = "reference above, model below" if run.has_states else "reference; those of the model are not known"
        note = wrap_text(f"step states: {words}", sheet.plot_px, sheet.size, max_lines=3)
        height = LINE * sheet.size * len(note)
        sheet.label(note, sheet.top + height / 2, colour=sheet.colours["reference"], x=sheet.gutter_px)
        sheet.top += height
    bars: dict[str, list[tuple[Span, float, float]]] = {state: [] for state in STATES}
    wrong: list[tuple[Span, float, float]] = []
    for number, step in enumerate(run.steps):
        height = band_px * len(sources)
        _label(sheet, f"{step.id} {step.name}", height)
        for place, bands in enumerate(sources.values()):
            middle = sheet.top + (place + 0.5) * band_px
            for state, span in bands[number]:
                share = _STATES[STATES.index(state)][2]
                if shown := sheet.clip(*span):
                    bars[state].append((shown, middle, band_px * share))
        middle = sheet.top + height - band_px / 2
        wrong += [(shown, middle, band_px - 1.0) for span in differences(run, step.id) if (shown := sheet.clip(*span))]
        sheet.top += height + 4
    for state, (word, colour, _) in zip(STATES, _STATES, strict=True):
        ink = _FAINT[sheet.theme] if colour == "reference" else sheet.colours[colour]
        _draw_bars(sheet, bars[state], word, {"color": ink, "line": {"width": 0}}, symbol="square")
    _draw_bars(sheet, wrong, DIFFERENT, _hatching(sheet.colours["ink"]), symbol="square-x-open")


def _band_px(sheet: Sheet, run: TimelineRun, *, num_bands: int) -> float:
    """Return the height of a band, so that the label of each step has its lines, at most two."""
    if len(run.steps) > _MANY_STEPS:
        return max(5.0, LINE * sheet.size / num_bands)
    labels = [text_width(clean_text(f"{step.id} {step.name}"), sheet.size) for step in run.steps]
    num_lines = 2 if max(labels) > sheet.gutter_px - _LABEL_GAP else 1
    return max(0.95 * sheet.size, num_lines * LINE * sheet.size / num_bands)


def _label(sheet: Sheet, text: str, height: float) -> None:
    max_lines = max(1, int((height + 3) // (LINE * sheet.size)))
    lines = wrap_text(clean_text(text), sheet.gutter_px - _LABEL_GAP, sheet.size, max_lines=max_lines)
    sheet.label(lines, sheet.top + height / 2)


def _hatching(ink: str) -> dict[str, Any]:
    pattern = {"shape": "/", "size": 4, "solidity": 0.25, "fgcolor": ink, "bgcolor": "rgba(0, 0, 0, 0)"}
    return {"color": "rgba(0, 0, 0, 0)", "pattern": pattern, "line": {"width": 0.8, "color": ink}}


def _draw_bars(
    sheet: Sheet, bars: Sequence[tuple[Span, float, float]], word: str, marker: dict[str, Any], *, symbol: str
) -> None:
    if not bars:
        return
    sheet.signs[word] = {"symbol": symbol, "color": marker.get("pattern", {}).get("fgcolor", marker["color"])}
    sheet.add(
        go.Bar(
            orientation="h",
            base=[start for (start, _), _, _ in bars],
            x=[end - start for (start, end), _, _ in bars],
            y=[middle for _, middle, _ in bars],
            width=[height for _, _, height in bars],
            marker=marker,
            name=word,
            hoverinfo="name",
            xaxis="x",
            yaxis="y",
        )
    )
