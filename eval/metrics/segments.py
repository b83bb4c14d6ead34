"""Scores of action segmentation, action starts and procedures, from the states of the steps.

The label of a frame is the step in progress, of several the one that started last, or the background. A step starts and
is completed once, at the first frame of that state.

**Source**: MS-TCN, ``eval.py`` (MoF, edit, F1); IndustReal (arXiv 2310.17323: order, F1 and delay of completions);
EgoPER (CVPR 2024: omissions); Differentiable Task Graph Learning (arXiv 2406.01486: preconditions).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.engine.dialogue import initial_state, parse_update
from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.updates import reference_updates
from stepscope.eval.metrics.counts import Counts, ratio
from stepscope.eval.metrics.decisions import TOLERANCES_S
from stepscope.eval.metrics.dialogue_state import reference_states
from stepscope.eval.metrics.matched_video import MatchedVideo, Measure

BACKGROUND: Final = ""
OVERLAPS: Final = (10, 25, 50)
"""Least IoU of a right segment, in percent."""
_ROUNDING: Final = 1e-9


class Segment(NamedTuple):
    """Consecutive frames with one label, from ``start`` to before ``end``."""

    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """What one side, the reference or the outputs, states about a video of ``T`` frames."""

    labels: tuple[str | None, ...]
    """``[T]``; None where a frame has no output."""
    starts: Mapping[str, int]
    """The frame of each start, in order; none of a step that was started before the video."""
    completions: Mapping[str, int]
    violations: frozenset[str]
    """Steps that start before all their predecessors in the recipe's graph are completed."""

    def only(self, step: str) -> "StepTrace":
        """Return what it states about one step; the others are background."""
        return StepTrace(
            labels=tuple(label if label in (step, None) else BACKGROUND for label in self.labels),
            starts={one: frame for one, frame in self.starts.items() if one == step},
            completions={one: frame for one, frame in self.completions.items() if one == step},
            violations=self.violations & {step},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMatches(Counts):
    """The segments of one or many videos."""

    num_videos: int = 0
    """Videos in which either side has a segment."""
    edit_sum: float = 0.0
    num_gen: int = 0
    num_ref: int = 0
    num_hits: tuple[float, ...] = (0.0,) * len(OVERLAPS)
    """Segments of both sides that overlap, per least IoU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentCounts(Counts):
    """The frames, segments, starts and completions of one or many videos."""

    num_frames: int = 0
    num_right: int = 0
    num_step_frames: int = 0
    """Frames at which the reference has a step in progress."""
    num_step_right: int = 0
    segments: SegmentMatches = field(default_factory=SegmentMatches)
    with_background: SegmentMatches = field(default_factory=SegmentMatches)
    """The same, with the background as an action."""
    num_starts: int = 0
    num_starts_hit: tuple[float, ...] = (0.0,) * len(TOLERANCES_S)
    num_orders: int = 0
    """Videos whose reference completes a step."""
    order_sum: float = 0.0
    num_completions_hit: int = 0
    num_completions_false: int = 0
    num_completions_missed: int = 0
    completion_delay_sum_s: float = 0.0
    num_omitted: int = 0
    """Steps that the reference never starts; then those that neither side starts, and those of either side."""
    num_omitted_by_both: int = 0
    num_omitted_by_either: int = 0
    num_graph_starts: int = 0
    """Predicted starts in videos whose recipe is a graph; then those that violate it, and the same of the reference."""
    num_violations: int = 0
    num_ref_graph_starts: int = 0
    num_ref_violations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedStep:
    """The counts of one step of a video, as if the others were background."""

    video_id: str
    step: Step
    cause: str
    """Why its completion is hard, such as a mistake; empty if the data names no reason."""
    counts: SegmentCounts


def count_segments(outputs: Sequence[FrameOutput], sample: Sample) -> SegmentCounts:
    """Count one video; a video without steps has no counts, so that its scores are undefined."""
    return _compare(*_trace(outputs, sample), sample, sample.steps) if sample.steps else SegmentCounts()


def count_steps(outputs: Sequence[FrameOutput], sample: Sample) -> tuple[CountedStep, ...]:
    """Count each step of one video."""
    gen, ref = _trace(outputs, sample)
    updates = ((parse_update(turn.text), turn.cause) for turn in sample.turns if turn.role == "update")
    causes = {one.step_id: cause for one, cause in updates if one is not None and one.transition == "complete"}
    return tuple(
        CountedStep(
            video_id=sample.video_id,
            step=step,
            cause=causes.get(step.id) or "",
            counts=_compare(gen.only(step.id), ref.only(step.id), sample, (step,)),
        )
        for step in sample.steps
    )


def _trace(outputs: Sequence[FrameOutput], sample: Sample) -> tuple[StepTrace, StepTrace]:
    """Return what the outputs and the reference state."""
    texts = defaultdict[int, list[str]](list)
    for update in reference_updates(sample):
        texts[update.frame_index].append(update.text)
    states = enumerate(reference_states(sample))
    ref = trace_steps(sample, ((frame, state, texts[frame]) for frame, state in states))
    return trace_steps(sample, ((one.frame_index, one.dst_state, one.updates) for one in outputs)), ref


def _compare(gen: StepTrace, ref: StepTrace, sample: Sample, steps: Iterable[Step]) -> SegmentCounts:
    """Count two traces, which are of these steps alone."""
    pairs = list(zip(gen.labels, ref.labels, strict=True))
    num_right = sum(one == other for one, other in pairs)
    num_step_right = sum(one == other for one, other in pairs if other)
    delays_s = {step: (gen.starts[step] - ref.starts[step]) / sample.fps for step in ref.starts if step in gen.starts}
    hits = [sum(abs(delay) <= tolerance + _ROUNDING for delay in delays_s.values()) for tolerance in TOLERANCES_S]
    orders = list(ref.completions), list(gen.completions)
    given = initial_state(sample.steps, sample.initial_state)
    left = {step.id for step in steps if given[step.id] == "not_started"}
    omitted, predicted = left - ref.starts.keys(), left - gen.starts.keys()
    late = [gen.completions[step] - ref.completions[step] for step in gen.completions if step in ref.completions]
    in_time = [frames / sample.fps for frames in late if frames >= 0]
    has_graph = bool(sample.after)
    return SegmentCounts(
        num_frames=sample.num_frames,
        num_right=num_right,
        num_step_frames=sum(bool(other) for _, other in pairs),
        num_step_right=num_step_right,
        segments=_match(gen, ref, with_background=False),
        with_background=_match(gen, ref, with_background=True),
        num_starts=len(ref.starts),
        num_starts_hit=tuple(map(float, hits)),
        num_orders=int(bool(orders[0])),
        order_sum=max(0.0, 1 - measure_disorder(*orders) / len(orders[0])) if orders[0] else 0.0,
        num_completions_hit=len(in_time),
        num_completions_false=len(gen.completions) - len(in_time),
        num_completions_missed=len(ref.completions.keys() - gen.completions.keys()),
        completion_delay_sum_s=sum(in_time),
        num_omitted=len(omitted),
        num_omitted_by_both=len(omitted & predicted),
        num_omitted_by_either=len(omitted | predicted),
        num_graph_starts=len(gen.starts) * has_graph,
        num_violations=len(gen.violations),
        num_ref_graph_starts=len(ref.starts) * has_graph,
        num_ref_violations=len(ref.violations),
    )


def trace_steps(sample: Sample, frames: Iterable[tuple[int, Mapping[str, str], Sequence[str]]]) -> StepTrace:
    """Return what one side states; ``frames`` are its frames in order, each with its state and its updates."""
    before: Mapping[str, str] = initial_state(sample.steps, sample.initial_state)
    under_way = [step for step, state in before.items() if state == "in_progress"]
    labels: list[str | None] = [None] * sample.num_frames
    starts, completions, violations = dict[str, int](), dict[str, int](), set[str]()
    for frame, state, texts in frames:
        if state != before:
            named = [update.step_id for update in map(parse_update, texts) if update is not None]
            # At one frame, steps without an update come first, in the order of the task, then those with one.
            rank = {step: number for number, step in enumerate(named)}
            changed = [step for step in before if state[step] != before[step]]
            for step in sorted(changed, key=lambda step: rank.get(step, -1)):
                under_way = [other for other in under_way if other != step]
                if state[step] == "in_progress":
                    under_way.append(step)
                if state[step] == "completed":
                    completions.setdefault(step, frame)
                if before[step] == "not_started" and step not in starts:
                    starts[step] = frame
                    if any(state[other] != "completed" for other in sample.after.get(step, ())):
                        violations.add(step)
            before = state
        if frame < sample.num_frames:
            labels[frame] = under_way[-1] if under_way else BACKGROUND
    return StepTrace(labels=tuple(labels), starts=starts, completions=completions, violations=frozenset(violations))


def list_segments(labels: Sequence[str | None], *, with_background: bool) -> Iterator[Segment]:
    """Yield the longest stretches of frames with one label, in order."""
    start = 0
    for label, stretch in groupby(labels):
        end = start + len(list(stretch))
        if label is not None and (with_background or label != BACKGROUND):
            yield Segment(label, start, end)
        start = end


def _match(gen: StepTrace, ref: StepTrace, *, with_background: bool) -> SegmentMatches:
    ours, theirs = (list(list_segments(side.labels, with_background=with_background)) for side in (gen, ref))
    longer = max(len(ours), len(theirs))
    if not longer:
        return SegmentMatches()
    distance = int(measure_edits([one.label for one in ours], [[one.label for one in theirs]])[0])
    return SegmentMatches(
        num_videos=1,
        edit_sum=1 - distance / longer,
        num_gen=len(ours),
        num_ref=len(theirs),
        num_hits=tuple(float(count_overlaps(ours, theirs, least_iou=percent / 100)) for percent in OVERLAPS),
    )


def count_overlaps(gen: Sequence[Segment], ref: Sequence[Segment], *, least_iou: float) -> int:
    """Return the predicted segments whose best reference of the same label overlaps, and is not taken already."""
    taken = set[Segment]()
    for one in gen:
        ious = {other: _iou(one, other) for other in ref if other.label == one.label}
        best = max(ious, key=lambda other: ious[other], default=None)
        if best is not None and ious[best] >= least_iou - _ROUNDING:
            taken.add(best)
    return len(taken)


def _iou(one: Segment, other: Segment) -> float:
    return (min(one.end, other.end) - max(one.start, other.start)) / (
        max(one.end, other.end) - min(one.start, other.start)
    )


def measure_edits(sequence: Sequence[str], others: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Return the Levenshtein distance from a sequence, such as a text, to each of ``N`` others, ``[N]``."""
    codes = {item: number for number, item in enumerate(set(sequence).union(*others))}
    lengths = np.array([len(other) for other in others], np.int64)
    table = np.full((len(others), lengths.max(initial=0)), -1)
    for row, other in zip(table, others, strict=True):
        row[: len(other)] = [codes[item] for item in other]
    positions = np.arange(table.shape[1] + 1)
    costs = np.tile(positions, (len(others), 1))  # from the items so far to the first items of the others
    for number, item in enumerate(sequence, start=1):
        best = np.minimum(costs[:, 1:] + 1, costs[:, :-1] + (table != codes[item]))
        best = np.column_stack((np.full(len(others), number), best))
        costs = np.minimum.accumulate(best - positions, axis=1) + positions  # further insertions cost 1 each
    found: NDArray[np.int64] = costs[np.arange(len(others)), lengths]
    return found


def measure_disorder(ref: Sequence[str], gen: Sequence[str]) -> int:
    """Return the Damerau-Levenshtein distance; a substitution costs 2, all else 1.

    From 1, 2, 3 to 2, 1, 3 it is 1: the first two change places.
    """
    costs = [[len(ref) + len(gen)] * (len(gen) + 2) for _ in range(len(ref) + 2)]  # shifted by 1 for the last pair
    for row in range(len(ref) + 1):
        costs[row + 1][1] = row
    costs[1][1:] = range(len(gen) + 1)
    last_row = dict.fromkeys(gen, 0)
    for row, item in enumerate(ref, start=1):
        last_column = 0
        for column, other in enumerate(gen, start=1):
            above, left = last_row[other], last_column
            costs[row + 1][column + 1] = min(
                costs[row][column] + 2 * (item != other),
                costs[row + 1][column] + 1,
                costs[row][column + 1] + 1,
                costs[above][left] + (row - above - 1) + 1 + (column - left - 1),
            )
            if item == other:
                last_column = column
        last_row[item] = row
    return costs[-1][-1]


def summarize_segments(counts: SegmentCounts) -> dict[str, float]:
    """Return all scores of one video, or of a split from added counts; ``eval.metrics.definitions`` defines them."""
    scores = {
        "mof": ratio(counts.num_right, counts.num_frames),
        "mof_steps": ratio(counts.num_step_right, counts.num_step_frames),
    }
    for suffix, found in (("", counts.segments), ("_bg", counts.with_background)):
        scores[f"edit{suffix}"] = ratio(found.edit_sum, found.num_videos)
        for percent, hits in zip(OVERLAPS, found.num_hits, strict=True):
            scores[f"segment_f1_{percent}{suffix}"] = ratio(2 * hits, found.num_gen + found.num_ref)
    for tolerance, hits in zip(TOLERANCES_S, counts.num_starts_hit, strict=True):
        scores[f"start_recall_{tolerance:g}s"] = ratio(hits, counts.num_starts)
    hit, wrong = counts.num_completions_hit, counts.num_completions_false + counts.num_completions_missed
    return scores | {
        "completion_order": ratio(counts.order_sum, counts.num_orders),
        "completion_f1": ratio(2 * hit, 2 * hit + wrong),
        "completion_delay_s": ratio(counts.completion_delay_sum_s, hit),
        "omission_iou": ratio(counts.num_omitted_by_both, counts.num_omitted_by_either),
        "omission_recall": ratio(counts.num_omitted_by_both, counts.num_omitted),
        "precondition_violations": ratio(counts.num_violations, counts.num_graph_starts),
        "precondition_violations_reference": ratio(counts.num_ref_violations, counts.num_ref_graph_starts),
    }


def _count(video: MatchedVideo) -> SegmentCounts:
    return count_segments(video.outputs, video.sample) if video.has_states else SegmentCounts()


MEASURES = (Measure(name="segments", kind=SegmentCounts, count=_count, summarize=summarize_segments),)
