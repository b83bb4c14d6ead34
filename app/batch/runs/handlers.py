"""Event handlers of the shown run: pure functions from the inputs of the page to its outputs.

Jobs live in the server (``app.core.job_queue``), run folders on the disk. A window shows one run, by its name.
"""

from dataclasses import replace
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.batch.runs.files import draw_provenance
from stepscope.app.batch.runs.jobs import describe_status, make_score_job
from stepscope.app.batch.runs.rows import pack_progress, pack_runs
from stepscope.app.batch.runs.videos import pack_videos
from stepscope.app.batch.selection import Found, Selection, find, make_filter
from stepscope.app.controls.widgets import Updates, read_event
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import Job
from stepscope.app.core.results import choose_rows, draw_corpus
from stepscope.app.formatting import as_sentence
from stepscope.app.player import opening
from stepscope.app.player.commands import RunInFocus, RunPair, Step
from stepscope.app.player.views import PlayerView
from stepscope.app.window.context import AppContext
from stepscope.app.window.focus import count_mistakes
from stepscope.app.window.landing import WORST
from stepscope.app.window.live_run import Window
from stepscope.eval.reports.table_files import Results, read_results
from stepscope.eval.runs.folder import UNSCORED


class ShownRun(NamedTuple):
    """What a window shows, to send only changes: what the last reply to it had, in whichever order they were asked."""

    name: str | None = None
    states: tuple[tuple[str, str], ...] = ()
    """Names and states of all jobs of the page."""
    num_rows: int = 0
    selection: Selection | None = None


def cancel(batches: BatchContext, selection: Selection) -> Updates:
    """Cancel the shown run; finished videos are kept."""
    if selection.run:
        batches.jobs.cancel(selection.run)
    return show(batches, selection)


def score(batches: BatchContext, selection: Selection) -> Updates:
    """Score the shown run, which was recorded; without a reference its row has the remedy."""
    try:
        batches.jobs.submit(make_score_job(batches, selection.run))
    except ValueError as error:
        return show(batches, selection, problem=as_sentence(error))
    return show(batches, selection)


def show(batches: BatchContext, selection: Selection, *, problem: str = "", is_entry: bool = False) -> Updates:
    """Show the current state of the runs, and of the chosen one; its row has its status, or a ``problem``."""
    name = selection.run
    if not name or name not in batches.listed_runs(name):
        gone = replace(selection, run=None)
        rows = pack_runs(batches, gone, ("", False), (), is_entry=is_entry)
        why = f"There is no run “{name}”; choose one of the list." if name else "Choose a run, or start one."
        videos, _ = pack_videos(batches, gone, (), Found(), why)
        return Updates(rows=rows, videos=videos, hits=None, corpus="", origin="", shown=_shown_run(batches, gone))
    last = batches.jobs.find(name)
    job = None if last is not None and last.state == "refused" else last  # a refused job has not changed the folder
    results = _results(batches, name, job)
    status = (problem, True) if problem else describe_status(batches, name, job, results)
    try:
        found, refusal = find(batches, selection), ""
    except (ValueError, OSError) as error:
        found, refusal = Found(frozenset()), as_sentence(error)
    videos, hits = pack_videos(batches, selection, results.rows, found, refusal)
    actions = _actions(batches, name, job)
    return Updates(
        rows=gr.HTML(value=pack_runs(batches, selection, status, actions, is_entry=is_entry), patch=""),
        videos=videos,
        hits=hits,
        corpus=draw_corpus(results.metrics, sum((count_mistakes(batches, name) or {}).values())),
        origin=draw_provenance(batches, name),
        shown=_shown_run(batches, selection),
    )


def _actions(batches: BatchContext, name: str, job: Job | None) -> list[tuple[str, str]]:
    """Return the events of the buttons in the row of the shown run, and their labels."""
    is_active = job is not None and not job.is_over
    label = "Continue" if batches.is_unfinished(name) else "Use these settings"
    actions = [("use", label)] if draw_provenance(batches, name) else []
    actions += [("cancel", "Cancel")] if is_active else []
    return actions + ([("score", "Score")] if not is_active and _is_recorded(batches, name) else [])


def tick(batches: BatchContext, shown: ShownRun, selection: Selection) -> Updates:
    """Show the changes since ``shown``, the last reply to the window.

    The chosen run is never set: the reply may arrive after the user has chosen a different run.
    """
    name = selection.run
    if shown.name and name and shown.name != name:
        # The page may have sent this before the reply to Start or to a choice arrived: the next poll shows which
        return Updates(shown=ShownRun(name=name))
    now = _shown_run(batches, selection)
    job = batches.jobs.find(name) if name else None
    is_few = abs(now.num_rows - shown.num_rows) < max(1, shown.num_rows // 50)  # not worth a new list
    if now == shown or (
        job is not None and not job.is_over and is_few and now._replace(num_rows=shown.num_rows) == shown
    ):
        return Updates(rows=gr.HTML(patch=pack_progress(batches))) if batches.jobs.active_jobs() else Updates()
    problem = ""
    if job is not None and job.state == "refused" and dict(shown.states).get(str(name)) in ("waiting", "running"):
        problem = as_sentence(job.problem)  # only in windows that saw it queued
    return show(batches, selection, problem=problem)


def _is_recorded(batches: BatchContext, name: str) -> bool:
    try:
        return batches.is_recorded(name)
    except ValueError:  # run.json is invalid, as the status says
        return False


def _shown_run(batches: BatchContext, selection: Selection) -> ShownRun:
    name, jobs = selection.run or None, batches.jobs.all()
    job = batches.jobs.find(name) if name else None
    states = tuple((one.name, one.state) for one in jobs)
    texts = {
        part: getattr(selection, part) or "" for part in ("query", "other")
    }  # a new window has None or an empty text
    chosen = replace(selection, run=name, scores=tuple(selection.scores or ()), **texts)  # a state is hashed
    return ShownRun(name=name, states=states, num_rows=len(job.rows) if job else 0, selection=chosen)


def _results(batches: BatchContext, name: str, job: Job | None) -> Results:
    if job is None or job.is_over:
        folder = batches.folder(name)
        files = [folder / table for table in ("videos.csv", "metrics.json", "charts.json", "diagnosis.json")]
        results = _read_results(folder, tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in files))
        if not results.rows and not results.problems:
            results = replace(results, rows=batches.recorded_rows(name))
        if results.rows or job is None:
            return results
    return Results(rows=list(job.rows.values()))


@lru_cache(maxsize=4)
def _read_results(folder: Path, _changed: tuple[int, ...]) -> Results:
    """Read the tables of a run: those of 10,000 videos take seconds, and each sort and search needs them."""
    return read_results(folder)


def enter(batches: BatchContext, selection: Selection, focus: RunInFocus, request: gr.Request) -> Updates:
    """Show the run in focus, else the newest with scores, and start polling."""
    linked, name = request.query_params, focus.run or selection.run or batches.newest_run()
    is_known, other = name in batches.run_names(), selection.other or linked.get("against")
    other = other if name and is_known and other in batches.comparable_runs(name) else ""
    query = selection.query or linked.get("search") or ""
    view = show(batches, replace(selection, run=name, other=other, query=query), is_entry=True)
    runs = name if name and is_known else ""
    return Updates(view, runs=runs, other=other, query=query, timer=gr.Timer(active=True))


def pick(batches: BatchContext, selection: Selection, pair: RunPair) -> Updates:
    """Show the picked run A, beside B if it is comparable; a new B opens the comparison."""
    a, b = pair.a, pair.b
    if a not in batches.run_names():
        return show(batches, selection)
    is_comparable = b in batches.comparable_runs(a)
    view = Updates(show(batches, replace(selection, run=a, other=b if is_comparable else "")), runs=a)
    if b and b != selection.other:
        if not is_comparable:
            gr.Warning(f"{escape(b)} is no run of the same split as {escape(a)}, so they cannot be compared.")
            return Updates(view, other="")
        return Updates(view, other=b, views=gr.Tabs(selected="Compare"))
    return Updates(view, other=b if is_comparable else "")


def open_view(event: gr.EventData) -> Updates:
    """Open a view of the list of runs."""
    return Updates(views=gr.Tabs(selected=str(read_event(event, "view"))))


def sort(batches: BatchContext, selection: Selection, event: gr.EventData) -> Updates:
    """Show the videos in the order of a clicked column."""
    order = str(read_event(event, "by"))
    return Updates(show(batches, replace(selection, order=order)), order=order)


def leave() -> Any:
    """Stop polling; called when the tab is left."""
    return gr.Timer(active=False)


def step_video(
    context: AppContext, batches: BatchContext, window: Window, selection: Selection, step: Step
) -> PlayerView:
    """Show the next (1) or previous (-1) video of the player's run at its worst moment.

    The ``selection`` is that of the table; a run that is not shown there has all videos, as the table would list them.
    """
    run = window.run
    shown = run.name or run.kept_as if run is not None else ""
    if run is None or not shown:
        return opening.refuse(ValueError("the player shows no saved run; open a video of one in Batch"))
    try:
        rows = read_results(batches.folder(shown)).rows or batches.recorded_rows(shown)
    except (ValueError, OSError) as error:
        return opening.refuse(error)
    listed = choose_rows(rows, make_filter(batches, selection if shown == selection.run else Selection(run=shown)))
    ids = [str(row["video_id"]) for row in listed if row["error"] in ("", *UNSCORED)]
    at = ids.index(run.clip.name) + step.by if run.clip.name in ids else 0
    if not 0 <= at < len(ids):
        return opening.refuse(ValueError(f"this is the {'last' if step.by > 0 else 'first'} video of the run's table"))
    return opening.open_moment(context, batches, ids[at], names=(shown,), destination=WORST)
