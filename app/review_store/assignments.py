"""Assignments: which reviewers have to review which videos of a run, and how far they are.

An assignment is an action of the person who assigns; the last one of a video and run counts. A reviewer is done with a
video when they say so, by an action of their own; nothing that was done is lost by a later assignment.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from stepscope.app.review_store.actions import MAX_ASSIGNEES, Action, ActionKind, check_reviewer
from stepscope.app.review_store.review import Review, count_once, list_effective, review_agreement
from stepscope.app.review_store.store import ReviewStore
from stepscope.eval.annotations.agreement import Agreement
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.folder import RunFolder, explain_missing

NUM_COPIES = 2
"""Reviewers of a video of the overlap."""
_KINDS: Final[tuple[ActionKind, ...]] = ("assign", "done", "undo", "redo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The reviewers of one video in one run."""

    video_id: str
    run: str
    """Name of the run; empty for the references alone."""
    reviewers: tuple[str, ...]
    """The assigned reviewers first, then reviewers who had finished the video before it was assigned to others."""
    done: frozenset[str]
    """The reviewers who are done with the video."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The assigned videos of one reviewer, and the progress in them."""

    reviewer: str
    num_assigned: int
    num_done: int
    num_verdicts: int
    """Events with a verdict of the reviewer, in the assigned videos."""
    agreement: Agreement
    """Agreement over all verdicts on the videos that the reviewer shares with another one."""


def read_assignments(
    store: ReviewStore, *, run: str | None = None, video_id: str | None = None
) -> tuple[Assignment, ...]:
    """Return the assignments of one run or of all, of one video or of all, in the order of the last assignment."""
    return fold_assignments(store.scan(video_id=video_id, kinds=_KINDS).actions, run=run)


def fold_assignments(actions: Iterable[Action], *, run: str | None = None) -> tuple[Assignment, ...]:
    """Return the assignments after a sequence of actions, in the order of the last assignment of each video."""
    assigned: dict[tuple[str, str], tuple[str, ...]] = {}
    done: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for action in list_effective(tuple(actions)):
        if action.run is None or run not in (None, action.run):
            continue
        key = (action.run, action.video_id)
        if action.kind == "assign":
            assigned.pop(key, None)  # a dict keeps the place of the first one
            assigned[key] = action.assignees
        else:
            done[key][action.reviewer] = None
    return tuple(
        Assignment(
            video_id=key[1], run=key[0], reviewers=tuple(dict.fromkeys([*names, *done[key]])), done=frozenset(done[key])
        )
        for key, names in assigned.items()
    )


def next_in_queue(queue: Sequence[Assignment], reviewer: str, *, after: str | None = None) -> Assignment | None:
    """Return the first video that a reviewer has not done, after the video ``after`` or else from the start."""
    mine = [found for found in queue if reviewer in found.reviewers]
    start = next((number + 1 for number, found in enumerate(mine) if found.video_id == after), 0)
    ahead = [*mine[start:], *mine[:start]]
    return next((found for found in ahead if reviewer not in found.done and found.video_id != after), None)


def assign_videos(
    store: ReviewStore,
    lengths: Mapping[str, float],
    *,
    run: str,
    to: Sequence[str],
    overlap_percent: float = 0.0,
    by: str,
    seed: int = 0,
) -> tuple[Assignment, ...]:
    """Assign videos of a run to reviewers, and return the assignments of these videos.

    Videos that a reviewer is done with stay theirs, and so do those that a reviewer among ``to`` has begun.

    Args:
        store: The review store.
        lengths: The work per video, such as its number of events; the reviewers get equal sums.
        run: Name of the run; empty for the references alone.
        to: The reviewers.
        overlap_percent: Percentage of the videos that two reviewers get; without effect for one reviewer.
        by: The person who assigns.
        seed: Selects the videos of the overlap, and who gets which of equal videos.

    Raises ``ValueError`` for invalid names or percentages, and ``StoreError`` if the store cannot be written.
    """
    names = tuple(dict.fromkeys(map(check_reviewer, to)))
    if not 0 <= overlap_percent <= 100:
        raise ValueError(f"the overlap is a percentage from 0 to 100; got {overlap_percent:g}")
    if not 1 <= len(names) <= MAX_ASSIGNEES:
        raise ValueError(f"name 1 to {MAX_ASSIGNEES} reviewers; got {len(names)}")
    if not lengths:
        raise ValueError("there is no video to assign")
    begun = defaultdict[str, set[str]](set)
    for action in store.read():
        if action.event is not None or action.correction is not None:
            begun[action.video_id].add(action.reviewer)
    kept = {
        found.video_id: [
            name for name in found.reviewers if name in found.done or (name in names and name in begun[found.video_id])
        ]
        for found in read_assignments(store, run=run)
    }
    plan = plan_assignments(lengths, names, overlap_percent=overlap_percent, seed=seed, kept=kept)
    store.append_all(
        Action(kind="assign", reviewer=check_reviewer(by), video_id=video_id, run=run, assignees=plan[video_id])
        for video_id in lengths
    )
    return tuple(found for found in read_assignments(store, run=run) if found.video_id in lengths)


def measure_work(samples: Iterable[Sample], run: RunFolder | None = None) -> dict[str, float]:
    """Return the work of reviewing each video: its reference turns and one, or its seconds if no video has a reference.

    Videos without a file are left out, and with ``run`` those that it has not finished.
    """
    known = [sample for sample in samples if sample.video_path is not None]
    if run is not None:
        known = [sample for sample in known if not explain_missing(sample, run.record(sample.video_id))]
    has_turns = any(sample.turns for sample in known)
    return {
        sample.video_id: len(sample.turns) + 1.0 if has_turns else sample.num_frames / sample.fps for sample in known
    }


def plan_assignments(
    lengths: Mapping[str, float],
    names: Sequence[str],
    *,
    overlap_percent: float,
    seed: int,
    kept: Mapping[str, Collection[str]],
) -> dict[str, tuple[str, ...]]:
    """Return the reviewers of each video; those in ``kept`` keep it.

    The longest videos are given first, each to the reviewer with the least work (Graham's LPT rule). Example: lengths
    5, 4, 3 for two reviewers give 5 and 4 + 3.
    """
    order = {video_id: sha256(repr((seed, video_id)).encode(errors="surrogatepass")).digest() for video_id in lengths}
    # Videos that have reviewers already fill up the overlap first, so that few get another one.
    shared = sorted(lengths, key=lambda video_id: (-len(kept.get(video_id, ())), order[video_id]))
    overlap = set(shared[: math.ceil(len(lengths) * overlap_percent / 100)])
    plan = {video_id: list(kept.get(video_id, ())) for video_id in lengths}
    loads = dict.fromkeys(names, 0.0)
    for video_id, reviewers in plan.items():
        for name in loads.keys() & set(reviewers):
            loads[name] += lengths[video_id]
    for video_id in sorted(
        lengths, key=lambda video_id: (video_id not in overlap, -lengths[video_id], order[video_id])
    ):
        for _ in range(len(plan[video_id]), NUM_COPIES if video_id in overlap else 1):
            free = [name for name in names if name not in plan[video_id]]
            if free:
                name = min(free, key=loads.__getitem__)
                plan[video_id].append(name)
                loads[name] += lengths[video_id]
    return {video_id: tuple(reviewers) for video_id, reviewers in plan.items()}


def measure_workloads(assignments: Sequence[Assignment], review: Review) -> tuple[Workload, ...]:
    """Return what each reviewer was assigned and has done, sorted by name."""
    names = {found.video_id: set(found.reviewers) for found in assignments}
    verdicts = Counter(
        opinion.reviewer
        for reviewed in count_once(review)
        for opinion in reviewed.opinions
        if opinion.verdict is not None and opinion.reviewer in names.get(reviewed.event.video_id, ())
    )
    return tuple(
        Workload(
            reviewer=name,
            num_assigned=sum(name in found.reviewers for found in assignments),
            num_done=sum(name in found.done for found in assignments),
            num_verdicts=verdicts[name],
            agreement=measure_overlap([found for found in assignments if name in found.reviewers], review),
        )
        for name in sorted(set().union(*names.values()))
    )


def measure_overlap(assignments: Iterable[Assignment], review: Review) -> Agreement:
    """Return the agreement, over all verdicts, of the reviewers of each video that several have to review."""
    names = {found.video_id: set(found.reviewers) for found in assignments if len(found.reviewers) > 1}
    events = tuple(
        replace(reviewed, opinions=tuple(said for said in reviewed.opinions if said.reviewer in names[video_id]))
        for reviewed in review.events
        if (video_id := reviewed.event.video_id) in names
    )
    return review_agreement(replace(review, events=events))[0]
