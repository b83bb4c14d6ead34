"""The command ``figure``: a video of a run folder, or a chart of a run, a sweep or two runs, as a file for a paper."""

import base64
import json
import math
from dataclasses import asdict, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import plotly.graph_objects as go

from stepscope.app.core.run import Run, analyze_run
from stepscope.app.core.saved import read_saved_run
from stepscope.app.core.videos import sample_clip
from stepscope.app.figures.browser import evaluate, print_svg
from stepscope.app.figures.charts.layout import PLOTLY_PATH, add_basis
from stepscope.app.figures.charts.registry import CHARTS, COMPARISON_CHARTS, SCORE_DISTRIBUTIONS, SWEEP_CHARTS
from stepscope.app.figures.charts.sweep_curves import SweepData, preview_choice
from stepscope.app.figures.charts.videos import COMPARED_SCORES, VIDEO_SCORES, scatter, score_distributions
from stepscope.app.figures.options import (
    FORMATS,
    FigureFormat,
    FigureOptions,
    Width,
    parse_width,
    read_format,
)
from stepscope.app.figures.render import write_figure
from stepscope.app.style.colours import css_variables
from stepscope.app.window.payload import pack_run
from stepscope.engine.cli.program import load_object
from stepscope.engine.io.files import atomic_write
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.definitions import NUM_FAILURES
from stepscope.eval.metrics.matched_video import JudgedVideo
from stepscope.eval.reports.compare_runs import find_common_split, score_both
from stepscope.eval.reports.scoring import ScoreSettings, describe_scoring, read_run_scoring
from stepscope.eval.reports.table_files import read_results
from stepscope.eval.runs.folder import RunFolder, explain_missing
from stepscope.eval.sweeps.best_point import recommend_metric
from stepscope.eval.sweeps.folder import SweepFolder, read_sweep
from stepscope.eval.sweeps.preview import read_traces

_MAX_NAMES = 5
_MOST_SCORES = {"videos": 2, SCORE_DISTRIBUTIONS: 1, **dict.fromkeys(SWEEP_CHARTS, 1)}
_STATIC: Final = Path(__file__).parents[1] / "player" / "static"
_SCRIPT: Final = """
const style = document.head.appendChild(document.createElement("style")), asked = {asked};
style.textContent = asked.css;
const {{ encodeFile }} = await import(new URL("export/files.js", location));
const packed = await (await fetch("run.json")).json();
return encodeFile("plotly.js", packed, asked.look, asked.format);
"""


def draw(options: FigureOptions) -> None:
    """Draw a video or a chart of a run. Everything is checked before the text encoder is loaded."""
    file_format, width = read_format(options.out, options.format), parse_width(options.width)
    if (options.video is None) == (options.chart is None):
        raise ValueError("give one of --video and --chart")
    if options.chart is not None:
        figure = draw_chart(options, options.chart)
        write_figure(options.out, figure, file_format, width=width)
        width_px, height_px = figure.layout.width, figure.layout.height
    else:
        width_px, height_px = _draw_video(options, width, file_format)
    extent = f", {width.css(width_px)} x {width.css(height_px)}" if file_format != "csv" else ""
    print(f"{options.out}{extent}")


def _draw_video(options: FigureOptions, width: Width, file_format: FigureFormat) -> tuple[float, float]:
    """Write the figure of a video; return its width and height in pixels."""
    if file_format == "json":
        names = [name for name in FORMATS if name != file_format]
        raise ValueError(f"a video is no figure of Plotly; choose one of {', '.join(names)}")
    if options.metric:
        raise ValueError("--metric is for --chart")
    run, other = RunFolder(options.run), RunFolder(options.against) if options.against is not None else None
    if other is None:
        split_path = options.split or run.split_path()
    else:
        split_path = find_common_split(run, other, given=options.split)
    sample = _find_sample(read_split(split_path), options.video or "", run.path)
    start_s, end_s = _check_range(sample.num_frames / sample.fps, options.start_s, options.end_s)
    scoring = read_run_scoring(run)
    for folder in filter(None, (run, other)):
        if missing := explain_missing(sample, folder.record(sample.video_id)):
            raise ValueError(f"{folder.path}: {sample.video_id} has no outputs: {missing}")
    encode = load_object("eval.matching.sentence_encoders:load_encoder")(scoring.text_encoder).encode
    below = _read_run(other, sample, scoring) if other is not None else None
    packed = _pack(_read_run(run, sample, scoring), below, encode)
    look = {"width": f"{width.number:g}{width.unit}", "theme": options.theme, "start": start_s, "end": end_s}
    asked = {"css": css_variables(), "look": look, "format": "svg" if file_format == "pdf" else file_format}
    modules: dict[str, bytes | Path] = {path.relative_to(_STATIC).as_posix(): path for path in _STATIC.rglob("*.js")}
    files = modules | {"plotly.js": PLOTLY_PATH, "run.json": packed.encode()}
    answer = evaluate(files, _SCRIPT.format(asked=json.dumps(asked)))
    content = base64.b64decode(answer["content"])
    with atomic_write(options.out, binary=True) as file:
        file.write(print_svg(content.decode()) if file_format == "pdf" else content)
    return answer["width"], answer["height"]


def _read_run(folder: RunFolder, sample: Sample, scoring: ScoreSettings) -> Run:
    clip = sample_clip(sample, sample.video_path or Path(), is_bundled=False)
    encoder = {"text_encoder": scoring.text_encoder}
    return read_saved_run(folder, clip, settings=folder.settings() or {}, scoring=scoring, encoder=encoder)


def _pack(run: Run, other: Run | None, encode: Encode) -> str:
    if other is not None:
        run, other = replace(run, letter="A"), replace(other, letter="B")
    return pack_run(run, _judge(run, encode), other=(other, _judge(other, encode)) if other is not None else None)


def _judge(run: Run, encode: Encode) -> JudgedVideo | None:
    analysis = analyze_run(run, encode)
    return analysis.judged if analysis is not None else None


def _check_range(duration_s: float, from_s: float | None, to_s: float | None) -> tuple[float, float]:
    """Return the range of a figure within a video. Raises ``ValueError`` if it is empty."""
    start, end = 0.0 if from_s is None else from_s, duration_s if to_s is None else to_s
    if not (math.isfinite(start) and math.isfinite(end)) or start < 0:
        raise ValueError(f"the range must be times from 0 s; got {start:g} to {end:g} s")
    end = min(end, duration_s)
    if not start < end:
        raise ValueError(f"the range from {start:g} to {end:g} s is empty; the video lasts {duration_s:g} s")
    return start, end


def _find_sample(split: Split, video_id: str, folder: Path) -> Sample:
    names = [sample.video_id for sample in split.samples]
    if video_id in names:
        return split.samples[names.index(video_id)]
    near = get_close_matches(video_id, names, n=_MAX_NAMES, cutoff=0.5) or names[:_MAX_NAMES]
    more = ", ..." if len(near) < len(names) else ""
    raise ValueError(f"{folder} has no video {video_id!r}; choose one such as {', '.join(near)}{more}")


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
    run = RunFolder(options.run)
    return preview_choice(read_traces(run.path, read_split(options.split or run.split_path())), options.signal)


def _draw_comparison(options: FigureOptions) -> go.Figure:
    a, b = RunFolder(options.run), RunFolder(options.against or Path())
    split_path = find_common_split(a, b, given=options.split)
    metric = _check_score(options.metric[0] if options.metric else NUM_FAILURES, COMPARED_SCORES)
    split, scoring = read_split(split_path), read_run_scoring(a)
    encoder = load_object("eval.matching.sentence_encoders:load_encoder")(scoring.text_encoder)
    scores = score_both(a.path, b.path, split, scoring, metric, encode=encoder.encode)
    names = a.path.resolve().name, b.path.resolve().name
    basis = describe_scoring(asdict(scoring) | split.origin)
    return add_basis(score_distributions(scores, metric, options.theme, names=names), basis)
