"""The data that a timeline draws, as tidy rows: one for each turn, state, frame of a signal and decision."""

from collections.abc import Iterator
from typing import Final

from stepscope.app.figures.timeline.run import TimelineRun
from stepscope.app.figures.timeline.signals import MARKS
from stepscope.app.figures.timeline.steps import differences, step_bands
from stepscope.app.figures.timeline.turns import assistant_turns, reference_turns, user_turns
from stepscope.engine.io.files import Cell

COLUMNS: Final = ("video_id", "run", "lane", "series", "time_s", "end_s", "value", "text")
Row = dict[str, Cell]


def timeline_rows(run: TimelineRun, *, from_s: float, to_s: float, below: TimelineRun | None = None) -> Iterator[Row]:
    """Yield the rows of a range, borders included. Spans that begin or end outside are cut at its borders.

    Those of ``below``, a second run, follow, without the reference and the user turns.
    """
    for shown in (run,) if below is None else (run, below):
        source = {"video_id": shown.video_id, "run": shown.run_name}
        for row in _rows(shown, is_second=shown is below):
            start, end = row["time_s"], row.get("end_s")
            assert isinstance(start, float)
            if isinstance(end, float):
                if start < to_s and end > from_s:
                    yield {**_EMPTY, **source, **row, "time_s": max(start, from_s), "end_s": min(end, to_s)}
            elif from_s <= start <= to_s:
                yield {**_EMPTY, **source, **row}


_EMPTY: Final[Row] = dict.fromkeys(COLUMNS)


def _rows(run: TimelineRun, *, is_second: bool) -> Iterator[Row]:
    given = {} if is_second else {"user": user_turns(run), "reference": reference_turns(run)}
    lanes = {**given, "assistant": assistant_turns(run)}
    for lane, turns in lanes.items():
        for turn in turns:
            yield {"lane": lane, "series": turn.look, "time_s": float(turn.time_s), "text": turn.text}
    for source, bands in step_bands(run).items():
        if is_second and source == "reference":
            continue
        for step, band in zip(run.steps, bands, strict=True):
            for state, (start, end) in band:
                yield {"lane": step.id, "series": source, "time_s": start, "end_s": end, "text": state}
    for step in run.steps:
        for start, end in differences(run, step.id):
            yield {"lane": step.id, "series": "differs", "time_s": start, "end_s": end}
    for signal in run.signals:
        for output, value in zip(run.outputs, signal.values, strict=True):
            yield {"lane": signal.name, "series": signal.label, "time_s": output.time_s, "value": value}
        for field, mark in MARKS.items():
            for frame in getattr(signal.decisions, field):
                row: Row = {"lane": signal.name, "series": mark.word, "time_s": run.time_of(frame)}
                yield row if field == "undecided" else {**row, "value": signal.values[frame]}
        if signal.threshold is not None:
            threshold: Row = {"lane": signal.name, "series": "threshold", "value": signal.threshold}
            yield {**threshold, "time_s": 0.0, "end_s": float(run.duration_s)}
    for output in run.outputs:
        if output.state is not None:
            yield {"lane": "state", "series": "state", "time_s": output.time_s, "text": output.state}
        yield {"lane": "cache", "series": "tokens", "time_s": output.time_s, "value": output.cache_tokens}
        if output.latency_ms > 0:
            yield {"lane": "latency", "series": "ms", "time_s": output.time_s, "value": output.latency_ms}
        if output.refreshed:
            yield {"lane": "cache", "series": "refresh", "time_s": output.time_s}
