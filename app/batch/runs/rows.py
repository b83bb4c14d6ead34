"""The runs of the batch tab as rows, with their notes, scores, status and progress; their texts are untrusted."""

from collections.abc import Mapping
from typing import Any, Final

import gradio as gr

from stepscope.app.batch.runs.jobs import describe_job, describe_workers
from stepscope.app.batch.selection import Selection
from stepscope.app.controls.widgets import MODULES
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.formatting import as_sentence, format_score
from stepscope.engine.io.files import to_json
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.reports.run_list import list_runs

MAX_SCORES: Final = 3
"""Scores in a row; *Over time* has all."""
VIEWS: Final = {"Leaderboard": "Leaderboard", "Runs": "Over time", "Training": "Training", "Split": "Split"}
"""The views of the list, by the ids of their tabs."""


def pack_runs(
    batches: BatchContext, selection: Selection, status: tuple[str, bool], actions: Any, *, is_entry: bool = False
) -> str:
    """Return the listed runs as JSON; the shown one has a ``status``, with whether it is a problem, and buttons.

    ``is_entry`` says that the tab was opened with this run, and that the user has not chosen it.
    """
    names = batches.listed_runs(selection.run)
    folders = {name: batches.folder(name) for name in names}
    known = {
        run.name: run for run in list_runs({n: path for n, path in folders.items() if (path / "run.json").exists()})
    }
    metrics = [find_metric(name) for name in list(selection.scores or ())[:MAX_SCORES]]
    rows = []
    for name in names:
        run, is_shown = known.get(name), name == selection.run
        said, is_problem = status if is_shown else describe_job(batches, name)
        scores = [run.scores.get(metric.name) if run else None for metric in metrics]
        about = (run.settings.get("split"), run.origin, run.thresholds) if run else ()
        rows.append(
            {
                "name": name,
                "about": " · ".join(filter(None, about)),
                "note": run.notes.note if run else "",
                "tags": run.notes.tags if run else (),
                "scores": [
                    "" if value is None else format_score(value, is_count=metric.is_count)
                    for metric, value in zip(metrics, scores, strict=True)
                ],
                "actions": actions if is_shown else (),
                "said": said.removeprefix(f"{name}: ") or (as_sentence(run.problem) if run and run.problem else ""),
                "is_problem": is_problem,
            }
        )
    shown = {"shown": selection.run or "", "other": selection.other or "", "is_entry": is_entry}
    return to_json({**shown, "views": VIEWS, "columns": [metric.label for metric in metrics], "runs": rows})


def pack_progress(batches: BatchContext) -> str:
    """Return the status of the runs that are queued or stream, by name, as JSON."""
    return to_json({job.name: _describe_live(batches, job.name) for job in batches.jobs.active_jobs()})


def _describe_live(batches: BatchContext, name: str) -> Mapping[str, Any]:
    said, is_problem = describe_job(batches, name)
    job = batches.jobs.find(name)
    progress = None if job is None else job.progress
    live = {"said": said.removeprefix(f"{name}: "), "is_problem": is_problem}
    if progress is None:
        return live
    return {**live, "done": progress.num_done, "total": progress.num_frames, "workers": describe_workers(progress)}


def make_run_rows() -> Any:
    """Return the list. Its event ``pick`` has the runs ``a`` and ``b``, ``view`` the tab to open; others are of A."""
    return gr.HTML(
        value="",
        patch="",
        html_template='<div class="wb-runs"></div>',
        js_on_load=MODULES.make_script("workbench/runs.js", events=["pick", "view", "cancel", "score", "use"]),
        apply_default_css=False,
        elem_id="run_rows",
        padding=False,
    )
