"""The charts that the command ``figure`` draws: of a run folder, of a sweep folder, and of two run folders."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import plotly.graph_objects as go

from stepscope.app.figures.charts.layout import add_basis
from stepscope.app.figures.charts.registry import CHARTS, COMPARISON_CHARTS, SCORE_DISTRIBUTIONS, SWEEP_CHARTS
from stepscope.app.figures.charts.sweep_curves import SweepData
from stepscope.app.figures.charts.videos import COMPARED_SCORES, VIDEO_SCORES, scatter, score_distributions
from stepscope.app.figures.options import FigureOptions
from stepscope.engine.cli.program import load_object
from stepscope.eval.data.loading import read_split
from stepscope.eval.metrics.definitions import NUM_FAILURES
from stepscope.eval.reports.compare_runs import find_common_split, score_both
from stepscope.eval.reports.scoring import describe_scoring, read_run_scoring
from stepscope.eval.reports.table_files import read_results
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.sweeps.best_point import recommend_metric
from stepscope.eval.sweeps.folder import SweepFolder, read_sweep
from stepscope.eval.sweeps.grid import GRID_SIZES
from stepscope.eval.sweeps.preview import preview, preview_present
from stepscope.eval.sweeps.traces import Traces, make_choice_grid, read_traces

_MOST_SCORES = {"videos": 2, SCORE_DISTRIBUTIONS: 1, **dict.fromkeys(SWEEP_CHARTS, 1)}


def draw_chart(options: FigureOptions, name: str) -> go.Figure:
    """Return a chart by its name. Raises ``ValueError`` for options that do not fit it."""
    _check_options(options, name)
    if name in SWEEP_CHARTS:
        return _draw_sweep(options, name)
    if (options.run / "sweep.json").is_file():
        raise ValueError(f"{options.run} is a sweep folder; choose one of {', '.join(SWEEP_CHARTS)}")
    if name == SCORE_DISTRIBUTIONS:
        return _draw_comparison(options)
    RunFolder(options.run).split_path()
    results = read_results(options.run)
    if results.problems:
        raise ValueError(results.problems[0])
    if not options.metric:
        return CHARTS[name].draw(results, options.theme)
    x, y = (_check_score(score, VIDEO_SCORES) for score in options.metric)
    return scatter(results, options.theme, x=x, y=y).update_layout(title_text=CHARTS[name].title)


def _check_options(options: FigureOptions, name: str) -> None:
    known = [*CHARTS, *SWEEP_CHARTS, *COMPARISON_CHARTS]
    if name not in known:
        raise ValueError(f"there is no chart {name!r}; choose one of {', '.join(known)}")
    if options.start_s is not None or options.end_s is not None:
        raise ValueError("--from and --to are for --video: a chart is of the whole run")
    if (options.against is not None) != (name == SCORE_DISTRIBUTIONS):
        raise ValueError(f"--against RUN names the second run of {SCORE_DISTRIBUTIONS}, and of no other chart")
    if options.signal and name not in SWEEP_CHARTS:
        raise ValueError(f"--signal is for {' and '.join(SWEEP_CHARTS)}")
    number = _MOST_SCORES.get(name, 0)
    if options.metric and len(options.metric) != number:
        takes = f"takes {number}" if number else "has no choice of scores"
        raise ValueError(f"--metric: {name} {takes}; got {' '.join(options.metric)}")


def _check_score(name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise ValueError(f"this chart has no score {name!r}; choose one of {', '.join(known)}")
    return name


def _draw_sweep(options: FigureOptions, name: str) -> go.Figure:
    data = _read_sweep_folder(options) if SweepFolder(options.run).content() is not None else _preview_run(options)
    metric = options.metric[0] if options.metric else recommend_metric(data.scores.metrics)
    return SWEEP_CHARTS[name].draw(data, metric, options.theme)


def _read_sweep_folder(options: FigureOptions) -> SweepData:
    if options.split is not None or options.signal:
        raise ValueError("--split and --signal are for a run folder: the scores of a sweep folder are final")
    return SweepData(scores=read_sweep(options.run))


def _preview_run(options: FigureOptions) -> SweepData:
    """Return the points that the page shows for a run: a preview at its default grid."""
    run = RunFolder(options.run)
    return preview_choice(read_traces(run.path, read_split(options.split or run.split_path())), options.signal)


def preview_choice(traces: Traces, names: Sequence[str], *, size: int = GRID_SIZES[1]) -> SweepData:
    """Return the preview of the signals of these names, by default the first ones, with the thresholds of the run.

    Raises ``ValueError`` as ``Traces.choose`` and ``preview``.
    """
    choice = traces.choose(names)
    return SweepData(
        scores=preview(traces, make_choice_grid(choice, lambda signal: signal.make_axis(size))),
        present=preview_present(traces, choice),
    )


def _draw_comparison(options: FigureOptions) -> go.Figure:
    a, b = RunFolder(options.run), RunFolder(options.against or Path())
    split_path = find_common_split(a, b, given=options.split)
    metric = _check_score(options.metric[0] if options.metric else NUM_FAILURES, COMPARED_SCORES)
    split, scoring = read_split(split_path), read_run_scoring(a)
    encoder = load_object("eval.matching.sentence_encoders:load_encoder")(scoring.text_encoder)
    scores = score_both(a.path, b.path, split, scoring, metric, encode=encoder.encode)
    names = a.path.resolve().name, b.path.resolve().name
    return add_basis(score_distributions(scores, metric, options.theme, names=names), describe_scoring(asdict(scoring)))
