"""Handlers of the Thresholds tab: show a sweep, run and cancel an exact one, and apply the best point."""

import math
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.batch.file_rows import NamedFigure
from stepscope.app.batch.sweeps import folders
from stepscope.app.controls.cancellable import WorkButtons, show_ended, show_working
from stepscope.app.controls.widgets import UPDATE_INTERVAL_S, Pace, read_event
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.figures.charts.registry import SWEEP_CHARTS
from stepscope.app.formatting import as_sentence, format_clock, format_score
from stepscope.app.player.component import pack_chart
from stepscope.app.style.colours import Theme
from stepscope.app.templates import render
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import Cancellable
from stepscope.engine.config import format_threshold
from stepscope.engine.decisions.signals import Decision
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import to_json
from stepscope.engine.plurals import format_count
from stepscope.eval.metrics.definitions import find_metric, has_direction
from stepscope.eval.sweeps.best_point import BestPoint, explain_best, find_best, recommend_metric, warn_of_edge
from stepscope.eval.sweeps.exact import SweepProgress, run_sweep
from stepscope.eval.sweeps.grid import SWEEP_METRICS, GridScores

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


_IN_USE: Final = "In use: "
_EVERYWHERE: Final = "the next run here and the player have "


class SweepView(NamedTuple):
    """The outputs of the sweep, by default of none; ``best`` is the point that the button ``apply`` uses."""

    said: Any = ""
    search: Any = ""
    heat: Any = ""
    curves: Any = ""
    best: Any = None
    apply: Any = gr.Button("Use the best point", interactive=False, visible=True)
    metric: Any = gr.Dropdown(choices=choices(None))
    csv: Any = gr.DownloadButton(interactive=False)
    json: Any = gr.DownloadButton(interactive=False)
    signals: Any = gr.Dropdown(choices=[], value=None, visible=False)


class AppliedPoint(NamedTuple):
    """The outputs of ``apply_best`` and ``apply_picked``: the sliders of the form and of the player, and the text.

    ``named`` is a text for ``PREVIEW_THRESHOLDS_JS``, empty without named signals.
    """

    speak: Any = gr.skip()
    update: Any = gr.skip()
    player_speak: Any = gr.skip()
    player_update: Any = gr.skip()
    said: Any = gr.skip()
    named: Any = gr.skip()


def offer_points(batches: BatchContext, live: Cancellable | None, name: str | None) -> Any:
    """Enable *Run each point* for a run whose model the page has; unchanged while a sweep of the window is active."""
    if live is not None and not live.ended.is_set() and not live.is_cancelled:
        return gr.skip()
    try:
        folders.check_has_model(batches, name or "the run", batches.settings_of(name))
    except ValueError:
        return gr.Button(interactive=False)
    return gr.Button(interactive=True)


def enter_sweep(
    batches: BatchContext, name: str | None, metric: str, size: int, signals: str | None = None
) -> tuple[SweepView, int]:
    """Return the sweep of a newly chosen run, and the size of its grid, one with exact points if there is one."""
    sizes = folders.find_exact_sizes(batches, name)
    chosen = size if size in sizes or not sizes else sizes[-1]
    return show_sweep(batches, name, metric, chosen, signals), chosen


def show_sweep(
    batches: BatchContext, name: str | None, metric: str, size: int, signals: str | None = None
) -> SweepView:
    """Show the points of a grid: exact if they were run, else a preview from the traces of the run."""
    try:
        found = folders.find_sweep(batches, name, size, signals or "")
        view = SweepView(
            metric=gr.Dropdown(choices=choices(found.scores)),
            csv=gr.DownloadButton(interactive=True),
            json=gr.DownloadButton(interactive=True),
            signals=gr.Dropdown(choices=list(found.choices), value=found.signals, visible=True)
            if found.choices
            else SweepView().signals,
        )
    except (EngineError, ValueError, OSError) as error:
        job = batches.jobs.find(name) if name is not None else None
        if job is not None and not job.is_over:
            return SweepView(said=f"{name} is still running; its points are shown when it has finished.")
        return SweepView(said=as_sentence(error))
    chosen = recommend_metric(found.scores.metrics) if metric == RECOMMENDED else metric
    if chosen not in found.scores.metrics:
        needs = f"{find_metric(chosen).label} needs exact points: press Run each point, or choose another score."
        if found.scores.grid.specs:
            needs = f"{find_metric(chosen).label} is no score of a preview of these signals: choose another score."
        return view._replace(said=f"{describe_points(found)} {needs}")
    try:
        best = find_best(found.scores, chosen, present=found.data.present)
    except ValueError as error:
        return view._replace(said=f"{describe_points(found)} {as_sentence(error)}")
    revision = f"{name} {chosen} {size} {found.signals}"
    return view._replace(
        said=describe_best(found, best),
        search=describe_search(found, best),
        heat=pack_chart(partial(SWEEP_CHARTS["heat_map"].draw, found.data, chosen), revision=revision),
        curves=pack_chart(partial(SWEEP_CHARTS["curves"].draw, found.data, chosen), revision=revision),
        best=best,
        apply=gr.Button(f"Use {_button_words(best)}", interactive=True, visible=not best.is_present),
    )


def draw_sweep_chart(
    batches: BatchContext, run: str | None, metric: str, size: int, signals: str | None, name: str, theme: Theme
) -> NamedFigure:
    """Return a chart of ``SWEEP_CHARTS`` of the shown points. Raises ``ValueError`` if they lack the score."""
    if name not in SWEEP_CHARTS:
        raise ValueError("there is no such chart; choose one of the list")
    found = folders.find_sweep(batches, run, size, signals or "")
    chosen = recommend_metric(found.scores.metrics) if metric == RECOMMENDED else metric
    return NamedFigure(figure=SWEEP_CHARTS[name].draw(found.data, chosen, theme), run=found.run)


def run_points(
    context: AppContext, batches: BatchContext, live: Cancellable, name: str | None, size: int, devices: str
) -> Generator[WorkButtons]:
    """Run the split of a run at every point of a grid; see ``run_planned``."""
    plan = partial(folders.plan_sweep, batches, name, size, devices)
    yield from run_planned(context, live, plan, lambda _: show_ended(""))


def run_planned(
    context: AppContext,
    live: Cancellable,
    plan: Callable[[], folders.PlannedSweep],
    read: Callable[[folders.PlannedSweep], Any],
) -> Generator[Any]:
    """Run a sweep; yield its progress as ``WorkButtons``, then what ``read`` returns. Finished videos are kept.

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


def apply_best(best: BestPoint | None, said: str, run: str | None) -> AppliedPoint:
    """Set the thresholds of both tabs to the best point, and add that to the description ``said``.

    Those of named signals are set in the player alone, for the videos of ``run``.
    """
    return _apply(best, None if best is None else best.thresholds, said, run)


def apply_picked(best: BestPoint | None, said: str, run: str | None, event: gr.EventData) -> AppliedPoint:
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


def _apply(best: BestPoint | None, thresholds: tuple[float, float] | None, said: str, run: str | None) -> AppliedPoint:
    if best is None or thresholds is None:
        return AppliedPoint()
    described, _, _ = said.partition(_IN_USE)
    place, specs = best.grid.describe(*thresholds), best.grid.specs
    where = f"the player previews {place} in the videos of {run}" if specs else f"{_EVERYWHERE}{place}"
    values: dict[Decision, float] = {"speak": thresholds[0], "update": thresholds[1]}
    heads = {name: values[name] for name in best.grid.titles if name not in specs}
    named = {spec.name: values[name] for name, spec in specs.items()}
    speak, update = heads.get("speak", gr.skip()), heads.get("update", gr.skip())
    return AppliedPoint(
        speak=speak,
        update=update,
        player_speak=speak,
        player_update=update,
        said=f"{described.rstrip()} {_IN_USE}{where}.",
        named=to_json(dict(heads) | {"used": {"run": run, "signals": named}}) if specs else "",
    )
