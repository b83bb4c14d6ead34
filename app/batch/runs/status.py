"""The status line and the progress bar of a run."""

from collections.abc import Mapping

from app.batch.context import BatchContext
from app.batch.job_queue import Job
from app.batch.runs.results import Results
from app.formatting import as_sentence, format_clock
from app.templates import render
from eval.runs.progress import Progress, WorkerStatus


def draw_job(job: Job) -> str:
    """Return the progress of a job as HTML; empty for a finished job."""
    return draw_progress(job.progress) if job.progress is not None and not job.is_over else ""


def describe_status(batches: BatchContext, name: str, job: Job | None, results: Results) -> tuple[str, bool]:
    """Return the status of a run as a sentence, and whether it is a problem."""
    if job is None:
        if results.problems:
            return f"{name}: {'; '.join(results.problems)}. Start it again to restore the file.", True
        if not results.metrics:
            return f"{name} is not scored: it ended before its last video. Start it again to continue.", True
        if not results.rows:
            return f"{name} has no videos.csv. Start it again to restore the file.", True
        errors = len(results.metrics.get("errors", {}))
        return f"{name}: {len(results.rows)} videos{f', {errors} of them failed' if errors else ''}.", bool(errors)
    failed = sum(bool(row["error"]) for row in job.rows.values())
    failures = f", {failed} of them failed" if failed else ""
    match job.state:
        case "waiting":
            num_ahead = batches.jobs.active_jobs().index(job) if job in batches.jobs.active_jobs() else 0
            wait_s = batches.jobs.wait_s(job)
            eta = f", about {format_clock(wait_s)} until it starts" if wait_s else ""
            return f"{name} is queued: {num_ahead} ahead{eta}." if num_ahead else f"{name} is starting.", False
        case "running" if job.progress is None or not job.progress.elapsed_s:
            return f"{name}: loading the checkpoint.", False
        case "running":
            return f"{name}: {_rate_words(job.progress)}{failures}.", bool(failed)
        case "scoring":
            return f"{name}: {len(job.rows)} videos finished{failures}; scoring.", bool(failed)
        case "done":
            missing = f"; {job.problem}" if job.problem else ""
            return as_sentence(f"{name}: {len(job.rows)} videos{failures}{missing}"), bool(failed or job.problem)
        case "cancelled":
            return f"{name} was cancelled; {len(job.rows)} finished videos are kept. Start it again to continue.", False
        case _:
            return f"{name} failed: {as_sentence(job.problem)}", True


def _rate_words(progress: Progress | None) -> str:
    assert progress is not None
    rest = "" if progress.remaining_s is None else f", {format_clock(progress.remaining_s)} left"
    return f"{progress.num_finished} of {progress.num_videos} videos, {progress.frames_per_s:.0f} frames/s{rest}"


def draw_progress(progress: Progress) -> str:
    """Return a progress bar of the run and one line per worker process: device, video, frames and rate, as HTML."""
    return render(
        "run_progress", progress=progress, workers=[_worker_line(worker, progress) for worker in progress.workers]
    )


def _worker_line(worker: WorkerStatus, progress: Progress) -> Mapping[str, str]:
    rate = worker.total_done / progress.elapsed_s if progress.elapsed_s > 0 else 0.0
    position = f"{worker.video_id}, frame {worker.num_done} of {worker.num_frames}" if worker.video_id else "idle"
    if rate and worker.video_id:
        position += f", {format_clock((worker.num_frames - worker.num_done) / rate)} left"
    return {"name": worker.name, "position": position, "rate": f"{rate:.0f} frames/s"}
