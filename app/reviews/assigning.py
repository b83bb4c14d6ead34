"""Handlers that share the labour: assign videos, show a reviewer's queue, and what each reviewer has done."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import gradio as gr

from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.slices import read_slices, slices_path
from stepscope.app.formatting import as_sentence
from stepscope.app.player import opening
from stepscope.app.player.commands import QueuePlace
from stepscope.app.player.views import PlayerView, status_line
from stepscope.app.review_store.actions import is_program
from stepscope.app.review_store.assignments import (
    Assignment,
    assign_videos,
    measure_overlap,
    measure_work,
    measure_workloads,
    next_in_queue,
    read_assignments,
)
from stepscope.app.review_store.review import Review, count_once
from stepscope.app.reviews.query import NO_NAME, ReviewQuery, find_run, find_split, read_visible_review
from stepscope.app.reviews.summary import UNDEFINED
from stepscope.app.server.identity import reviewer_of, typed_name
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.app.window.landing import TO_REVIEW
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.plurals import format_count
from stepscope.eval.annotations.agreement import Agreement
from stepscope.eval.data.samples import Sample

QUEUE_HEADERS: Final = ["Video", "Done", "Your verdicts", "Also for"]
WORKLOAD_HEADERS: Final = ["Reviewer", "Videos", "Done", "Verdicts in them", "Shared events", "Equal", "Kappa"]
WORKLOAD_HELP: Final = (
    "Verdicts in them: events of the assigned videos with a verdict of the reviewer; the bar above counts all videos. "
    "Shared events: events of videos with several reviewers that two or more of them judged. "
    "Equal: share of equal verdicts. Kappa: Cohen's. What differs is listed under Agreement."
)
ALL_VIDEOS: Final = "all videos"
ALL_REVIEWERS: Final = "all"


def show_queue(batches: BatchContext, reviews: ReviewContext, query: ReviewQuery) -> Updates:
    """Show the queue of the reviewer in the chosen run, and what each reviewer has done."""
    try:
        is_blind, review = read_visible_review(reviews, query)
        samples = find_split(reviews, query).samples
        assigned = _list_assigned(reviews, samples, query.run)
    except (EngineError, ValueError) as error:
        problem = status_line(as_sentence(error), is_problem=True)
        return Updates(said=problem, videos=[], following=gr.Button(interactive=False), shared="", workloads=[])
    name = query.name
    mine = [found for found in assigned if name in found.reviewers]
    num_left = sum(name not in found.done for found in mine)
    ids = {sample.video_id for sample in samples}
    runs = dict.fromkeys(
        f"the run {found.run}" if found.run else "the references alone"
        for found in (() if mine else read_assignments(reviews.store))
        if name in found.reviewers and found.video_id in ids
    )
    said = (opinion.reviewer for found in review.events for opinion in found.opinions)
    known = {name for name in said if not is_program(name)}
    known |= {one for found in assigned for one in found.reviewers}
    num_shared = sum(len(found.reviewers) > 1 for found in assigned)
    slices, problem = list[str](), ""
    try:
        slices += _read_slices(batches, reviews, query)
    except ValueError as error:
        problem = as_sentence(error)
    return Updates(
        said=status_line(_queue_words(name, mine, num_left, runs)),
        videos=_queue_rows(name, mine, review),
        following=gr.Button(interactive=num_left > 0),
        names=gr.Dropdown(choices=sorted(known | ({name} if name else set()))),
        slices=gr.Dropdown(choices=[ALL_VIDEOS, *slices]),
        shared=status_line(
            problem
            or f"{format_count(len(assigned), 'video')} of {len(samples)} assigned, {num_shared} to several reviewers."
            + ("" if assigned else " Type the names of reviewers and press Assign: their progress is listed here.")
        ),
        workloads=_workload_rows(assigned, review, only=name if is_blind else None),
    )


def assign(
    batches: BatchContext,
    reviews: ReviewContext,
    query: ReviewQuery,
    names: Sequence[str] | None,
    overlap_percent: float | None,
    part: str | None,
) -> Updates:
    """Assign the videos of the chosen run, or only those of a slice, and show the new state."""
    try:
        if not query.name:
            raise ValueError(f"assignments need the name of the one who assigns: {NO_NAME}")
        if not names:
            raise ValueError("No reviewer is named: type one name or more, each followed by Enter")
        samples: Iterable[Sample] = find_split(reviews, query).samples
        if part not in (None, ALL_VIDEOS):
            chosen = set(_read_slices(batches, reviews, query).get(part, ()))
            samples = [sample for sample in samples if sample.video_id in chosen]
        assign_videos(
            reviews.store,
            measure_work(samples, find_run(batches, query)),
            run=query.run or "",
            to=names or (),
            overlap_percent=overlap_percent or 0.0,
            by=reviewer_of(query.request, query.typed),
        )
    except (EngineError, ValueError) as error:
        return Updates(shared=status_line(as_sentence(error), is_problem=True))
    return show_queue(batches, reviews, query)


def open_next(context: AppContext, batches: BatchContext, reviews: ReviewContext, query: ReviewQuery) -> PlayerView:
    """Show the first video of the reviewer's queue that is not done in the player."""
    try:
        if not query.name:
            raise ValueError(f"a queue belongs to a reviewer: {NO_NAME}")
        name, samples = reviewer_of(query.request, query.typed), find_split(reviews, query).samples
        return _open(context, batches, samples, _list_assigned(reviews, samples, query.run), name)
    except (EngineError, ValueError) as error:
        return opening.refuse(error)


def open_following(
    context: AppContext,
    batches: BatchContext,
    reviews: ReviewContext,
    place: QueuePlace,
    request: gr.Request,
) -> PlayerView:
    """Show the video of the reviewer's queue that follows the one in the player and is not done."""
    try:
        split = reviews.split_of(place.video_id)
        if split is None:
            raise ValueError("the video is in no split of this page; open the queue in the tab Reviews")
        samples = reviews.splits[split].samples
        name = reviewer_of(request, typed_name(place.reviewer))
        assigned = _list_assigned(reviews, samples, place.run)
        return _open(context, batches, samples, assigned, name, after=place.video_id)
    except (EngineError, ValueError) as error:
        return opening.refuse(error)


def _open(
    context: AppContext,
    batches: BatchContext,
    samples: Sequence[Sample],
    assigned: Sequence[Assignment],
    name: str,
    *,
    after: str | None = None,
) -> PlayerView:
    found = next_in_queue(assigned, name, after=after)
    if found is None:
        num_mine = sum(name in each.reviewers for each in assigned)
        raise ValueError(f"no video is left for {name} here: {format_count(num_mine, 'video')} assigned")
    if found.run:
        return opening.open_moment(context, batches, found.video_id, names=(found.run,), destination=TO_REVIEW)
    sample = next(sample for sample in samples if sample.video_id == found.video_id)
    return opening.open_reference(context, sample, destination=TO_REVIEW)


def _list_assigned(reviews: ReviewContext, samples: Iterable[Sample], run: str | None) -> list[Assignment]:
    known = {found.video_id: found for found in read_assignments(reviews.store, run=run or "")}
    return [known[sample.video_id] for sample in samples if sample.video_id in known]


def _read_slices(batches: BatchContext, reviews: ReviewContext, query: ReviewQuery) -> dict[str, Sequence[str]]:
    return dict(read_slices(slices_path(batches.runs, find_split(reviews, query).path)))


def _queue_words(name: str, mine: Sequence[Assignment], num_left: int, runs: Collection[str]) -> str:
    if not name:
        return as_sentence(f"The videos assigned to you are listed here, with what is done: {NO_NAME}")
    if not mine:
        remedy = "Choose another split, or assign some under Assign."
        if runs:
            remedy = f"There are some in {' and '.join(runs)}: choose it as Run."
        return f"No video is assigned to {name} here. {remedy}"
    return f"{name}: {len(mine) - num_left} of {format_count(len(mine), 'video')} done, {num_left} left."


def _queue_rows(name: str, mine: Iterable[Assignment], review: Review) -> list[list[Any]]:
    judged = (
        found.event.video_id
        for found in count_once(review)
        if any(said.reviewer == name and said.verdict for said in found.opinions)
    )
    verdicts = Counter(judged)
    return [
        [
            replace_surrogates(found.video_id),
            "✓" if name in found.done else "",
            verdicts[found.video_id],
            ", ".join(one for one in found.reviewers if one != name),
        ]
        for found in mine
    ]


def _workload_rows(assigned: Sequence[Assignment], review: Review, *, only: str | None) -> list[list[Any]]:
    """Return a row per reviewer, and one of all; in blind mode that of ``only`` without agreement."""
    loads = measure_workloads(assigned, review)
    rows: list[list[Any]] = [
        [load.reviewer, load.num_assigned, load.num_done, load.num_verdicts, *_agreement_cells(load.agreement)]
        for load in loads
        if only in (None, load.reviewer)
    ]
    if only is None and len(loads) > 1:
        overlap = measure_overlap(assigned, review)
        num_verdicts = sum(load.num_verdicts for load in loads)
        num_done = sum(found.done >= set(found.reviewers) for found in assigned)
        rows.append([ALL_REVIEWERS, len(assigned), num_done, num_verdicts, *_agreement_cells(overlap)])
    return rows


def _agreement_cells(found: Agreement) -> list[Any]:
    raw = UNDEFINED if math.isnan(found.raw) else f"{found.raw:.0%}"
    return [found.num_items, raw, UNDEFINED if math.isnan(found.kappa) else f"{found.kappa:.3f}"]
