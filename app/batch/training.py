"""The tab *Training*: a split is checked, or a training folder is shown and followed."""

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import gradio as gr

from stepscope.app.controls.widgets import AT_ONCE, LATEST, Updates, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.figures.charts.registry import TRAINING_CHARTS
from stepscope.app.formatting import as_sentence, format_score
from stepscope.app.player.component import make_chart, pack_chart
from stepscope.app.window.context import AppContext
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.training.curves import TrainingProgress
from stepscope.eval.training.data import check_split
from stepscope.eval.training.results import ClipRow, TrainingResults, is_training_folder, read_results, summarize

HEADERS: Final = (
    "Clip",
    "Minutes",
    "Responses",
    "Updates",
    "User turns",
    "Turns per minute",
    "Frames that speak, %",
    "Frames that update, %",
    "Steps never updated",
    "Contexts",
    "Longest context, tokens",
    "Problem",
)
MAX_ROWS: Final = 1000
"""Rows that a browser shows without delay; ``clips.csv`` has all."""


def clip_table(rows: Sequence[ClipRow]) -> list[list[str | float | None]]:
    """Return the cells of up to ``MAX_ROWS`` clips: unusable ones, then others with a problem, then in order."""
    ordered = sorted(rows, key=lambda row: (row.is_used, not row.problem))
    return [_cells(row) for row in ordered[:MAX_ROWS]]


def _cells(row: ClipRow) -> list[str | float | None]:
    if not row.is_used:
        return [row.video_id, *[None] * (len(HEADERS) - 2), f"unusable: {row.problem}"]
    return [
        row.video_id,
        _round(row.minutes, 2),
        row.responses,
        row.updates,
        row.user_turns,
        _round(row.turns_per_minute, 1),
        _round(100 * row.speaking_rate, 1),
        _round(100 * row.update_rate, 1),
        row.steps_never_seen,
        row.contexts,
        row.longest_context,
        row.problem,
    ]


def _round(value: float, digits: int) -> float | None:
    return None if math.isnan(value) else round(value, digits)


_FOLDER: Final = "folder "
_SPLIT: Final = "split "
NO_CHOICE: Final = (
    "Choose a split to check its clips before training, or a training run of this page's folder to see its curves. "
    "A run is started with: stepscope train SPLIT --val SPLIT --out {runs}/NAME"
)


def list_sources(batches: BatchContext, source: str | None) -> Any:
    """Return the dropdown of the splits of the page and of the training folders beside its runs."""
    choices = [(f"training run: {name}", f"{_FOLDER}{name}") for name in _training_folders(batches)]
    choices += [(f"split: {name}", f"{_SPLIT}{name}") for name in batches.listed_splits()]
    return gr.Dropdown(choices=choices, value=source if source in dict(choices).values() else None)


def show_training(context: AppContext, batches: BatchContext, source: str | None) -> Updates:
    """Show a split or a training folder, by its value in ``list_sources``."""
    empty = _draw(TrainingResults(), "")
    try:
        if source and source.removeprefix(_FOLDER) in _training_folders(batches):
            return _show_folder(batches, source.removeprefix(_FOLDER))
        if source and source.removeprefix(_SPLIT) in batches.splits:
            return _show_split(context, batches, source)
    except (EngineError, ValueError, OSError) as error:
        return Updates(empty, said=as_sentence(error))
    return Updates(empty, said=NO_CHOICE.format(runs=batches.runs if batches.takes_paths else batches.runs.name))


def follow_training(batches: BatchContext, shown: tuple[str, float] | None) -> Updates:
    """Update the view if the shown training folder has changed since ``shown``."""
    name, written_s = shown or ("", math.nan)
    if name not in _training_folders(batches):
        return Updates(timer=gr.Timer(active=False))
    try:
        found = read_results(batches.runs / name)
        return Updates() if found.written_s == written_s else _show_folder(batches, name, found)
    except (ValueError, OSError) as error:
        return Updates(said=as_sentence(error), timer=gr.Timer(active=False))


def follow_again(batches: BatchContext, shown: tuple[str, float] | None) -> Updates:
    """Show the current state of the shown training folder, and follow it unless it is finished."""
    return follow_training(batches, shown and (shown[0], math.nan))


def _training_folders(batches: BatchContext) -> list[str]:
    found = [path for path in batches.runs.glob("*") if is_training_folder(path)] if batches.runs.is_dir() else []
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.name for path in found if replace_surrogates(path.name) == path.name]


def _show_folder(batches: BatchContext, name: str, found: TrainingResults | None = None) -> Updates:
    found = found or read_results(batches.runs / name)
    is_running = found.progress is None or not found.progress.is_over
    return Updates(
        _draw(found, name),
        shown=(name, found.written_s),
        said=f"{_describe_progress(found)} {_describe_clips(found.clips)}",
        timer=gr.Timer(active=is_running),
    )


def _show_split(context: AppContext, batches: BatchContext, source: str) -> Updates:
    checkpoint = context.checkpoint
    rows = tuple(
        check_split(
            batches.splits[source.removeprefix(_SPLIT)],
            checkpoint,
            refresh_at=batches.work.config.refresh_at,
        )
    )
    model = checkpoint.model
    bound = "" if model.image_size else f", which are at most {model.tokens_per_frame} per frame"
    said = f"Checked from the annotations alone, with the tokens of {checkpoint.name}{bound}; videos are not opened."
    return Updates(_draw(TrainingResults(clips=rows), source), said=f"{said} {_describe_clips(rows)}")


def _draw(found: TrainingResults, revision: str) -> Updates:
    has_curves = bool(found.progress or found.validations)
    losses, validation = (
        pack_chart(partial(TRAINING_CHARTS[name].draw, found), revision=revision) if has_curves else ""
        for name in ("losses", "validation")
    )
    return Updates(
        shown=None,  # state: the shown split or training folder, and the time of its last change
        said="",
        clips=clip_table(found.clips),
        timer=gr.Timer(active=False),
        curves=gr.Row(visible=has_curves),
        losses=losses,
        validation=validation,
    )


def _describe_progress(found: TrainingResults) -> str:
    progress: TrainingProgress | None = found.progress
    if progress is None:
        return "No step yet."
    if progress.problem:
        return f"Failed at step {progress.step} of {progress.num_steps}: {as_sentence(progress.problem)}"
    best = ""
    if progress.best_step is not None:
        score = "" if progress.best_score is None else f", validation score {format_score(progress.best_score)}"
        start = next((row["score"] for row in found.validations if row["step"] == 0), math.nan)
        score += "" if math.isnan(start) else f", before training {format_score(start)}"
        best = f" The folder has the weights of step {progress.best_step}{score}."
    state = "Finished after" if progress.is_over else "At"
    clock = time.strftime("%H:%M:%S", time.localtime(found.written_s))
    return f"{state} step {progress.step} of {progress.num_steps}, written at {clock}.{best}"


def _describe_clips(rows: Sequence[ClipRow]) -> str:
    num_problems = sum(bool(row.problem) for row in rows)
    problems = f" {num_problems} have a problem and are listed first." if num_problems else ""
    return f"Clips: {'; '.join(summarize(rows))}.{problems}"


FOLLOW_INTERVAL_S: Final = 3.0


def make_training_panel(
    context: AppContext, batches: BatchContext, *, here: Any, batch_tab: Any, elsewhere: tuple[Any, ...]
) -> None:
    """Lay out and wire the tab.

    ``batch_tab`` is the ``gr.Tab`` around the tab ``here``; selecting one of ``elsewhere`` ends the updates.
    """
    source = gr.Dropdown([], label="Training run, or split to check", interactive=True, elem_id="training_source")
    said = make_status_line("training_said")
    with gr.Row(elem_classes=["charts", "two-charts"], visible=False, elem_id="training_curves") as curves:
        losses, validation = (make_chart(f"training_{name}") for name in ("losses", "validation"))
    clips = gr.Dataframe(
        headers=list(HEADERS),
        datatype=["str", *["number"] * (len(HEADERS) - 2), "str"],
        interactive=False,
        max_height=420,
        show_search="search",
        label="Clips",
        column_widths=["130px", *["77px"] * (len(HEADERS) - 2), "165px"],  # its longest word; a narrow page scrolls
        wrap=True,
        elem_id="training_clips",
    )
    shown, timer = gr.State(None), gr.Timer(FOLLOW_INTERVAL_S, active=False)
    view = {"shown": shown, "said": said, "clips": clips, "timer": timer}
    view |= {"curves": curves, "losses": losses, "validation": validation}
    show = partial(show_training, context, batches)
    listed = here.select(partial(list_sources, batches), source, source, **AT_ONCE)
    wire(listed.then, show, source, view, **AT_ONCE)
    wire(source.select, show, source, view, **LATEST)
    wire(timer.tick, partial(follow_training, batches), shown, view, **AT_ONCE)
    wire(batch_tab.select, partial(follow_again, batches), shown, view, **AT_ONCE)
    gr.on([tab.select for tab in elsewhere], lambda: gr.Timer(active=False), None, timer, **AT_ONCE)
