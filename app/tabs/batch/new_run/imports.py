"""The import of result files of another system, for the chosen split: a job of the queue that needs no model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.controls.run_inputs import read_rule
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import Job
from stepscope.app.core.references import MAX_RESULT_BYTES, check_size
from stepscope.app.core.results import VideoFilter
from stepscope.app.formatting import as_sentence, name_files
from stepscope.app.tabs.batch.new_run.start import check_name
from stepscope.app.tabs.batch.runs.handlers import UNCHANGED, BatchView, show
from stepscope.app.web.views import status_line
from stepscope.eval.runs.imports.import_results import FoundResults, find_results
from stepscope.eval.runs.imports.system_output import SignalRule


def import_files(
    batches: BatchContext,
    split: str | None,
    files: Sequence[str] | None,
    name: str | None,
    signal: str | None,
    policy: str,
    threshold: str | None,
    order: str | VideoFilter,
) -> BatchView:
    """Queue the import of uploaded result files as a run, and show it; with a threshold, a signal decides by a rule.

    Files of no known form, or of no video of the split, are refused below the boxes, and nothing is written.
    """
    paths = [Path(path) for path in files or ()]
    try:
        job = _make_job(batches, split, paths, (name or "").strip(), read_rule(signal, policy, threshold))
        batches.jobs.submit(job)
    except (ValueError, OSError) as error:
        return UNCHANGED._replace(problem=_describe(batches, paths, str(error)))
    view = show(batches, job.name, order)
    return view._replace(shown=view.shown._replace(state="waiting"), problem=status_line(""))


class FilesCheck(NamedTuple):
    """Outputs of the check of uploaded files."""

    problem: Any
    signal: Any
    """The choice of the signal that decides."""


def check_files(batches: BatchContext, split: str | None, files: Sequence[str] | None) -> FilesCheck:
    """Check uploaded files for the chosen split, and offer the signals that may decide in them."""
    paths = [Path(path) for path in files or ()]
    try:
        found = _find(batches, split, paths)
    except (ValueError, OSError) as error:
        return FilesCheck(problem=_describe(batches, paths, str(error)), signal=gr.skip())
    deciding = list(dict.fromkeys(name for _, form in found.by_video.values() for name in form.deciding))
    first = next(iter(found.problems.values()), "")
    more = f", and {len(found.problems) - 1} more; the others can be imported" if len(found.problems) > 1 else ""
    return FilesCheck(
        problem=_describe(batches, paths, f"{first}{more}") if first else status_line(""),
        signal=gr.Dropdown(choices=deciding, value=next(iter(deciding), None)),
    )


def _find(batches: BatchContext, split: str | None, files: Sequence[Path]) -> FoundResults:
    chosen = batches.splits.get(split or "")
    if chosen is None:
        raise ValueError("no split is chosen; choose that of the results")
    if not files:
        raise ValueError("there are no result files; choose some")
    for path in files:
        check_size(path, limit=MAX_RESULT_BYTES)
    return find_results(files, chosen)


def _describe(batches: BatchContext, files: Sequence[Path], problem: str) -> Any:
    splits = [known.path for known in batches.splits.values()]
    return status_line(as_sentence(name_files(problem, [*files, *splits])), is_problem=True)


def _make_job(
    batches: BatchContext, split: str | None, files: Sequence[Path], name: str, rule: SignalRule | None
) -> Job:
    _find(batches, split, files)
    name = check_name(name, default=f"{split}-{files[0].stem}")
    folder = batches.runs / name
    if folder.exists():
        raise ValueError(f"there is a run called {name} already; enter another name")
    return Job(
        folder=folder,
        split=batches.splits[split or ""],
        results=tuple(files),
        rule=rule,
        scoring=batches.scoring_of({}),
    )
