"""Scores of single steps, of classes of steps with the same text, and of causes such as mistakes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from stepscope.eval.metrics.counts import Pool
from stepscope.eval.metrics.segments import CountedStep, SegmentCounts, summarize_segments

Row = Mapping[str, str | float]
STEP_SCORES: Final = tuple(
    name
    for name in summarize_segments(SegmentCounts())
    if name not in ("mof", "edit", "completion_order") and not name.endswith("_bg")
)
"""Scores that a single step has; the others are of the order of steps, or of the background."""
STEP_COLUMNS: Final = ("level", "video_id", "step_id", "name", "num_steps", "num_with_cause", *STEP_SCORES)


def tabulate_steps(steps: Sequence[CountedStep]) -> list[Row]:
    """Return a row per step of a video, then one per class and one per cause; undefined scores are nan."""
    groups: dict[str, dict[str, list[CountedStep]]] = {"class": defaultdict(list), "cause": defaultdict(list)}
    for one in steps:
        groups["class"][one.step.name.casefold()].append(one)
        if one.cause:
            groups["cause"][one.cause].append(one)
    rows: list[Row] = [
        _row("step", one.step.name, [one]) | {"video_id": one.video_id, "step_id": one.step.id} for one in steps
    ]
    for level, found in groups.items():
        rows += [_row(level, name if level == "cause" else same[0].step.name, same) for name, same in found.items()]
    return rows


def _row(level: str, name: str, steps: Sequence[CountedStep]) -> dict[str, str | float]:
    counts = [one.counts for one in steps]
    scores = summarize_segments(Pool(counts, SegmentCounts).total() if len(counts) > 1 else counts[0])
    return {
        "level": level,
        "video_id": "",
        "step_id": "",
        "name": name,
        "num_steps": len(steps),
        "num_with_cause": sum(bool(one.cause) for one in steps),
        **{name: scores[name] for name in STEP_SCORES},
    }
