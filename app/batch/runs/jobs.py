"""The job of a run: its status in words, its progress, and the job that scores a recorded run."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import Job
from stepscope.app.core.results import count_failed
from stepscope.app.formatting import as_sentence, format_clock, format_rate
from stepscope.engine.plurals import format_count, format_memory
from stepscope.eval.data.samples import InvalidSample, Sample
from stepscope.eval.metrics.definitions import NUM_FAILURES
from stepscope.eval.reports.table_files import Results
from stepscope.eval.runs.folder import UNSCORED
from stepscope.eval.runs.imports.import_results import NO_RESULT_FILE, list_missing
from stepscope.eval.runs.worker_messages import Progress, WorkerStatus, WorkerUsage


def describe_job(batches: BatchContext, name: str) -> tuple[str, bool]:
    """Return the status of the job of a run as ``describe_status``; empty without one, and for one that is done."""
    job = batches.jobs.find(name)
    if job is None or job.state in ("done", "refused"):
        return "", False
    return describe_status(batches, name, job, Results())


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


def describe_workers(progress: Progress) -> list[Mapping[str, str]]:
    """Return the name of each worker process, and its videos, frames, rate and memory in words."""
    return [{"name": worker.name, "about": _describe_worker(worker, progress)} for worker in progress.workers]


def _describe_worker(worker: WorkerStatus, progress: Progress) -> str:
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
    return " · ".join(filter(None, (position, format_rate(rate), cost)))


def _usage_words(usage: WorkerUsage) -> str:
    of = "" if usage.device_mb is None else f" of {format_memory(usage.device_mb)} on the GPU"
    return (
        f"{usage.tokens_per_s:,.0f} tokens/s · KV cache {usage.cache_tokens:,} tokens, "
        f"{format_memory(usage.cache_mb)} · memory {format_memory(usage.memory_mb)}{of}"
    )


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
