"""The start of a batch run, or of an import of result files: the form becomes a job of the queue."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import gradio as gr

from stepscope.app.batch.new_run.form import DEVICES, NewRunForm, ResultsForm, make_work
from stepscope.app.batch.runs.handlers import show
from stepscope.app.batch.selection import Selection
from stepscope.app.controls.run_inputs import read_rule
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import Job
from stepscope.app.core.references import MAX_RESULT_BYTES, check_size
from stepscope.app.formatting import as_sentence, name_files
from stepscope.app.player.views import status_line
from stepscope.app.review_store.database import SQLITE_ENDINGS
from stepscope.engine.errors import EngineError
from stepscope.eval.runs.batch import build_run_settings, parse_devices
from stepscope.eval.runs.folder import IDENTITY, RunFolder
from stepscope.eval.runs.imports.import_results import FoundResults, find_results
from stepscope.eval.runs.output_folder import FolderRefusedError, find_changed_settings
from stepscope.eval.runs.pools.ray_pool import is_cluster

NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
MAX_NAME_CHARS: Final = 80


def start(batches: BatchContext, form: NewRunForm, selection: Selection) -> Updates:
    """Queue a run, or continue an existing one with the same settings; show it.

    A refusal appears below the form.
    """
    try:
        job = _make_job(batches, form)
        batches.jobs.submit(job)
    except (EngineError, ValueError, OSError) as error:
        return Updates(problem=status_line(as_sentence(error), is_problem=True))
    return _show_queued(batches, job, selection)


def _show_queued(batches: BatchContext, job: Job, selection: Selection) -> Updates:
    view = show(batches, replace(selection, run=job.name))
    # the job may be refused by now; the next tick then finds a change, and shows the reason
    shown = view.shown._replace(states=((job.name, "waiting"),))
    return Updates(view, runs=job.name, shown=shown, problem=status_line(""))


def _make_job(batches: BatchContext, form: NewRunForm) -> Job:
    work = make_work(batches, form.checkpoint, form.speak, form.update, live=form.live, strategy=form.strategy)
    chosen, devices = batches.splits.get(form.split or ""), form.devices
    if chosen is None:
        raise ValueError("no split is chosen; choose one")
    if devices not in DEVICES and not batches.takes_paths:
        raise ValueError(f"choose devices from the list: {', '.join(DEVICES)}")
    same = next((job.name for job in batches.jobs.active_jobs() if (job.split, job.work) == (chosen, work)), None)
    settings = None if is_cluster(devices) else build_run_settings(chosen, work, parse_devices(devices))
    if same is None and settings is not None:  # connecting to the cluster would block the page
        same = _find_same(batches, settings)
    name = check_name((form.name or "").strip() or same or "", default=str(form.split))
    folder = batches.runs / name
    if settings is not None:
        _check_folder(folder, settings)
    scoring = batches.scoring_of(batches.settings_of(name))
    return Job(folder=folder, split=chosen, work=work, devices=devices, scoring=scoring)


def check_name(name: str, *, default: str) -> str:
    """Return the name of a run; without one ``default`` and the time. Raises ``ValueError`` for an invalid name."""
    if not name:
        prefix = "".join(char if char in NAME_CHARACTERS else "_" for char in default).lstrip(".")[:40]
        name = f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}"
    if not set(name) <= NAME_CHARACTERS or name.startswith(".") or len(name) > MAX_NAME_CHARS:
        raise ValueError(
            f"a run's name may have letters, digits, '.', '_' and '-', at most {MAX_NAME_CHARS}; got {name[:100]!r}"
        )
    if name.lower().endswith(SQLITE_ENDINGS):  # SQLite could not open the store of reviews beside such a folder
        raise ValueError(f"a run's name does not end in {' or '.join(SQLITE_ENDINGS)}; got {name!r}")
    return name


def _check_folder(folder: Path, settings: Mapping[str, Any]) -> None:
    try:
        if folder.exists():
            RunFolder(folder).check(settings, resume=True)
    except FolderRefusedError as error:
        raise ValueError(str(error).replace(str(folder), folder.name)) from error


def _find_same(batches: BatchContext, settings: Mapping[str, Any]) -> str | None:
    for name in batches.run_names():
        if batches.folder(name) == batches.bundled:
            continue
        try:
            found = batches.settings_of(name)
        except ValueError:
            continue
        if found and not find_changed_settings(found, settings, IDENTITY):
            return name
    return None


def import_files(batches: BatchContext, form: ResultsForm, selection: Selection) -> Updates:
    """Queue the import of uploaded result files as a run, and show it; with a threshold, a signal decides by a rule.

    Files of no known form, or of no video of the split, are refused below the boxes, and nothing is written.
    """
    try:
        job = _make_import(batches, form)
        batches.jobs.submit(job)
    except (ValueError, OSError) as error:
        return Updates(problem=_describe(batches, form, str(error)))
    return _show_queued(batches, job, selection)


def check_files(batches: BatchContext, form: ResultsForm) -> Updates:
    """Check uploaded files for the chosen split; show a problem, and the choices of signals that may decide."""
    try:
        found = _find(batches, form)
    except (ValueError, OSError) as error:
        return Updates(problem=_describe(batches, form, str(error)))
    deciding = list(dict.fromkeys(name for _, source in found.by_video.values() for name in source.deciding))
    first = next(iter(found.problems.values()), "")
    more = f", and {len(found.problems) - 1} more; the others can be imported" if len(found.problems) > 1 else ""
    problem = _describe(batches, form, f"{first}{more}") if first else status_line("")
    return Updates(problem=problem, signal=gr.Dropdown(choices=deciding, value=next(iter(deciding), None)))


def _find(batches: BatchContext, form: ResultsForm) -> FoundResults:
    chosen = batches.splits.get(form.split or "")
    if chosen is None:
        raise ValueError("no split is chosen; choose that of the results")
    if not form.files:
        raise ValueError("there are no result files; choose some")
    files = [Path(path) for path in form.files]
    for path in files:
        check_size(path, limit=MAX_RESULT_BYTES)
    return find_results(files, chosen)


def _describe(batches: BatchContext, form: ResultsForm, problem: str) -> Any:
    files = [*map(Path, form.files or ()), *(known.path for known in batches.splits.values())]
    return status_line(as_sentence(name_files(problem, files)), is_problem=True)


def _make_import(batches: BatchContext, form: ResultsForm) -> Job:
    rule = read_rule(**form.rule._asdict())
    _find(batches, form)
    files = tuple(map(Path, form.files))
    name = check_name((form.name or "").strip(), default=f"{form.split}-{files[0].stem}")
    folder = batches.runs / name
    if folder.exists():
        raise ValueError(f"there is a run called {name} already; enter another name")
    return Job(
        folder=folder, split=batches.splits[form.split], results=files, rule=rule, scoring=batches.scoring_of({})
    )
