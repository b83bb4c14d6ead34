"""The status line and the progress bar of a run."""

from collections.abc import Iterable, Mapping

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import Job
from stepscope.app.core.results import count_failed
from stepscope.app.formatting import as_sentence, format_clock, format_rate
from stepscope.app.tabs.batch.runs.scoring import make_score_job
from stepscope.app.templates import render
from stepscope.engine.plurals import format_count
from stepscope.eval.reports.table_files import Results
from stepscope.eval.runs.folder import UNSCORED
from stepscope.eval.runs.imports.import_results import NO_RESULT_FILE, list_missing
from stepscope.eval.runs.worker_messages import Progress, WorkerStatus, WorkerUsage


def draw_job(name: str, job: Job | None) -> str:
    """Return the progress of a run as HTML, after its mark; without a job, or one that is over, the mark alone."""
    progress = job.progress if job is not None and not job.is_over else None
    return draw_mark(name, job) + (draw_progress(progress) if progress is not None else "")


def draw_mark(name: str, job: Job | None) -> str:
    """Return a hidden element with the name and state of a run.

    The browser sends it back with each poll: so the server knows what is rendered, in whichever order replies came.
    """
    return render("run_mark", name=name, state=job.state if job is not None else "")


def describe_status(batches: BatchContext, name: str, job: Job | None, results: Results) -> tuple[str, bool]:
    """Return the status of a run as a sentence, and whether it is a problem."""
    if job is None:
        if results.problems:
            return f"{name}: {'; '.join(results.problems)}. Start it again to restore the file.", True
        if not results.metrics and results.rows:
            return _explain_recorded(batches, name), False
        if not results.metrics:
            return f"{name} is not scored: it ended before its last video. Start it again to continue.", True
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
            wait_s = batches.jobs.wait_s(job)
            eta = f", about {format_clock(wait_s)} until it starts" if wait_s else ""
            return f"{name} is queued: {num_ahead} ahead{eta}." if num_ahead else f"{name} is starting.", False
        case "running" if job.work is None:
            return f"{name}: reading the files.", False
        case "running" if job.progress is None or not job.progress.elapsed_s:
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
            words = [f"{name}: {counted}{problem}", *list_missing(batches.settings_of(name))]
            return " ".join(map(as_sentence, words)), bool(is_problem or job.problem)
        case "cancelled":
            kept = format_count(len(job.rows), "finished video is", "finished videos are")
            return f"{name} was cancelled; {kept} kept. Start it again to continue.", False
        case _:
            return f"{name} failed: {as_sentence(job.problem)}", True


def _explain_recorded(batches: BatchContext, name: str) -> str:
    """Return what a recorded run without scores needs for them, as a sentence."""
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
    of = "" if usage.device_mb is None else f" of {_size_words(usage.device_mb)} on the GPU"
    return (
        f"{usage.tokens_per_s:,.0f} tokens/s · KV cache {usage.cache_tokens:,} tokens, {_size_words(usage.cache_mb)} · "
        f"memory {_size_words(usage.memory_mb)}{of}"
    )


def _size_words(size_mb: float) -> str:
    return f"{size_mb / 1024:,.1f} GiB" if size_mb >= 1024 else f"{size_mb:,.1f} MiB"
