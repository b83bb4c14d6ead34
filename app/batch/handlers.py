"""Event handlers of the batch tab: pure functions from the inputs of the page to its outputs.

Jobs live in the server (``app.batch.job_queue``), run folders on the disk. A window shows one run, by its name.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from app.batch import charts
from app.batch.context import BatchContext
from app.batch.downloads import TABLES, draw_provenance, has_table
from app.batch.form import DEVICES, make_work
from app.batch.job_queue import Job
from app.batch.results import Results, VideoFilter, draw_corpus, read_results, video_table
from app.batch.status import describe_status, draw_job
from app.formatting import as_sentence
from app.player.views import status_line
from engine.errors import EngineError
from eval.runs.batch import build_run_settings, parse_devices
from eval.runs.folder import IDENTITY, RunFolder
from eval.runs.output_folder import FolderRefusedError, find_changed_settings
from eval.runs.ray_pool import is_cluster

NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
MAX_NAME_CHARS = 80


class ShownRun(NamedTuple):
    """The last state that a window received, to send only changes."""

    name: str | None = None
    state: str = ""
    num_rows: int = 0
    order: str | VideoFilter = ""


class BatchView(NamedTuple):
    """The outputs of the tab, in the order of ``app.batch.tab``."""

    shown: Any
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
    use: Any
    videos_csv: Any
    columns_csv: Any
    metrics_json: Any
    charts_json: Any
    traces_csv: Any
    provenance_json: Any
    origin: Any
    timer: Any
    problem: Any


REPEAT_STATUS_S = 5.0
"""How long the final status of a run is repeated: the page may render an earlier reply after it."""
UNCHANGED = BatchView(*(gr.skip() for _ in BatchView._fields))


def start(
    batches: BatchContext,
    split: str | None,
    checkpoint: str | None,
    speak: Any,
    update: Any,
    devices: str,
    live: bool,
    name: str | None,
    order: str | VideoFilter,
) -> BatchView:
    """Queue a run, or continue an existing one with the same settings; show it.

    A refusal appears below the form: the status line belongs to the shown run.
    """
    try:
        job = _make_job(batches, split, checkpoint, speak, update, devices, live, (name or "").strip())
        batches.jobs.submit(job)
    except (EngineError, ValueError, OSError) as error:
        return UNCHANGED._replace(problem=status_line(as_sentence(error), is_problem=True))
    return show(batches, job.name, order)._replace(problem=status_line(""))


def _make_job(
    batches: BatchContext,
    split: str | None,
    checkpoint: str | None,
    speak: Any,
    update: Any,
    devices: str,
    live: bool,
    name: str,
) -> Job:
    chosen = batches.splits.get(split or "")
    if chosen is None:
        raise ValueError("no split is chosen; choose one")
    work = make_work(batches, checkpoint, speak, update, live=live)
    if devices not in DEVICES and not batches.takes_paths:
        raise ValueError(f"choose devices from the list: {', '.join(DEVICES)}")
    same = next((job.name for job in batches.jobs.active_jobs() if (job.split, job.work) == (chosen, work)), None)
    settings = None if is_cluster(devices) else build_run_settings(chosen, work, parse_devices(devices))
    if same is None and settings is not None:  # connecting to the cluster would block the page
        same = _find_same(batches, settings)
    if not name:
        prefix = "".join(char if char in NAME_CHARACTERS else "_" for char in str(split)).lstrip(".")[:40]
        name = same or f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}"
    if not set(name) <= NAME_CHARACTERS or name.startswith(".") or len(name) > MAX_NAME_CHARS:
        raise ValueError(
            f"a run's name may have letters, digits, '.', '_' and '-', at most {MAX_NAME_CHARS}; got {name[:100]!r}"
        )
    folder = batches.runs / name
    if settings is not None:
        _check_folder(folder, settings)
    scoring = batches.scoring_of(batches.settings_of(name))
    return Job(folder=folder, split=chosen, work=work, devices=devices, scoring=scoring)


def _check_folder(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if a run with these settings cannot continue the run in the folder."""
    try:
        if folder.exists():
            RunFolder(folder).check(settings, resume=True)
    except FolderRefusedError as error:
        raise ValueError(str(error).replace(str(folder), folder.name)) from error


def _find_same(batches: BatchContext, settings: Mapping[str, Any]) -> str | None:
    """Return a run with the same settings, if there is one."""
    for name in batches.run_names():
        try:
            found = batches.settings_of(name)
        except ValueError:
            continue
        if found and not find_changed_settings(found, settings, IDENTITY):
            return name
    return None


def cancel(batches: BatchContext, name: str | None, order: str | VideoFilter) -> BatchView:
    """Cancel the shown run; finished videos are kept."""
    if name is not None:
        batches.jobs.cancel(name)
    return show(batches, name, order)


def show(batches: BatchContext, name: str | None, order: str | VideoFilter) -> BatchView:
    """Show the current state of a run."""
    names = batches.run_names()
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
            **_downloads(batches, None),
        )
    last = batches.jobs.find(name)
    job = None if last is not None and last.state == "refused" else last  # a refused job has not changed the folder
    results = _results(batches, name, job)
    words, is_problem = describe_status(batches, name, job, results)
    return _view(results, order, batches.video_names(name))._replace(
        shown=_shown_run(name, last, order),
        status=status_line(words, is_problem=is_problem),
        progress="" if job is None else draw_job(job),
        runs=runs,
        cancel=gr.Button(interactive=job is not None and not job.is_over),
        **_downloads(batches, name),
    )


def tick(batches: BatchContext, shown: ShownRun, name: str | None, order: str | VideoFilter) -> BatchView:
    """Show the changes since the last reply to the window; everything if that was for a different run.

    The chosen run is never set: the reply may arrive after the user has chosen a different run. The next tick corrects
    the outputs of such a late reply.
    """
    job = batches.jobs.find(name) if name is not None else None
    now = _shown_run(name, job, order)
    if name is None or (now == shown and (job is None or job.is_over)):
        is_new = job is not None and job.state != "refused" and time.monotonic() < job.ended_s + REPEAT_STATUS_S
        return UNCHANGED._replace(**_live_outputs(batches, job)) if job is not None and is_new else UNCHANGED
    is_much = abs(now.num_rows - shown.num_rows) >= max(1, shown.num_rows // 50)
    if job is not None and now._replace(num_rows=shown.num_rows) == shown and not is_much:
        return UNCHANGED._replace(shown=shown, **_live_outputs(batches, job))  # may arrive late, too
    view = show(batches, name, order)._replace(runs=gr.Dropdown(choices=batches.run_names()))
    if job is not None and job.state == "refused" and shown.name == name and shown.state in ("waiting", "running"):
        return view._replace(
            status=status_line(as_sentence(job.problem), is_problem=True)
        )  # only in windows that saw it queued
    return view


def _downloads(batches: BatchContext, name: str | None) -> dict[str, Any]:
    """Return the buttons of downloads and settings, enabled as the run has them, and the provenance."""
    use = gr.Button(interactive=has_table(batches, name, "provenance.json"))
    buttons = {table.replace(".", "_"): gr.Button(interactive=has_table(batches, name, table)) for table in TABLES}
    return {**buttons, "use": use, "origin": draw_provenance(batches, name)}


def _live_outputs(batches: BatchContext, job: Job) -> dict[str, Any]:
    words, is_problem = describe_status(batches, job.name, job, Results())
    return {"status": status_line(words, is_problem=is_problem), "progress": draw_job(job)}


def _shown_run(name: str | None, job: Job | None, order: str | VideoFilter) -> ShownRun:
    return ShownRun(name=name, state=job.state if job else "", num_rows=len(job.rows) if job else 0, order=order)


def _results(batches: BatchContext, name: str, job: Job | None) -> Results:
    if job is None or job.is_over:
        results = read_results(batches.runs / name)
        if results.rows or job is None:
            return results
    return Results(rows=list(job.rows.values()))


def _view(results: Results, order: str | VideoFilter, names: Mapping[str, str]) -> BatchView:
    data = results.charts
    return UNCHANGED._replace(
        videos=video_table(results.rows, order, names),
        corpus=draw_corpus(results.metrics),
        precision_recall=charts.precision_recall(data),
        reliability=charts.reliability(data),
        leads=charts.leads(data),
        failures=charts.failures(data),
        states=charts.states(data),
        latency=charts.latency(data),
    )


def enter(batches: BatchContext, name: str | None, order: str | VideoFilter) -> BatchView:
    """Show the chosen run, else the newest, and start polling; called when the tab is opened."""
    names = batches.run_names()
    return show(batches, name or (names[0] if names else None), order)._replace(timer=gr.Timer(active=True))


def leave() -> Any:
    """Stop polling; called when another tab is opened."""
    return gr.Timer(active=False)
