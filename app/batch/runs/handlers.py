"""Event handlers of the shown run: pure functions from the inputs of the page to its outputs.

Jobs live in the server (``app.core.job_queue``), run folders on the disk. A window shows one run, by its name.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.batch.runs.panel import TABLES, draw_provenance, has_table
from stepscope.app.batch.selection import Selection, make_filter
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import Job
from stepscope.app.core.results import (
    HEADERS,
    VideoFilter,
    choose_rows,
    count_failed,
    draw_corpus,
    score_table,
    video_table,
)
from stepscope.app.formatting import as_sentence, format_clock, format_rate
from stepscope.app.player import opening
from stepscope.app.player.views import PlayerView, status_line
from stepscope.app.templates import render
from stepscope.app.window.context import AppContext
from stepscope.app.window.landing import WORST
from stepscope.app.window.live_run import LiveRun
from stepscope.engine.plurals import format_count, format_memory
from stepscope.eval.data.samples import InvalidSample, Sample
from stepscope.eval.metrics.definitions import NUM_FAILURES
from stepscope.eval.reports.table_files import Results, read_results
from stepscope.eval.runs.folder import UNSCORED
from stepscope.eval.runs.imports.import_results import NO_RESULT_FILE, list_missing
from stepscope.eval.runs.worker_messages import Progress, WorkerStatus, WorkerUsage


def draw_job(job: Job | None) -> str:
    """Return the progress of a run as HTML; empty without a job, and for one that is over."""
    progress = job.progress if job is not None and not job.is_over else None
    return draw_progress(progress) if progress is not None else ""


def describe_status(batches: BatchContext, name: str, job: Job | None, results: Results) -> tuple[str, bool]:
    """Return the status of a run as a sentence, and whether it is a problem."""
    if job is None:
        if results.problems:
            return f"{name}: {'; '.join(results.problems)}. Start it again to restore the file.", True
        if not results.metrics and results.rows:
            return _explain_recorded(batches, name), False
        if not results.metrics:
            unfinished = f"{name} is not scored: not all of its videos are finished."
            return f"{unfinished} Unless a program is still writing it, start it again to continue.", True
        if not results.rows:
            return f"{name} has no videos.csv. Start it again to restore the file.", True
        counted, is_problem = _count_videos(results.metrics.get("errors", {}).values(), len(results.rows))
        missing = "".join(f" {as_sentence(line)}" for line in list_missing(batches.settings_of(name)))
        return f"{name}: {counted}.{missing}", is_problem
    errors = [str(row["error"]) for row in job.rows.values() if row["error"]]
    num_failed = count_failed(errors)
    failures = f", {num_failed} of them failed" if num_failed else ""
    match job.state:
        case "waiting":
            num_ahead = batches.jobs.active_jobs().index(job) if job in batches.jobs.active_jobs() else 0
            return f"{name} is queued: {num_ahead} ahead." if num_ahead else f"{name} is starting.", False
        case "running" if job.work is None:
            return f"{name}: reading the files.", False
        case "running" if job.progress is None or not job.progress.num_done:
            return f"{name}: loading the checkpoint.", False
        case "running":
            num_behind = len(batches.jobs.active_jobs()) - 1
            behind = f", {format_count(num_behind, 'run waits', 'runs wait')} behind it" if num_behind else ""
            return f"{name}: {_rate_words(job.progress)}{behind}{failures}.", bool(num_failed)
        case "scoring":
            videos = format_count(len(job.rows) or len(job.split.entries), "video")
            return f"{name}: scoring {videos}{failures}.", bool(num_failed)
        case "done":
            counted, is_problem = _count_videos(errors, len(job.rows))
            problem = f"; {job.problem}" if job.problem else ""
            num = sum(int(row[NUM_FAILURES]) for row in job.rows.values() if not math.isnan(float(row[NUM_FAILURES])))
            cost = f", {format_count(num, 'failure')}, {job.elapsed_s:.0f} s"
            words = [f"Done: {name}, {counted}{cost}{problem}", *list_missing(batches.settings_of(name))]
            return " ".join(map(as_sentence, words)), bool(is_problem or job.problem)
        case "cancelled":
            kept = format_count(len(job.rows), "finished video is", "finished videos are")
            return f"{name} was cancelled; {kept} kept. Start it again to continue.", False
        case _:
            return f"{name} failed: {as_sentence(job.problem)}", True


def _explain_recorded(batches: BatchContext, name: str) -> str:
    try:
        make_score_job(batches, name)
    except ValueError as error:
        return as_sentence(error)
    return f"{name} was recorded and is not scored yet. Press Score."


def _count_videos(errors: Iterable[str], num_videos: int) -> tuple[str, bool]:
    """Return the number of videos in words, and whether one failed."""
    errors = list(errors)
    num_absent, num_unscored = errors.count(NO_RESULT_FILE), sum(errors.count(reason) for reason in UNSCORED)
    num_failed = count_failed(errors)
    words = format_count(num_videos, "video")
    words += f", {num_videos - num_absent} of them with results" if num_absent else ""
    words += f", {num_unscored} of them without a reference" if num_unscored else ""
    return words + (f", {num_failed} of them failed" if num_failed else ""), bool(num_failed)


def _rate_words(progress: Progress | None) -> str:
    assert progress is not None
    rest = "" if progress.remaining_s is None else f", {format_clock(progress.remaining_s)} left"
    videos = format_count(progress.num_videos, "video")
    waiting = f", {progress.num_waiting} in the queue" if progress.workers and progress.num_waiting else ""
    tokens = f", {progress.tokens_per_s:,.0f} tokens/s" if progress.tokens_per_s else ""
    return f"{progress.num_finished} of {videos}{waiting}, {format_rate(progress.frames_per_s)}{tokens}{rest}"


def draw_progress(progress: Progress) -> str:
    """Return a progress bar of the run and one line per worker process: device, video, frames and rate, as HTML."""
    return render(
        "run_progress", progress=progress, workers=[_worker_line(worker, progress) for worker in progress.workers]
    )


def _worker_line(worker: WorkerStatus, progress: Progress) -> Mapping[str, str]:
    rate = worker.total_done / progress.elapsed_s if progress.elapsed_s > 0 else 0.0
    names = [video.video_id for video in worker.videos]
    num_done = sum(video.num_done for video in worker.videos)
    num_frames = sum(video.num_frames for video in worker.videos)
    position = "idle"
    if len(names) == 1:
        position = f"{names[0]}, frame {num_done} of {num_frames}"
    elif names:
        position = f"{len(names)} videos at once, frame {num_done} of {num_frames}"
    if rate and names:
        position += f", {format_clock((num_frames - num_done) / rate)} left"
    cost = _usage_words(worker.usage) if worker.usage else ""
    return {"name": worker.name, "position": position, "rate": format_rate(rate), "cost": cost}


def _usage_words(usage: WorkerUsage) -> str:
    of = "" if usage.device_mb is None else f" of {format_memory(usage.device_mb)} on the GPU"
    return (
        f"{usage.tokens_per_s:,.0f} tokens/s · KV cache {usage.cache_tokens:,} tokens, "
        f"{format_memory(usage.cache_mb)} · memory {format_memory(usage.memory_mb)}{of}"
    )


class ShownRun(NamedTuple):
    """What a window shows, to send only changes: what the last reply to it had, in whichever order they were asked."""

    name: str | None = None
    state: str = ""
    num_rows: int = 0
    order: VideoFilter | None = None


def cancel(batches: BatchContext, selection: Selection) -> Updates:
    """Cancel the shown run; finished videos are kept."""
    if selection.run is not None:
        batches.jobs.cancel(selection.run)
    return show(batches, selection)


def score(batches: BatchContext, selection: Selection) -> Updates:
    """Score the shown run, which was recorded; without a reference the status names the remedy."""
    try:
        batches.jobs.submit(make_score_job(batches, selection.run))
    except ValueError as error:
        return Updates(status=status_line(as_sentence(error), is_problem=True))
    return show(batches, selection)


NO_SUCH_VIDEO: Final = " None of them is chosen: change Videos, Only videos with, or Slice."


def show(batches: BatchContext, selection: Selection) -> Updates:
    """Show the current state of a run."""
    name, order = selection.run, make_filter(batches, selection)
    names = batches.listed_runs(name)
    runs = gr.Dropdown(choices=names, value=name if name in names else None)
    if name not in names:
        return Updates(
            _view(Results(), order, {}),
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
    if results.rows and not view.videos["data"]:
        words += NO_SUCH_VIDEO
    return Updates(
        view,
        shown=_shown_run(name, last, order),
        status=status_line(words, is_problem=is_problem),
        progress=draw_job(last),
        runs=runs,
        cancel=gr.Button(interactive=job is not None and not job.is_over),
        score=gr.Button(interactive=(job is None or job.is_over) and _is_recorded(batches, name)),
        **_downloads(batches, name),
    )


def tick(batches: BatchContext, shown: ShownRun, selection: Selection) -> Updates:
    """Show the changes since ``shown``, the last reply to the window.

    The chosen run is never set: the reply may arrive after the user has chosen a different run.
    """
    name = selection.run
    if name is None:
        return Updates()
    job = batches.jobs.find(name)
    now = _shown_run(name, job, make_filter(batches, selection))
    if shown.name not in (None, name):
        # The page may have sent this before the reply to Start or to a choice arrived: the next poll shows which
        return Updates(shown=ShownRun(name=name))
    if job is None or job.is_over:
        is_same = now == shown
    else:  # a few rows more are not worth a new table
        is_few = abs(now.num_rows - shown.num_rows) < max(1, shown.num_rows // 50)
        is_same = is_few and now._replace(num_rows=shown.num_rows) == shown
    if is_same:
        return Updates() if job is None or job.is_over else _live_outputs(batches, job)
    view = Updates(show(batches, selection), runs=gr.Dropdown(choices=batches.listed_runs(name)))
    if job is not None and job.state == "refused" and shown.name == name and shown.state in ("waiting", "running"):
        status = status_line(as_sentence(job.problem), is_problem=True)  # only in windows that saw it queued
        return Updates(view, status=status)
    return view


def _downloads(batches: BatchContext, name: str | None) -> dict[str, Any]:
    use = gr.Button(interactive=has_table(batches, name, "provenance.json"))
    buttons = {table.replace(".", "_"): gr.Button(interactive=has_table(batches, name, table)) for table in TABLES}
    return {**buttons, "use": use, "origin": draw_provenance(batches, name)}


def _is_recorded(batches: BatchContext, name: str) -> bool:
    try:
        return batches.is_recorded(name)
    except ValueError:  # run.json is invalid, as the status says
        return False


def _live_outputs(batches: BatchContext, job: Job) -> Updates:
    words, is_problem = describe_status(batches, job.name, job, Results())
    return Updates(status=status_line(words, is_problem=is_problem), progress=draw_job(job))


def _shown_run(name: str, job: Job | None, order: VideoFilter) -> ShownRun:
    return ShownRun(name=name, state=job.state if job else "", num_rows=len(job.rows) if job else 0, order=order)


def _results(batches: BatchContext, name: str, job: Job | None) -> Results:
    if job is None or job.is_over:
        results = read_results(batches.folder(name))
        if not results.rows and not results.problems:
            results = replace(results, rows=batches.recorded_rows(name))
        if results.rows or job is None:
            return results
    return Results(rows=list(job.rows.values()))


def _view(results: Results, order: VideoFilter, names: Mapping[str, str]) -> Updates:
    table = score_table(HEADERS, video_table(results.rows, order, names))
    return Updates(videos=table, corpus=draw_corpus(results.metrics))


def enter(batches: BatchContext, selection: Selection) -> Updates:
    """Show the chosen run, else the newest with scores, and start polling; called when the tab is opened."""
    chosen = replace(selection, run=selection.run or batches.newest_run())
    return Updates(show(batches, chosen), timer=gr.Timer(active=True))


def leave() -> Any:
    """Stop polling; called when the tab is left."""
    return gr.Timer(active=False)


def make_score_job(batches: BatchContext, name: str | None) -> Job:
    """Return the job that scores a recorded run.

    The turns of a live session are a copy of the model's own. They are a reference once a reviewer has corrected one.
    Raises ``ValueError`` with the remedy for a run without a reference.
    """
    if name is None or not batches.is_recorded(name):
        raise ValueError(f"{name or 'no run'} is no recorded run; choose one")
    settings = batches.settings_of(name)
    split = batches.need_split(name)
    entries, remarks = list[Sample | InvalidSample](), dict[str, str]()
    for entry in split.entries:
        if isinstance(entry, Sample) and entry.is_copied:
            corrected = batches.correct(entry)
            if corrected.sample.has_reference:
                remarks[entry.video_id] = f"scored against its corrected turns; {corrected.num_changed} changed"
            entries.append(corrected.sample)
        else:
            entries.append(entry)
    scored = replace(split, entries=tuple(entries))
    if not any(sample.has_reference for sample in scored.samples):
        cure = (
            "its turns are a copy of the model's own. Open it, correct them in Review, then press Score"
            if any(sample.is_copied for sample in scored.samples)
            else "its videos were recorded without a reference"
        )
        raise ValueError(f"{name} has no scores: {cure}")
    scoring = batches.scoring_of(settings)
    return Job(folder=batches.folder(name), split=scored, is_recorded=True, remarks=remarks, scoring=scoring)


def step_video(
    context: AppContext, batches: BatchContext, live: LiveRun | None, selection: Selection, *, by: int
) -> PlayerView:
    """Show the next (1) or previous (-1) video of the player's run at its worst moment.

    The ``selection`` is that of the table; a run that is not shown there has all videos, as in its split.
    """
    run = live.run if live is not None else None
    shown = run.name or run.kept_as if run is not None else ""
    if run is None or not shown:
        return opening.refuse(ValueError("the player shows no saved run; open a video of one in Batch, Videos"))
    try:
        rows = read_results(batches.folder(shown)).rows or batches.recorded_rows(shown)
    except (ValueError, OSError) as error:
        return opening.refuse(error)
    listed = choose_rows(rows, make_filter(batches, selection) if shown == selection.run else "")
    ids = [str(row["video_id"]) for row in listed if row["error"] in ("", *UNSCORED)]
    at = ids.index(run.clip.name) + by if run.clip.name in ids else 0
    if not 0 <= at < len(ids):
        return opening.refuse(ValueError(f"this is the {'last' if by > 0 else 'first'} video of the run's table"))
    return opening.open_moment(context, batches, live, ids[at], names=(shown,), destination=WORST)
