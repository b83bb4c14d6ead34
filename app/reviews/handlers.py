"""Event handlers of the reviews tab: pure functions from the inputs of the page to its outputs.

In blind mode only the reviewer's own actions are read from the store, so nothing else can be shown or exported.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gradio as gr

from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.formatting import as_sentence
from stepscope.app.player import opening
from stepscope.app.player.commands import ReviewsInFocus, RunInFocus
from stepscope.app.player.views import PlayerView, status_line
from stepscope.app.review_store.actions import Event
from stepscope.app.review_store.review import Review
from stepscope.app.reviews import summary
from stepscope.app.reviews.query import (
    NO_NAME,
    NO_RUN,
    UNSPLIT,
    Export,
    ReviewQuery,
    find_run,
    find_split,
    gather_query_videos,
    import_document,
    read_visible_review,
    summarize_query,
    write_zip,
)
from stepscope.app.server.identity import reviewer_of, signed_in
from stepscope.app.templates import render_note
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.app.window.focus import name_split
from stepscope.app.window.landing import TO_REVIEW, WORST, Destination, ListPlace
from stepscope.engine.errors import EngineError
from stepscope.engine.plurals import format_count
from stepscope.eval.data.writers import OPTIONAL_FIELDS, OptionalField, UnsupportedFieldError

OMIT_LABEL = "Omit from a corrected split"
NO_RUN_CHOICE = ("none: references only", NO_RUN)
HIDDEN_AGREEMENT = render_note("Agreement is hidden: in blind mode you see and export only your own reviews.")
NOT_EXPORTED = "The contents of the file are listed here."


def list_splits(reviews: ReviewContext) -> list[tuple[str, str]]:
    """Return the choices of splits; the last one is for uploads, which are in no split."""
    listed = (name for name, split in reviews.splits.items() if reviews.recent.is_split_listed(split.path))
    return [*((name, name) for name in listed), ("uploads: in no split", UNSPLIT)]


def enter(batches: BatchContext, reviews: ReviewContext, query: ReviewQuery, focus: ReviewsInFocus) -> Updates:
    """Show the reviews in focus to this browser's reviewer."""
    known = replace(query, typed=focus.reviewer, is_blind=focus.is_blind)
    return show_run(batches, reviews, known, focus, split=focus.split)


def show_run(
    batches: BatchContext, reviews: ReviewContext, query: ReviewQuery, focus: RunInFocus, *, split: str = ""
) -> Updates:
    """Show the reviews of the run in focus or else of the ``split``, as far as they are known, and choose both."""
    choices, run = list_splits(reviews), focus.run
    found, before = (name_split(batches, run) if run else "") or split, query
    if found in [name for _, name in choices]:
        query = replace(query, split=found, run=run or (query.run if query.split == found else None))
    view = show(batches, reviews, query)
    chosen = [run for _, run in view.runs.choices if run == query.run] or [NO_RUN]
    # what is chosen already is not set: meanwhile the user may choose another one
    splits = {"choices": choices} | ({} if query.split == before.split else {"value": query.split})
    runs = {"choices": view.runs.choices} | ({} if chosen[0] == (before.run or NO_RUN) else {"value": chosen[0]})
    return Updates(view, split=gr.Dropdown(**splits), runs=gr.Dropdown(**runs))


def show(batches: BatchContext, reviews: ReviewContext, query: ReviewQuery) -> Updates:
    """Show the current state of the reviews."""
    view = Updates(runs=_run_choices(batches, query))
    if name := signed_in(query.request):
        view.reviewer = gr.Textbox(name, interactive=False)
    try:
        is_blind, review = read_visible_review(reviews, query)
        found = summarize_query(
            reviews, query, review, run=find_run(batches, query), judge=batches.make_judge(query.run or None)
        )
    except (EngineError, ValueError) as error:
        problem = status_line(as_sentence(error), is_problem=True)
        return Updates(view, status=problem, progress="", videos=[], agreement="", to_settle=[], unsettled=())
    unsettled = summary.list_unsettled(found)
    correctors = sorted({found.reviewer for listed in found.review.corrections.values() for found in listed})
    status = _progress_words(query, found, num_to_settle=len(unsettled))
    if is_blind:
        included = f"only the reviews of {review.only} are shown" if review.only else f"nothing is shown: {NO_NAME}"
        status = f"{status} Blind mode: {included}."
    if found.problems:
        status = f"{status} {as_sentence('; '.join(f'{name}: {problem}' for name, problem in found.problems.items()))}"
    if review.unreadable:
        status = f"{status} {len(review.unreadable)} skipped: {as_sentence(review.unreadable[0])}"
    return Updates(
        view,
        status=status_line(status, is_problem=bool(found.problems or review.unreadable)),
        progress=summary.draw_progress(found),
        videos=summary.video_rows(found),
        agreement=HIDDEN_AGREEMENT if is_blind else summary.draw_agreement(found),
        to_settle=[each.row for each in unsettled],
        unsettled=unsettled,
        prefer=gr.Dropdown(choices=correctors),
    )


def open_video(
    context: AppContext,
    batches: BatchContext,
    reviews: ReviewContext,
    query: ReviewQuery,
    event: gr.SelectData,
) -> PlayerView:
    """Show a video in the player: in the chosen run at its worst moment, or its reference only."""
    video_id = str(event.row_value[0])
    if query.run:
        there = replace(WORST, opens_review=True)
        return opening.open_moment(context, batches, video_id, names=(query.run,), destination=there)
    return opening.open_reference(context, reviews.sample(video_id), destination=TO_REVIEW)


def open_event(
    context: AppContext,
    batches: BatchContext,
    reviews: ReviewContext,
    query: ReviewQuery,
    unsettled: Sequence[summary.Unsettled],
    number: int,
) -> PlayerView:
    """Show an event of the list to settle in the player, in the chosen run or else in the run that was judged."""
    if not 0 <= number < len(unsettled):
        return opening.refuse(ValueError("there is nothing further to settle"))
    event = unsettled[number].event
    place = ListPlace(of="settle", number=number + 1, total=len(unsettled))
    there = Destination(at=event.time_s, event=event.key, place=place, opens_review=True)
    name = query.run or _judged_run(context, batches, reviews, query, event)
    if name:
        player = opening.open_moment(context, batches, event.video_id, names=(name,), destination=there)
    else:
        player = opening.open_reference(context, reviews.sample(event.video_id), destination=there)
    # also if it cannot be opened: N then tries the next one
    return PlayerView(player, at=number, listed=unsettled)


def find_row(unsettled: Sequence[summary.Unsettled], event: gr.SelectData) -> int:
    """Return the place of a clicked row in the list, which its table may show in another order; -1 without it."""
    cells = [str(event.row_value[0]), float(event.row_value[1]), *map(str, event.row_value[2:])]
    return next((number for number, each in enumerate(unsettled) if each.row == cells), -1)


def export(
    batches: BatchContext,
    reviews: ReviewContext,
    query: ReviewQuery,
    content: str,
    prefer: Sequence[str],
    omit: Sequence[OptionalField],
) -> Generator[Updates]:
    """Write a zip file, and yield its contents in words and its path, None without one.

    The file is deleted when the generator resumes; by then Gradio has made its own copy.
    """
    with TemporaryDirectory(prefix="stepscope-export-") as folder:
        try:
            _, review = read_visible_review(reviews, query)
            if review.only == "":
                raise ValueError(f"in blind mode only your own reviews are exported: {NO_NAME}")
            videos = gather_query_videos(batches, reviews, query, review, prefer)
            name = (query.split or "").removeprefix(":")
            written = write_zip(
                Path(folder),
                videos,
                content=content,
                split=name,
                source=reviews.splits.get(query.split or ""),
                omit=tuple(omit),
            )
        except (EngineError, ValueError, OSError) as error:
            yield Updates(said=status_line(_refusal(error), is_problem=True), file=None)
            return
        yield Updates(said=_export_words(written, review), file=str(written.path))


def _refusal(error: Exception) -> str:
    if isinstance(error, UnsupportedFieldError):
        return as_sentence(
            f"{error.problem}; tick “{OPTIONAL_FIELDS[error.field]}” under “{OMIT_LABEL}”, or export the manifest"
        )
    return as_sentence(error)


def _export_words(written: Export, review: Review) -> Any:
    sentences = [f"{written.path.name} has {format_count(written.num_videos, 'video')}."]
    if review.only is not None:
        sentences.append(f"It contains only the reviews of {review.only}.")
    if written.no_predictions:
        sentences.append(as_sentence(written.no_predictions))
    if written.num_without_reference:
        sentences.append(
            f"Omitted, since this page has no reference for them: {written.num_without_reference} uploads."
        )
    if written.num_conflicts:
        sentences.append(f"Conflicting corrections, not applied: {written.num_conflicts}.")
    if written.num_unusable:
        sentences.append(f"Corrections that no longer fit, not applied: {written.num_unusable}.")
    sentences += [
        as_sentence(f"Without the outputs of {name}: {problem}") for name, problem in written.problems.items()
    ]
    is_problem = bool(written.num_conflicts or written.num_unusable or written.problems)
    return status_line(" ".join(sentences), is_problem=is_problem)


def import_documents(
    reviews: ReviewContext, query: ReviewQuery, paths: Sequence[str] | None, *, allow_deletions: bool = False
) -> Any:
    """Import edited ELAN documents as corrections; return one sentence per document, refusals first."""
    try:
        split = find_split(reviews, query)
        if not query.name:
            raise ValueError(f"corrections need a reviewer: {NO_NAME}, then choose the files again")
        reviewer = reviewer_of(query.request, query.typed)
    except ValueError as error:
        return status_line(as_sentence(error), is_problem=True)
    of_reviewer: Any = {"store": reviews.store, "reviewer": reviewer, "allow_deletions": allow_deletions}
    of_reviewer["is_blind"] = reviews.is_blind or query.is_blind
    refused, kept = list[str](), list[str]()
    for path in dict.fromkeys(paths or ()):
        try:
            kept.append(import_document(Path(path), samples=split.samples, **of_reviewer))
        except ValueError as error:
            refused.append(str(error))
    return status_line("\n".join([*refused, *kept]), is_problem=bool(refused))


def _run_choices(batches: BatchContext, query: ReviewQuery) -> Any:
    """Return the dropdown of the split's runs; a chosen run of another split is deselected.

    Another value is not set: meanwhile another run may have been chosen.
    """
    names = []
    for name in batches.listed_runs(query.run):
        split = batches.find_split(name)
        if split is not None and split is batches.splits.get(query.split or ""):
            names.append(name)
    choices = [NO_RUN_CHOICE, *((name, name) for name in names)]
    is_other = bool(query.run) and query.run not in names
    return gr.Dropdown(choices=choices, value=NO_RUN) if is_other else gr.Dropdown(choices=choices)


def _judged_run(
    context: AppContext, batches: BatchContext, reviews: ReviewContext, query: ReviewQuery, event: Event
) -> str | None:
    """Return the run that was in the player when this event, or one at the same time, was judged, if it exists."""
    _, review = read_visible_review(reviews, query)
    opinions = [opinion for found in summary.reviews_at(review, event) for opinion in found.opinions]
    digests = {opinion.action.moment.run_digest for opinion in opinions if opinion.action is not None} - {""}
    for name in batches.run_names() if digests else ():
        try:
            run = opening.read_saved(context, batches, name, event.video_id)
        except (EngineError, ValueError, OSError):
            continue
        if run.digest in digests:
            return name
    return None


def _progress_words(query: ReviewQuery, found: summary.SplitReview, *, num_to_settle: int) -> str:
    num_events, to_settle = summary.count_events(found), f", {num_to_settle} to settle" if num_to_settle else ""
    in_videos = f"in {format_count(len(found.events), 'video')}{to_settle}."
    if query.split == UNSPLIT:
        return f"Videos in no split: {format_count(num_events, 'judged event')} {in_videos}"
    kinds = "reference turns" if not query.run else f"reference turns and texts of {query.run}, matched pairs once"
    kinds += f", and {found.num_extra} more that were judged" if found.num_extra else ""
    return f"{query.split}: {format_count(num_events, 'event')} ({kinds}) {in_videos}"
