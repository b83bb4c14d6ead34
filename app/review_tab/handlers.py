"""What happens on a click in the reviews tab: free functions from what is on the page to what shall be on it.

In blind mode the store is read for one reviewer only, so that nothing of the others' can be shown, counted or exported.
"""

from collections.abc import Generator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import gradio as gr

from app.batch import saved_runs as saved
from app.batch.context import Batches
from app.formatting import sentence
from app.identity import reviewer_of, signed_in
from app.player.context import Bench
from app.player.review_context import Desk
from app.player.session.live_run import LiveRun
from app.player.views import Page, say
from app.review_tab.import_export import Export, take_eaf, write_zip
from app.review_tab.request import (
    NO_NAME,
    NO_RUN,
    UNSPLIT,
    Asked,
    find_run,
    find_split,
    gather_asked,
    read_asked,
    summarize_asked,
)
from app.review_tab.summary import (
    Progress,
    draw_agreement,
    draw_progress,
    list_unsettled,
    measure_split,
    said_at,
    video_rows,
)
from app.reviews.review import Review
from engine.errors import EngineError
from eval.data.writers import OPTIONAL_FIELDS, OptionalField, UnsupportedFieldError

LEAVE_OUT = "Leave out of a corrected split"
"""What the boxes of the export are called."""
HIDDEN = '<p class="dim">Blind: what others say, and so agreement, is not shown.</p>'


class DeskView(NamedTuple):
    """The outputs of the tab, in the order in which ``app.review_tab.tab`` wires them."""

    status: Any
    progress: Any
    runs: Any
    reviewer: Any
    videos: Any
    agreement: Any
    to_settle: Any
    prefer: Any


SAME = DeskView(*(gr.skip() for _ in DeskView._fields))


def show(batches: Batches, desk: Desk, asked: Asked) -> DeskView:
    """Show what the store says now."""
    name = signed_in(asked.request)
    view = SAME._replace(
        runs=_run_choices(batches, asked), reviewer=gr.skip() if name is None else gr.Textbox(name, interactive=False)
    )
    try:
        is_blind, review = read_asked(desk, asked)
        found = summarize_asked(desk, asked, review, run=find_run(batches, asked), judge=batches.judge_of(asked.run))
    except (EngineError, ValueError) as error:
        problem = say(sentence(error), is_problem=True)
        return view._replace(status=problem, progress="", videos=[], agreement="", to_settle=[])
    settling = [unsettled.row for unsettled in list_unsettled(found)]
    others = sorted({wish.reviewer for wishes in found.review.corrections.values() for wish in wishes})
    progress = measure_split(found)
    said = _progress_words(asked, progress, num_videos=len(found.events), num_settling=len(settling))
    if is_blind:
        whose = f"only what {review.only} did is shown" if review.only else f"nothing is shown: {NO_NAME}"
        said = f"{said} Blind: {whose}."
    if found.problems:
        said = f"{said} {sentence('; '.join(f'{name}: {problem}' for name, problem in found.problems.items()))}"
    if review.unreadable:
        said = f"{said} {len(review.unreadable)} left out: {sentence(review.unreadable[0])}"
    return view._replace(
        status=say(said, is_problem=bool(found.problems or review.unreadable)),
        progress=draw_progress(progress),
        videos=video_rows(found),
        agreement=HIDDEN if is_blind else draw_agreement(found),
        to_settle=settling,
        prefer=gr.Dropdown(choices=others),
    )


def open_video(
    bench: Bench, batches: Batches, desk: Desk, live: LiveRun | None, asked: Asked, event: gr.SelectData
) -> Page:
    """Show a video in the player: in the chosen run at its worst moment, or its reference alone.

    Returns what ``app.batch.saved_runs.open_video`` does.
    """
    video_id = str(event.row_value[0])
    if asked.run:
        return saved.open_moment(bench, batches, live, video_id, names=(asked.run,), open_at="worst")
    return saved.open_reference(bench, live, desk.sample(video_id), open_at=0.0)


def open_event(
    bench: Bench, batches: Batches, desk: Desk, live: LiveRun | None, asked: Asked, event: gr.SelectData
) -> Page:
    """Show the event that is to be settled in the player, in the chosen run or in the one that was judged.

    Returns what ``app.batch.saved_runs.open_video`` does.
    """
    video_id, time_s = str(event.row_value[0]), float(event.row_value[1])
    key = _clicked_event(desk, asked, [video_id, time_s, *map(str, event.row_value[2:])])
    name = asked.run or _judged_run(bench, batches, desk, asked, video_id, time_s, key=key)
    if name:
        return saved.open_moment(bench, batches, live, video_id, names=(name,), open_at=time_s, open_event=key)
    return saved.open_reference(bench, live, desk.sample(video_id), open_at=time_s, open_event=key)


def export(
    batches: Batches, desk: Desk, asked: Asked, content: str, prefer: Sequence[str], without: Sequence[OptionalField]
) -> Generator[tuple[Any, Any]]:
    """Write a zip file: a sentence about it, and the button that hands it out.

    The file is deleted when the generator goes on: by then the page has its own copy.
    """
    with TemporaryDirectory(prefix="stepscope-export-") as folder:
        try:
            _, review = read_asked(desk, asked)
            if review.only == "":
                raise ValueError(f"in blind mode only your own reviews are exported: {NO_NAME}")
            videos = gather_asked(batches, desk, asked, review, prefer)
            name = (asked.split or "").removeprefix(":")
            written = write_zip(
                Path(folder),
                videos,
                content=content,
                split=name,
                source=desk.splits.get(asked.split or ""),
                without=tuple(without),
            )
        except (EngineError, ValueError, OSError) as error:
            yield say(_refusal(error), is_problem=True), gr.DownloadButton("Download", value=None, interactive=False)
            return
        label = f"Download {written.path.name}"
        yield _export_words(written, review), gr.DownloadButton(label, value=written.path, interactive=True)


def _refusal(error: Exception) -> str:
    """Say why nothing was written, and what to do in the page's words."""
    if isinstance(error, UnsupportedFieldError):
        return sentence(
            f"{error.problem}; tick “{OPTIONAL_FIELDS[error.field]}” under “{LEAVE_OUT}”, or export the manifest"
        )
    return sentence(error)


def _export_words(written: Export, review: Review) -> Any:
    said = [f"{written.path.name} holds {written.num_videos} videos."]
    if review.only is not None:
        said.append(f"Only what {review.only} did is in it.")
    if written.num_without_reference:
        num = written.num_without_reference
        said.append(f"Left out, since this page has no reference of them: {num} uploads.")
    if written.num_conflicts:
        said.append(f"Corrections in conflict, where the source stands: {written.num_conflicts}.")
    if written.num_unusable:
        said.append(f"Corrections that do not fit any more and are left out: {written.num_unusable}.")
    said += [sentence(f"Without the outputs of {name}: {problem}") for name, problem in written.problems.items()]
    is_problem = bool(written.num_conflicts or written.num_unusable or written.problems)
    return say(" ".join(said), is_problem=is_problem)


def take_documents(desk: Desk, asked: Asked, paths: Sequence[str] | None, *, allow_deletions: bool = False) -> Any:
    """Keep what was changed in ELAN documents as corrections: a sentence for each, refusals first."""
    try:
        split = find_split(desk, asked)
        if not (signed_in(asked.request) or asked.typed.strip()):
            raise ValueError(f"corrections are kept in somebody's name: {NO_NAME}, then choose the files again")
        reviewer = reviewer_of(asked.request, asked.typed)
    except ValueError as error:
        return say(sentence(error), is_problem=True)
    outcomes = [
        take_eaf(
            Path(path),
            samples=split.samples,
            store=desk.store,
            reviewer=reviewer,
            allow_deletions=allow_deletions,
        )
        for path in paths or ()
    ]
    refused = [outcome.said for outcome in outcomes if outcome.is_refused]
    kept = [outcome.said for outcome in outcomes if not outcome.is_refused]
    return say("\n".join([*refused, *kept]), is_problem=bool(refused))


def _run_choices(batches: Batches, asked: Asked) -> Any:
    """Return the runs of the split; one that is no run of it is not chosen any more."""
    names = []
    for name in batches.names():
        try:
            split = batches.split_of(batches.settings_of(name))
        except ValueError:
            continue
        if split is not None and split is batches.splits.get(asked.split or ""):
            names.append(name)
    choices = [("none: references alone", NO_RUN), *((name, name) for name in names)]
    return gr.Dropdown(choices=choices, value=asked.run if asked.run in names else NO_RUN)


def _clicked_event(desk: Desk, asked: Asked, cells: list[str | float]) -> str | None:
    """Return the key of the event of a row; None when it was settled since it was shown."""
    try:
        found = summarize_asked(desk, asked, read_asked(desk, asked)[1])
    except (EngineError, ValueError):
        return None
    return next((each.event.key for each in list_unsettled(found) if each.row == cells), None)


def _judged_run(
    bench: Bench, batches: Batches, desk: Desk, asked: Asked, video_id: str, time_s: float, *, key: str | None
) -> str | None:
    """Return the run that was played when this event, or another of this time, was judged, if it is still there."""
    _, review = read_asked(desk, asked)
    said = [opinion for found in said_at(review, video_id, time_s, key=key) for opinion in found.opinions]
    digests = {opinion.action.moment.run_digest for opinion in said if opinion.action is not None} - {""}
    for name in batches.names() if digests else ():
        try:
            run = saved.read_saved(bench, batches, name, video_id)
        except (EngineError, ValueError, OSError):
            continue
        if run.digest in digests:
            return name
    return None


def _progress_words(asked: Asked, progress: Progress, *, num_videos: int, num_settling: int) -> str:
    if asked.split == UNSPLIT:
        return (
            f"Videos of no split: {progress.num_events} judged events in {num_videos} videos"
            f"{f', {num_settling} to settle' if num_settling else ''}."
        )
    of = "reference turns" if not asked.run else f"reference turns and what {asked.run} wrote, a matched pair once"
    of += f", and {progress.num_besides} judged besides" if progress.num_besides else ""
    return (
        f"{asked.split}: {progress.num_events} events ({of}) in {num_videos} videos"
        f"{f', {num_settling} to settle' if num_settling else ''}."
    )
