"""Event handlers of the shown run: pure functions from the inputs of the page to its outputs.

Jobs live in the server (``app.core.job_queue``), run folders on the disk. A window shows one run, by its name.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import Job
from stepscope.app.core.results import VideoFilter, draw_corpus, video_table
from stepscope.app.formatting import as_sentence
from stepscope.app.tabs.batch.runs.downloads import TABLES, draw_provenance, has_table
from stepscope.app.tabs.batch.runs.scoring import make_score_job
from stepscope.app.tabs.batch.runs.status import describe_status, draw_job, draw_mark
from stepscope.app.web.views import status_line
from stepscope.eval.reports.table_files import Results, read_results


class ShownRun(NamedTuple):
    """The last state that a window received, to send only changes."""

    name: str | None = None
    state: str = ""
    num_rows: int = 0
    order: str | VideoFilter = ""


class BatchView(NamedTuple):
    """The outputs of the tab."""

    shown: Any
    status: Any
    progress: Any
    runs: Any
    videos: Any
    corpus: Any
    cancel: Any
    use: Any
    score: Any
    videos_csv: Any
    columns_csv: Any
    metrics_json: Any
    charts_json: Any
    traces_csv: Any
    provenance_json: Any
    origin: Any
    timer: Any
    problem: Any


UNCHANGED = BatchView(*(gr.skip() for _ in BatchView._fields))


def cancel(batches: BatchContext, name: str | None, order: str | VideoFilter) -> BatchView:
    """Cancel the shown run; finished videos are kept."""
    if name is not None:
        batches.jobs.cancel(name)
    return show(batches, name, order)


def score(batches: BatchContext, name: str | None, order: str | VideoFilter) -> BatchView:
    """Score the shown run, which was recorded; without a reference the status names the remedy."""
    try:
        batches.jobs.submit(make_score_job(batches, name))
    except ValueError as error:
        return UNCHANGED._replace(status=status_line(as_sentence(error), is_problem=True))
    return show(batches, name, order)


NO_SUCH_VIDEO: Final = " None of them is chosen: change Videos, Only videos with, or Slice."


def show(batches: BatchContext, name: str | None, order: str | VideoFilter) -> BatchView:
    """Show the current state of a run."""
    names = batches.listed_runs(name)
    runs = gr.Dropdown(choices=names, value=name if name in names else None)
    if name not in names:
        return _view(Results(), order, {})._replace(
            shown=ShownRun(order=order),
            status=status_line(
                "Choose a split and press Start, or choose a run." if names else "Choose a split, press Start."
            ),
            progress="",
            runs=runs,
            cancel=gr.Button(interactive=False),
            score=gr.Button(interactive=False),
            **_downloads(batches, None),
        )
    last = batches.jobs.find(name)
    job = None if last is not None and last.state == "refused" else last  # a refused job has not changed the folder
    results = _results(batches, name, job)
    words, is_problem = describe_status(batches, name, job, results)
    view = _view(results, order, batches.video_names(name))
    if results.rows and not view.videos:
        words += NO_SUCH_VIDEO
    return view._replace(
        shown=_shown_run(name, last, order),
        status=status_line(words, is_problem=is_problem),
        progress=draw_job(name, last),
        runs=runs,
        cancel=gr.Button(interactive=job is not None and not job.is_over),
        score=gr.Button(interactive=(job is None or job.is_over) and _is_recorded(batches, name)),
        **_downloads(batches, name),
    )


def tick(
    batches: BatchContext, shown: ShownRun, rendered: str | None, name: str | None, order: str | VideoFilter
) -> BatchView:
    """Show the changes since the last reply to the window; everything if the page has rendered something else.

    Args:
        batches: Runs and jobs.
        shown: The last reply to the window.
        rendered: The progress that is on the screen. The page may render an earlier reply after the last one.
        name: The chosen run. It is never set: the reply may arrive after the user has chosen a different run.
        order: The chosen videos and their order.
    """
    if name is None:
        return UNCHANGED
    job = batches.jobs.find(name)
    now = _shown_run(name, job, order)
    is_rendered = (rendered or "").startswith(draw_mark(name, job))
    if job is None or job.is_over:
        is_same = now == shown
    else:  # a few rows more are not worth a new table
        is_few = abs(now.num_rows - shown.num_rows) < max(1, shown.num_rows // 50)
        is_same = is_few and now._replace(num_rows=shown.num_rows) == shown
    if is_rendered and is_same:
        return UNCHANGED if job is None or job.is_over else UNCHANGED._replace(**_live_outputs(batches, job))
    view = show(batches, name, order)._replace(runs=gr.Dropdown(choices=batches.listed_runs(name)))
    if job is not None and job.state == "refused" and shown.name == name and shown.state in ("waiting", "running"):
        status = status_line(as_sentence(job.problem), is_problem=True)  # only in windows that saw it queued
        return view._replace(status=status)
    return view


def _downloads(batches: BatchContext, name: str | None) -> dict[str, Any]:
    """Return the buttons of downloads and settings, enabled as the run has them, and the provenance."""
    use = gr.Button(interactive=has_table(batches, name, "provenance.json"))
    buttons = {table.replace(".", "_"): gr.Button(interactive=has_table(batches, name, table)) for table in TABLES}
    return {**buttons, "use": use, "origin": draw_provenance(batches, name)}


def _is_recorded(batches: BatchContext, name: str) -> bool:
    try:
        return batches.is_recorded(name)
    except ValueError:  # run.json is invalid, as the status says
        return False


def _live_outputs(batches: BatchContext, job: Job) -> dict[str, Any]:
    words, is_problem = describe_status(batches, job.name, job, Results())
    return {"status": status_line(words, is_problem=is_problem), "progress": draw_job(job.name, job)}


def _shown_run(name: str | None, job: Job | None, order: str | VideoFilter) -> ShownRun:
    return ShownRun(name=name, state=job.state if job else "", num_rows=len(job.rows) if job else 0, order=order)


def _results(batches: BatchContext, name: str, job: Job | None) -> Results:
    if job is None or job.is_over:
        results = read_results(batches.folder(name))
        if not results.rows and not results.problems:
            results = replace(results, rows=batches.recorded_rows(name))
        if results.rows or job is None:
            return results
    return Results(rows=list(job.rows.values()))


def _view(results: Results, order: str | VideoFilter, names: Mapping[str, str]) -> BatchView:
    return UNCHANGED._replace(
        videos=video_table(results.rows, order, names),
        corpus=draw_corpus(results.metrics),
    )


def enter(batches: BatchContext, name: str | None, order: str | VideoFilter) -> BatchView:
    """Show the chosen run, else the newest with scores, and start polling; called when the tab is opened."""
    return show(batches, name or batches.newest_run(), order)._replace(timer=gr.Timer(active=True))


def leave() -> Any:
    """Stop polling; called when the tab is left."""
    return gr.Timer(active=False)
