"""What happens on a click in the batch tab: free functions from what is on the page to what shall be on it.

Jobs belong to the server (``app.batch.jobs``), run folders to the disk: a window shows one of them, by its name.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from app.batch import charts
from app.batch.batches import FEATURES, Batches
from app.batch.jobs import Job
from app.batch.results import TABLES, Results, draw_corpus, read_results, video_table
from app.handlers import read_threshold
from app.views import Page, say
from app.words import clock, sentence
from engine.errors import EngineError
from eval.batch import describe, find_places
from eval.cluster import is_cluster
from eval.progress import Progress
from eval.runs import other_settings

NAME_SIGNS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
LONGEST_NAME = 80


class Seen(NamedTuple):
    """What a window has been shown last, so that nothing is sent twice."""

    name: str | None = None
    state: str = ""
    num_rows: int = 0
    order: str = ""


class BatchView(NamedTuple):
    """The outputs of the tab, in the order in which ``app.batch.tab`` wires them."""

    seen: Any
    status: Any
    progress: Any
    runs: Any
    videos: Any
    corpus: Any
    precision_recall: Any
    reliability: Any
    leads: Any
    failures: Any
    states: Any
    latency: Any
    cancel: Any
    videos_csv: Any
    columns_csv: Any
    metrics_json: Any
    charts_json: Any


DEVICES = ("auto", "cpu:1", "cpu:2", "cpu:4", "cuda", "cuda:0")
"""What is offered; a page for this machine alone takes others as well."""
SAME = BatchView(*(gr.skip() for _ in BatchView._fields))


def start(
    batches: Batches, split: str | None, checkpoint: str, speak: Any, update: Any, devices: str, name: str, order: str
) -> BatchView:
    """Put a run into the line, or go on with the one of the same settings that is there; show it."""
    try:
        job = _make_job(batches, split, checkpoint, speak, update, devices, name.strip())
        batches.jobs.submit(job)
    except (EngineError, ValueError, OSError) as error:
        return SAME._replace(status=say(sentence(error), is_problem=True))
    return show(batches, job.name, order)


def _make_job(
    batches: Batches, split: str | None, checkpoint: str, speak: Any, update: Any, devices: str, name: str
) -> Job:
    chosen = batches.splits.get(split or "")
    if chosen is None:
        raise ValueError("there is no split; choose one")
    work = replace(
        batches.work,
        config=replace(
            batches.work.config,
            speak_threshold=read_threshold(speak, "speak"),
            update_threshold=read_threshold(update, "update"),
        ),
        features=batches.runs / FEATURES,
    )
    if checkpoint.strip() not in ("", work.checkpoint):
        if not batches.takes_paths:
            raise ValueError("this page runs its own checkpoint only")
        work = replace(work, checkpoint=checkpoint.strip(), heads=None)
    if devices not in DEVICES and not batches.takes_paths:
        raise ValueError(f"choose devices from the list: {', '.join(DEVICES)}")
    same = next((job.name for job in batches.jobs.under_way() if (job.split, job.work) == (chosen, work)), None)
    if same is None and not is_cluster(devices):  # whose nodes are not asked while somebody waits
        same = _find_same(batches, describe(chosen, work, find_places(devices)))
    if not name:
        name = same or f"{split}-{time.strftime('%Y%m%d-%H%M%S')}"
    if not set(name) <= NAME_SIGNS or name.startswith(".") or len(name) > LONGEST_NAME:
        raise ValueError(
            f"a run's name has letters, digits, '.', '_' and '-' only, at most {LONGEST_NAME}; got {name[:100]!r}"
        )
    return Job(folder=batches.runs / name, split=chosen, work=work, devices=devices)


def _find_same(batches: Batches, settings: Mapping[str, Any]) -> str | None:
    """Return the run whose outputs follow from the same settings, if there is one."""
    for name in batches.names():
        try:
            found = batches.settings_of(name)
        except ValueError:
            continue
        if found and not other_settings(found, settings):
            return name
    return None


def cancel(batches: Batches, name: str | None, order: str) -> BatchView:
    """End the run that is shown; what is finished stays."""
    if name is not None:
        batches.jobs.cancel(name)
    return show(batches, name, order)


def show(batches: Batches, name: str | None, order: str) -> BatchView:
    """Show a run: everything that is known of it now."""
    names = batches.names()
    runs = gr.Dropdown(choices=names, value=name if name in names else None)
    if name not in names:
        return _view(Results(), order)._replace(
            seen=Seen(order=order),
            status=say("Choose a split and press Start, or choose a run." if names else "Choose a split, press Start."),
            progress="",
            runs=runs,
            cancel=gr.Button(interactive=False),
            **_downloads(None),
        )
    job = batches.jobs.find(name)
    results = _results(batches, name, job)
    words, is_problem = _status(batches, name, job, results)
    return _view(results, order)._replace(
        seen=_seen(name, job, order),
        status=say(words, is_problem=is_problem),
        progress="" if job is None else _progress(job),
        runs=runs,
        cancel=gr.Button(interactive=job is not None and not job.is_over),
        **_downloads(batches.runs / name),
    )


def tick(batches: Batches, seen: Seen, name: str | None, order: str) -> BatchView:
    """Show what has changed since the window was told last, or all when it was told of another run.

    Which run is chosen stays: an answer that a click has overtaken would take the window back, and is put right by the
    next one.
    """
    job = batches.jobs.find(name) if name is not None else None
    now = _seen(name, job, order)
    if name is None or (now == seen and (job is None or job.is_over)):
        return SAME
    is_much = abs(now.num_rows - seen.num_rows) >= max(1, seen.num_rows // 50)
    if job is not None and now._replace(num_rows=seen.num_rows) == seen and not is_much:
        return SAME._replace(**_moving(batches, job))
    return show(batches, name, order)._replace(runs=gr.Dropdown(choices=batches.names()))


def _downloads(folder: Path | None) -> dict[str, Any]:
    """Return the buttons that hand out the tables as they are on disk."""
    paths = {table: folder / table if folder is not None else None for table in TABLES}
    return {
        table.replace(".", "_"): gr.DownloadButton(value=str(path), interactive=True)
        if path is not None and path.is_file()
        else gr.DownloadButton(interactive=False)
        for table, path in paths.items()
    }


def _moving(batches: Batches, job: Job) -> dict[str, Any]:
    words, is_problem = _status(batches, job.name, job, Results())
    return {"status": say(words, is_problem=is_problem), "progress": _progress(job)}


def _progress(job: Job) -> str:
    """Draw how far a run is; of one that is over nothing is left to wait for."""
    return draw_progress(job.progress) if job.progress is not None and not job.is_over else ""


def _seen(name: str | None, job: Job | None, order: str) -> Seen:
    return Seen(name=name, state=job.state if job else "", num_rows=len(job.rows) if job else 0, order=order)


def _results(batches: Batches, name: str, job: Job | None) -> Results:
    if job is None or job.is_over:
        results = read_results(batches.runs / name)
        if results.rows or job is None:
            return results
    return Results(rows=list(job.rows.values()))


def _view(results: Results, order: str) -> BatchView:
    data = results.charts
    return SAME._replace(
        videos=video_table(results.rows, order),
        corpus=draw_corpus(results.metrics),
        precision_recall=charts.precision_recall(data),
        reliability=charts.reliability(data),
        leads=charts.leads(data),
        failures=charts.failures(data),
        states=charts.states(data),
        latency=charts.latency(data),
    )


def _status(batches: Batches, name: str, job: Job | None, results: Results) -> tuple[str, bool]:
    """Return a sentence about a run, and whether it tells of a problem."""
    if job is None:
        if not results.metrics:
            return f"{name} is not scored: it was ended before its last video. Start it again to go on.", True
        if not results.rows:
            return f"{name} has no videos.csv that can be read. Start it again to write it anew.", True
        errors = len(results.metrics.get("errors", {}))
        return f"{name}: {len(results.rows)} videos{f', {errors} of them failed' if errors else ''}.", bool(errors)
    failed = sum(bool(row["error"]) for row in job.rows.values())
    failures = f", {failed} of them failed" if failed else ""
    match job.state:
        case "waiting":
            place = batches.jobs.under_way().index(job) if job in batches.jobs.under_way() else 0
            wait_s = batches.jobs.wait_s(job)
            eta = f", about {clock(wait_s)} until its turn" if wait_s else ""
            return f"{name} waits: {place} before it{eta}." if place else f"{name} begins.", False
        case "running" if job.progress is None or not job.progress.elapsed_s:
            return f"{name}: loading the checkpoint.", False
        case "running":
            return f"{name}: {_rate_words(job.progress)}{failures}.", bool(failed)
        case "scoring":
            return f"{name}: all {len(job.rows)} videos are run{failures}; scoring.", bool(failed)
        case "done":
            missing = f"; {job.problem}" if job.problem else ""
            return sentence(f"{name}: {len(job.rows)} videos{failures}{missing}"), bool(failed or job.problem)
        case "cancelled":
            return f"{name} was cancelled; {len(job.rows)} finished videos are kept. Start it again to go on.", False
        case _:
            return f"{name} ended: {sentence(job.problem)}", True


def _rate_words(progress: Progress | None) -> str:
    assert progress is not None
    rest = "" if progress.remaining_s is None else f", {clock(progress.remaining_s)} left"
    return f"{progress.num_finished} of {progress.num_videos} videos, {progress.frames_per_s:.0f} frames/s{rest}"


def draw_progress(progress: Progress) -> str:
    """Draw a bar for the whole run and a line for each process: device, video, frames and its rate."""
    lines = []
    for station in progress.stations:
        rate = station.total_done / progress.elapsed_s if progress.elapsed_s > 0 else 0.0
        at = f"{station.video_id}, frame {station.num_done} of {station.num_frames}" if station.video_id else "waits"
        rest_s = (station.num_frames - station.num_done) / rate if rate and station.video_id else None
        left = "" if rest_s is None else f", {clock(rest_s)} left"
        lines.append(f"<li><b>{escape(station.name)}</b> {escape(at)}{left} <span>{rate:.0f} frames/s</span></li>")
    return (
        f'<progress value="{progress.num_done}" max="{max(1, progress.num_frames)}" aria-label="frames done">'
        f'</progress><ul class="stations">{"".join(lines)}</ul>'
    )


def enter(batches: Batches, name: str | None, order: str) -> Page:
    """Come to the tab: show the run under way, or the newest; ask again and again while the tab is open."""
    names = batches.names()
    return (*show(batches, name or (names[0] if names else None), order), gr.Timer(active=True))


def leave() -> Any:
    """Ask no more."""
    return gr.Timer(active=False)
