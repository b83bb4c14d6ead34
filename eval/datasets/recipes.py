"""Segments become the steps of a video and the updates of its reference.

A step gets at most one start and one complete, since a second one would be illegal. With a recipe, the k-th segment
of a step fills the k-th entry of that step; surplus segments extend the last one, or are left out.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, Literal

from stepscope.engine.records import Step, frame_at
from stepscope.eval.data.json_fields import MAX_DURATION_S, MAX_SAMPLE_FRAMES
from stepscope.eval.data.samples import Sample, Turn, is_inside, turn_order
from stepscope.eval.datasets.segments import AnnotatedVideo, RecipeStep, Segment, normalise

Repeats = Literal["auto", "occurrence", "merge", "first"]
Wrong = Literal["done", "open"]
_SAME_IOU: Final = 0.9
"""Segments of a step with a larger intersection over union are one segment, annotated twice."""
_STEP_ID: Final = re.compile(r"S[1-9]\d{0,5}", re.ASCII)
_OTHER_UNIT: Final = 3.0
"""An end this many times later than that of the video means another unit."""


@dataclass(slots=True, kw_only=True)
class _Entry:
    """One step of a video, and its segments."""

    step: RecipeStep
    segments: list[Segment] = field(default_factory=list)

    def is_open(self, wrong: Wrong) -> bool:
        """Whether the step has been started and waits for a correct segment."""
        return wrong == "open" and bool(self.segments) and all(segment.cause for segment in self.segments)


def build_sample(
    video: AnnotatedVideo,
    *,
    fps: float,
    duration_s: float | None = None,
    recipe: Sequence[RecipeStep] = (),
    repeats: Repeats = "auto",
    wrong: Wrong = "done",
) -> tuple[Sample, Counter[str]]:
    """Return the sample of a video, and how many annotations were left out or changed, by the reason.

    ``duration_s`` is the length of the video's file; without it, that of the annotations counts, or else the last end.
    Raises ``ValueError`` with one sentence if the segments do not fit into the video.
    """
    counts = Counter(video.left_out)
    done = sorted(_drop_duplicates(video.segments, counts), key=lambda segment: (segment.start_s, segment.end_s))
    last_s = max((segment.end_s for segment in done), default=0.0)
    length_s = duration_s or video.duration_s or None
    _check_unit(last_s, length_s)
    num_frames = frame_at(last_s, fps) + 1 if length_s is None else max(1, math.ceil(length_s * fps - 1e-6))
    if num_frames > min(MAX_DURATION_S * fps, MAX_SAMPLE_FRAMES):
        raise ValueError(f"a video has at most a day and {MAX_SAMPLE_FRAMES} frames; got {num_frames / fps:,.0f} s")
    recipe = () if repeats == "occurrence" else recipe
    never = [segment for segment in video.segments if not segment.is_done]
    entries = _assign(done, never, recipe, counts, repeats, wrong)
    named = zip(_list_ids(entries), entries, strict=True)
    steps = tuple(Step(id=step_id, name=entry.step.name) for step_id, entry in named)
    before = {step.id: tuple(steps[i].id for i in entry.step.after) for step, entry in zip(steps, entries, strict=True)}
    after = {step_id: ids for step_id, ids in before.items() if ids}
    sample = Sample(video_id=video.video_id, fps=fps, num_frames=num_frames, goal=video.goal, steps=steps, after=after)
    updates = list(_make_updates(entries, sample, counts, wrong))
    messages = [turn for turn in video.turns if is_inside(turn.time_s, sample)]
    counts["message outside"] += len(video.turns) - len(messages)
    return replace(sample, turns=tuple(sorted([*updates, *messages], key=turn_order))), +counts


def read_graph(content: Mapping[str, Any]) -> tuple[RecipeStep, ...]:
    """Return the recipe of a task graph, an object with ``steps`` by id and ``edges``, each from a step to a later one.

    The steps are in an order that the graph allows. Raises ``ValueError`` for an edge of an unknown step, or a cycle.
    """
    names, edges = content["steps"], content["edges"]
    if not isinstance(names, dict) or not isinstance(edges, list):
        raise ValueError("a task graph has an object of steps and a list of edges")
    before = defaultdict[str, set[str]](set)
    for edge in edges:
        ends = [str(end) for end in edge] if isinstance(edge, list) else []
        if len(ends) != 2 or not set(ends) <= set(names):
            raise ValueError(f"an edge of a task graph is a list of the ids of two of its steps; got {str(edge)[:40]}")
        before[ends[1]].add(ends[0])
    try:
        order = list(TopologicalSorter({name: before[name] for name in names}).static_order())
    except CycleError as error:
        raise ValueError(f"the task graph has a cycle: {' -> '.join(error.args[1])}") from error
    listed = [name for name in order if str(names[name]) not in ("START", "END")]
    places = {name: place for place, name in enumerate(listed)}
    return tuple(
        RecipeStep(
            name=" ".join(str(names[name]).split()),
            after=tuple(sorted(places[one] for one in before[name] if one in places)),
        )
        for name in listed
    )


def _check_unit(last_s: float, length_s: float | None) -> None:
    """Raise ``ValueError`` if the last segment ends so late that its unit must be another one."""
    ends = f"the last segment ends at {last_s:,.0f} s"
    if length_s is None and last_s > MAX_DURATION_S:
        raise ValueError(f"{ends}, more than a day: is the unit frames or ms?")
    if length_s is not None and last_s > _OTHER_UNIT * length_s:
        unit = "ms" if last_s > 300 * length_s else "frames"
        raise ValueError(f"{ends}, the video at {length_s:,.0f} s: is the unit {unit}?")


def _drop_duplicates(segments: Sequence[Segment], counts: Counter[str]) -> Iterator[Segment]:
    """Yield the segments that were done, of several with almost the same times the first."""
    open_segments = defaultdict[str, list[Segment]](list)
    for segment in sorted((one for one in segments if one.is_done), key=lambda one: one.start_s):
        others = [other for other in open_segments[segment.key] if other.end_s >= segment.start_s]
        # others start earlier, so that the intersection begins with this segment; equal instants are the same, too
        if any(
            min(segment.end_s, other.end_s) - segment.start_s
            > _SAME_IOU * (max(segment.end_s, other.end_s) - other.start_s)
            or (segment.start_s, segment.end_s) == (other.start_s, other.end_s)
            for other in others
        ):
            counts["duplicate"] += 1
            continue
        open_segments[segment.key] = [*others, segment]
        yield segment


def _assign(
    done: Sequence[Segment],
    never: Sequence[Segment],
    recipe: Sequence[RecipeStep],
    counts: Counter[str],
    repeats: Repeats,
    wrong: Wrong,
) -> list[_Entry]:
    """Return the steps of a video with their segments: those of the recipe, or without one those of the segments."""
    entries = [_Entry(step=step) for step in recipe]
    by_key = defaultdict[str, list[_Entry]](list)
    num_started = Counter[str]()  # the entries of a key are filled in their order
    for entry in entries:
        for key in {entry.step.step_id, normalise(entry.step.name)} - {""}:
            by_key[key].append(entry)
    for segment in (*done, *never):
        key = segment.key if segment.key in by_key or not recipe else normalise(segment.label)
        if recipe and key not in by_key:
            counts["not in the recipe"] += segment.is_done
            counts["never done"] += not segment.is_done
            continue
        own = by_key[key]
        while num_started[key] < len(own) and own[num_started[key]].segments:
            num_started[key] += 1
        last = own[num_started[key] - 1] if num_started[key] else None
        is_new = not own or (segment.is_done and not recipe and repeats in ("auto", "occurrence"))
        if not segment.is_done:
            counts["never done"] += 1
        elif last is not None and (segment.is_continued or last.is_open(wrong)):
            counts["extended"] += segment.is_continued
            last.segments.append(segment)
            continue
        elif num_started[key] < len(own):
            own[num_started[key]].segments.append(segment)
            continue
        elif not is_new and repeats == "first":
            counts["repeated"] += 1
        elif not is_new and last is not None:
            counts["extended"] += 1
            last.segments.append(segment)
        if is_new:
            step = RecipeStep(name=segment.label, step_id=segment.step_id)
            own.append(_Entry(step=step, segments=[segment] * segment.is_done))
            entries.append(own[-1])
    return entries


def _list_ids(entries: Sequence[_Entry]) -> list[str]:
    """Return the ids of the steps: those of the files if they are of the form S3 and differ, else in their order."""
    ids = [entry.step.step_id for entry in entries]
    is_kept = all(_STEP_ID.fullmatch(step_id) for step_id in ids) and len(set(ids)) == len(ids)
    return ids if is_kept else [f"S{number}" for number in range(1, len(ids) + 1)]


def _make_updates(entries: Sequence[_Entry], sample: Sample, counts: Counter[str], wrong: Wrong) -> list[Turn]:
    """Return the updates by time; at one time completes of steps open before, starts, completes of steps just begun."""
    last_s = (sample.num_frames - 1) / sample.fps
    ranked = list[tuple[float, int, Turn]]()
    for step, entry in zip(sample.steps, entries, strict=True):
        if not entry.segments:
            continue
        start_s, end_s = entry.segments[0].start_s, max(segment.end_s for segment in entry.segments)
        if not is_inside(start_s, sample):
            raise ValueError(
                f"{entry.step.name[:80]!r} starts at {start_s:g} s, after the end of the video at "
                f"{sample.num_frames / sample.fps:g} s; correct the time, or check the unit"
            )
        if not is_inside(end_s, sample):
            counts["clamped"] += 1
            end_s = max(start_s, last_s)
        cause = ", ".join(dict.fromkeys(segment.cause for segment in entry.segments if segment.cause)) or None
        is_open = entry.is_open(wrong)
        start = Turn(time_s=start_s, role="update", text=f"{step.id}->start", cause=cause if is_open else None)
        ranked.append((start_s, 1, start))
        if is_open:
            counts["left open"] += 1
        else:
            complete = Turn(time_s=end_s, role="update", text=f"{step.id}->complete", cause=cause)
            ranked.append((end_s, 0 if start_s < end_s else 2, complete))
    # At one time a step ends before the next one starts, except one that has no length.
    return [turn for _, _, turn in sorted(ranked, key=lambda item: item[:2])]
