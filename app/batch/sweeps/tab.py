"""The tab *Thresholds*: shows a sweep, runs and cancels an exact one, and applies the best point."""

import math
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import gradio as gr

from stepscope.app.batch.file_rows import NamedFigure, make_figure_row
from stepscope.app.batch.sweeps import folders
from stepscope.app.controls.cancellable import WorkButtons, show_ended, show_working, wire_work
from stepscope.app.controls.widgets import (
    AT_ONCE,
    LATEST,
    SWEEP_QUEUE,
    UPDATE_INTERVAL_S,
    Pace,
    Updates,
    make_status_line,
    read_event,
    wire,
    wire_download,
)
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.figures.charts.registry import SWEEP_CHARTS
from stepscope.app.formatting import as_sentence, format_clock, format_score
from stepscope.app.player.component import make_chart, pack_chart, patch_player
from stepscope.app.player.views import PlayerComponents
from stepscope.app.style.colours import Theme
from stepscope.app.templates import render
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import Cancellable
from stepscope.engine.config import format_threshold
from stepscope.engine.decisions.signals import Decision
from stepscope.engine.errors import EngineError
from stepscope.engine.plurals import format_count
from stepscope.eval.metrics.definitions import find_metric, has_direction
from stepscope.eval.sweeps.best_point import BestPoint, explain_best, find_best, recommend_metric, warn_of_edge
from stepscope.eval.sweeps.exact import SweepProgress, run_sweep
from stepscope.eval.sweeps.grid import GRID_SIZES, SWEEP_METRICS, GridScores

RECOMMENDED: Final = "recommended"


def choices(scores: GridScores | None) -> list[tuple[str, str]]:
    """Return the choices of scores: the recommended one, those of the points, and those that need exact points."""
    known = scores.metrics if scores is not None else ()
    offered = [(find_metric(name).label, name) for name in SWEEP_METRICS if has_direction(name)]
    return [
        (RECOMMENDED, RECOMMENDED),  # constant, since a focused dropdown keeps the old label of its choice
        *((label, name) for label, name in offered if name in known),
        *((f"{label} (needs exact points)", name) for label, name in offered if name not in known),
    ]


def describe_best(found: folders.FoundSweep, best: BestPoint) -> str:
    """Return the best point and the gain over the present one in one line."""
    value = format_score(best.value, is_count=find_metric(best.metric).is_count)
    explained = explain_best(best, folders.find_gain(found, best))
    return f"Best: {best.place}; {find_metric(best.metric).label}{best.grid.of_rule} {value}. {explained}".rstrip()


def describe_search(found: folders.FoundSweep, best: BestPoint) -> str:
    """Return how the best point was found: ties, points and cautions, as folded HTML."""
    name = Path(found.scores.split).name
    parts = [
        f"{best.ties}." if best.ties else "",
        warn_of_edge(best),
        describe_points(found),
        f"Caution: {found.scores.warning.replace(found.scores.split, name)}." if found.scores.warning else "",
    ]
    return render("search_note", text=" ".join(filter(None, parts)))


def describe_points(found: folders.FoundSweep) -> str:
    """Return a description of the points: exact or preview, number of videos, and the available exact sizes."""
    scores = found.scores
    errors = f", {format_count(len(scores.errors), 'has', 'have')} no scores" if scores.errors else ""
    left_out = "".join(f" {problem}" for problem in found.problems)
    videos = format_count(scores.num_videos, "video")
    if scores.is_exact:
        return f"Exact: each of {len(scores.grid)} points was run, {videos}{errors}.{left_out}"
    sizes = " and ".join(str(size) for size in found.exact_sizes)
    available = f" Exact points are available for {sizes} thresholds per axis." if sizes else ""
    return (
        f"Preview from the traces of {found.run}, {videos}{errors}: it ignores that different decisions change the "
        f"context of the model.{available}{left_out}"
    )


CANCELLED: Final = "Cancelled. Finished videos are kept; start it again to continue."


_DONE: Final = "Done: "
"""Before what a button has set: the player and the form may have other thresholds since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepForm:
    """The shown run, the score by which a point is best, the size of the grid, and the swept signals."""

    run: Any
    metric: Any
    size: Any
    signals: Any = None


def _show_none(said: str) -> Updates:
    """Return the view without a sweep; ``best`` is the point that the button ``apply`` uses."""
    return Updates(
        said=said,
        search="",
        heat="",
        curves="",
        best=None,
        apply=gr.Button("Use the best point", interactive=False, visible=True),
        metric=gr.Dropdown(choices=choices(None)),
        csv=gr.DownloadButton(interactive=False),
        json=gr.DownloadButton(interactive=False),
        signals=gr.Dropdown(choices=[], value=None, visible=False),
    )


def offer_points(batches: BatchContext, live: Cancellable | None, name: str | None) -> Any:
    """Enable *Run each point* for a run whose model the page has; unchanged while a sweep of the window is active."""
    if live is not None and not live.ended.is_set() and not live.is_cancelled:
        return gr.skip()
    try:
        folders.check_has_model(batches, name or "the run", batches.settings_of(name))
    except ValueError:
        return gr.Button(interactive=False)
    return gr.Button(interactive=True)


def enter_sweep(batches: BatchContext, form: SweepForm) -> Updates:
    """Show the sweep of a newly chosen run, with the size of its grid: one with exact points if there is one."""
    sizes = folders.find_exact_sizes(batches, form.run)
    size = form.size if form.size in sizes or not sizes else sizes[-1]
    return Updates(show_sweep(batches, replace(form, size=size)), size=size)


def show_sweep(batches: BatchContext, form: SweepForm) -> Updates:
    """Show the points of a grid: exact if they were run, else a preview from the traces of the run."""
    name, metric = form.run, form.metric
    try:
        found = folders.find_sweep(batches, name, form.size, form.signals or "")
    except (EngineError, ValueError, OSError) as error:
        job = batches.jobs.find(name) if name is not None else None
        if job is not None and not job.is_over:
            return _show_none(f"{name} is still running; its points are shown when it has finished.")
        return _show_none(as_sentence(error))
    files = {name: gr.DownloadButton(interactive=True) for name in ("csv", "json")}
    view = Updates(_show_none(""), metric=gr.Dropdown(choices=choices(found.scores)), **files)
    if found.choices:
        view.signals = gr.Dropdown(choices=list(found.choices), value=found.signals, visible=True)
    chosen = recommend_metric(found.scores.metrics) if metric == RECOMMENDED else metric
    if chosen not in found.scores.metrics:
        needs = f"{find_metric(chosen).label} needs exact points: press Run each point, or choose another score."
        if found.scores.grid.specs:
            needs = f"{find_metric(chosen).label} is no score of a preview of these signals: choose another score."
        return Updates(view, said=f"{describe_points(found)} {needs}")
    try:
        best = find_best(found.scores, chosen, present=found.data.present)
    except ValueError as error:
        return Updates(view, said=f"{describe_points(found)} {as_sentence(error)}")
    revision = f"{name} {chosen} {form.size} {found.signals}"
    return Updates(
        view,
        said=describe_best(found, best),
        search=describe_search(found, best),
        heat=pack_chart(partial(SWEEP_CHARTS["heat_map"].draw, found.data, chosen), revision=revision),
        curves=pack_chart(partial(SWEEP_CHARTS["curves"].draw, found.data, chosen), revision=revision),
        best=best,
        apply=gr.Button(f"Use {_button_words(best)}", interactive=True, visible=not best.is_present),
    )


def draw_sweep_chart(batches: BatchContext, form: SweepForm, name: str, theme: Theme) -> NamedFigure:
    """Return a chart of ``SWEEP_CHARTS`` of the shown points. Raises ``ValueError`` if they lack the score."""
    if name not in SWEEP_CHARTS:
        raise ValueError("there is no such chart; choose one of the list")
    found = folders.find_sweep(batches, form.run, form.size, form.signals or "")
    chosen = recommend_metric(found.scores.metrics) if form.metric == RECOMMENDED else form.metric
    return NamedFigure(figure=SWEEP_CHARTS[name].draw(found.data, chosen, theme), run=found.run)


def run_points(
    context: AppContext, batches: BatchContext, live: Cancellable, name: str | None, size: int, devices: str
) -> Generator[Updates]:
    """Run the split of a run at every point of a grid; see ``run_planned``."""
    plan = partial(folders.plan_sweep, batches, name, size, devices)
    yield from run_planned(context, live, plan, lambda _: show_ended(""))


def run_planned(
    context: AppContext,
    live: Cancellable,
    plan: Callable[[], folders.PlannedSweep],
    read: Callable[[folders.PlannedSweep], Updates],
) -> Generator[Updates]:
    """Run a sweep; yield its progress on ``WorkButtons``, then what ``read`` returns. Finished videos are kept.

    A cancelled sweep yields only that it was cancelled. Failed videos are named until the sweep ends.
    """
    pace, failed = Pace(UPDATE_INTERVAL_S), dict[str, str]()
    live.is_started = True
    try:
        planned = plan()
        events = run_sweep(
            planned.split,
            planned.work,
            planned.grid,
            out=planned.folder,
            scoring=planned.scoring,
            encode=context.encode,
            device=planned.device,
            resume=True,
        )
        with closing(events):
            for progress in events:
                if live.is_cancelled:
                    break
                if progress.error and progress.video_id is not None:
                    failed[progress.video_id] = progress.error
                if pace.is_due():
                    yield show_working(draw_sweep_progress(progress, failed))
        yield show_ended(CANCELLED) if live.is_cancelled else read(planned)
    except (EngineError, ValueError, OSError) as error:
        yield show_ended(as_sentence(error), is_problem=True)
    finally:
        live.ended.set()


def draw_sweep_progress(progress: SweepProgress, failed: Mapping[str, str]) -> str:
    """Return a progress bar of the frames of all runs, with a line of text, as HTML; ``failed`` has errors by video."""
    rest = "" if progress.remaining_s is None else f", {format_clock(progress.remaining_s)} left"
    text = (
        f"{progress.frames_done:,} of {progress.num_frames:,} frames, {progress.num_done} of "
        f"{format_count(progress.num_runs, 'run')}, {progress.num_finished} of "
        f"{format_count(progress.num_videos, 'video')}, {progress.passes:,} model passes{rest}. "
        "The sweep ends if this window is closed; finished videos are kept."
    )
    text += "".join(f" {video_id} failed: {as_sentence(error)}" for video_id, error in failed.items())
    return render("sweep_progress", progress=progress, text=text)


def _button_words(best: BestPoint) -> str:
    """Return the thresholds of a point in few words, such as ``0.4 and 0.5`` or ``theta 0.6``."""
    known = [format_threshold(value) for value in best.thresholds if not math.isnan(value)]
    return best.place if best.grid.has_theta else " and ".join(known)


def apply_best(best: BestPoint | None, said: str, run: str | None) -> Updates:
    """Set the thresholds of both tabs to the best point, and add that to the description ``said``.

    Those of named signals are set in the player alone, for the videos of ``run``.
    """
    return _apply(best, None if best is None else best.thresholds, said, run)


def apply_picked(best: BestPoint | None, said: str, run: str | None, event: gr.EventData) -> Updates:
    """Set the thresholds of both tabs to a picked point of a chart, as ``apply_best``; ``best`` has its grid."""
    point = read_event(event, "point")
    is_pair = isinstance(point, list) and len(point) == 2
    if best is None or not is_pair or not all(value is None or isinstance(value, int | float) for value in point):
        return _apply(best, None, said, run)
    speak, update = (math.nan if value is None else float(value) for value in point)
    swept = {"speak": speak, "update": update}
    is_valid = all(
        math.isfinite(value) and (name in best.grid.specs or 0 <= value <= 1) if name in best.grid.titles else True
        for name, value in swept.items()
    )
    return _apply(best, (speak, update) if is_valid else None, said, run)


def _apply(best: BestPoint | None, thresholds: tuple[float, float] | None, said: str, run: str | None) -> Updates:
    if best is None or thresholds is None:
        return Updates()
    described, _, _ = said.partition(_DONE)
    place, specs = best.grid.describe(*thresholds), best.grid.specs
    where = f"in the player, for the videos of {run}" if specs else "for the next run here, and in the player"
    values: dict[Decision, float] = {"speak": thresholds[0], "update": thresholds[1]}
    heads: dict[str, float] = {name: values[name] for name in best.grid.titles if name not in specs}
    named = {spec.name: values[name] for name, spec in specs.items()}
    return Updates(
        form=Updates(**heads),
        player=Updates(**heads),
        said=f"{described.rstrip()} {_DONE}{place} set {where}.",
        preview=patch_player(thresholds=dict(heads) | ({"used": {"run": run, "signals": named}} if specs else {})),
    )


def make_sweep_panel(
    context: AppContext,
    batches: BatchContext,
    *,
    runs: Any,
    shown: Any,
    devices: Any,
    here: Any,
    sliders: Any,
    player: PlayerComponents,
) -> None:
    """Lay out and wire the tab.

    A sweep runs on the first of ``devices``. A point sets the ``sliders`` of the form, and those of the ``player``.
    """
    with gr.Row():
        metric = gr.Dropdown(
            choices(None),
            value=RECOMMENDED,
            label="Best by",
            interactive=True,
            scale=3,
            min_width=300,
            elem_id="metric",
        )
        signals = gr.Dropdown(
            [], label="Signals", visible=False, interactive=True, scale=3, min_width=200, elem_id="sweep_signals"
        )
        size = gr.Dropdown(list(GRID_SIZES), value=GRID_SIZES[1], label="Thresholds per axis", scale=2, elem_id="size")
        with gr.Column(scale=4, min_width=376), gr.Row():  # the buttons stay together in a narrow window
            with gr.Column(min_width=180):
                exact = gr.Button("Run each point", size="sm", elem_id="exact")
                cancel = gr.Button("Cancel", variant="stop", size="sm", interactive=False, elem_id="cancel_sweep")
            with gr.Column(min_width=180):
                apply = gr.Button("Use the best point", size="sm", interactive=False, elem_id="apply")
                with gr.Row():
                    table = gr.DownloadButton(
                        "sweep.csv", size="sm", min_width=80, interactive=False, elem_id="sweep_csv"
                    )
                    whole = gr.DownloadButton("sweep.json", size="sm", min_width=80, interactive=False)
    progress = gr.HTML(elem_id="sweep_progress", padding=False)
    swept = make_status_line("swept")
    search = gr.HTML(elem_id="swept_search", padding=False)
    with gr.Row(elem_classes=["charts", "two-charts"]):
        heat, through = (make_chart(name, hint="Click a point to use its thresholds") for name in ("heat", "through"))
    form = SweepForm(run=runs, metric=metric, size=size, signals=signals)
    titles = {name: chart.title for name, chart in SWEEP_CHARTS.items()}
    make_figure_row(titles, partial(draw_sweep_chart, batches), [form], elem_id="sweep")
    for button, name in ((table, "sweep.csv"), (whole, "sweep.json")):
        wire_download(button.click, partial(folders.download_sweep, batches, name), [runs, size, signals])
    view = {
        "said": swept,
        "search": search,
        "heat": heat,
        "curves": through,
        "best": gr.State(None),
        "apply": apply,
        "metric": metric,
        "csv": table,
        "json": whole,
        "signals": signals,
    }
    buttons = WorkButtons(start=exact, cancel=cancel, progress=progress)
    enter, show = partial(enter_sweep, batches), partial(show_sweep, batches)
    wire(partial(gr.on, [here.select, shown.change]), enter, form, {**view, "size": size}, **LATEST)
    wire(partial(gr.on, [metric.select, size.select, signals.select]), show, form, view, **LATEST)
    live, run = gr.State(None), partial(run_points, context, batches)
    gr.on([here.select, shown.change], partial(offer_points, batches), [live, runs], exact, **LATEST)
    options = {"cancelled": CANCELLED, **SWEEP_QUEUE}
    for ended in wire_work(buttons, run, [live, runs, size, devices], buttons, **options):
        wire(ended.then, show, form, view, **AT_ONCE)
    applied = {"form": sliders, "player": player.choose("speak", "update"), "said": swept, "preview": player.player}
    inputs = [view["best"], swept, runs]
    wire(apply.click, apply_best, inputs, applied, **AT_ONCE)
    for chart in (heat, through):
        wire(chart.pick, apply_picked, inputs, applied, **AT_ONCE)
