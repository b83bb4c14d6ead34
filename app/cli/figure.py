"""The command ``figure``: a video of a run folder, or a chart, as a file for a paper."""

import math
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

from stepscope.app.core.run import Run, analyze_run
from stepscope.app.core.saved import read_saved_run
from stepscope.app.core.videos import sample_clip
from stepscope.app.figures.chart_files import draw_chart
from stepscope.app.figures.options import FigureOptions
from stepscope.app.figures.paper import FigureFormat, Width, check_width, parse_width, read_format
from stepscope.app.figures.render import Drawing, write_figure
from stepscope.app.web.figure import TimelineFormat, draw_timeline
from stepscope.app.web.payload import pack_run
from stepscope.engine.cli.program import load_object
from stepscope.engine.io.files import atomic_write
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.matched_video import JudgedVideo
from stepscope.eval.reports.compare_runs import find_common_split
from stepscope.eval.reports.scoring import ScoreSettings, read_run_scoring
from stepscope.eval.runs.folder import RunFolder, explain_missing

_MAX_NAMES = 5


def draw(options: FigureOptions) -> None:
    """Draw a video or a chart of a run. Everything is checked before the text encoder is loaded."""
    file_format, width = read_format(options.out, options.format), parse_width(options.width)
    check_width(width.pixels)
    if (options.video is None) == (options.chart is None):
        raise ValueError("give one of --video and --chart")
    if options.chart is not None:
        figure = draw_chart(options, options.chart).update_layout(width=width.pixels)
        write_figure(options.out, Drawing(figure=figure, width=width), file_format)
        width_px, height_px = figure.layout.width, figure.layout.height
    else:
        width_px, height_px = _draw_video(options, width, _read_timeline_format(file_format))
    extent = f", {width.css(width_px)} x {width.css(height_px)}" if file_format != "csv" else ""
    print(f"{options.out}{extent}")


def _read_timeline_format(file_format: FigureFormat) -> TimelineFormat:
    for known in get_args(TimelineFormat):
        if file_format == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"a video is no figure of Plotly; choose one of {', '.join(get_args(TimelineFormat))}")


def _draw_video(options: FigureOptions, width: Width, file_format: TimelineFormat) -> tuple[float, float]:
    """Write the figure of a video; return its width and height in pixels."""
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
    made = draw_timeline(
        packed, start_s=start_s, end_s=end_s, width=width, theme=options.theme, file_format=file_format
    )
    with atomic_write(options.out, binary=True) as file:
        file.write(made.content)
    return made.width_px, made.height_px


def _read_run(folder: RunFolder, sample: Sample, scoring: ScoreSettings) -> Run:
    clip = sample_clip(sample, sample.video_path or Path(), is_bundled=False)
    return read_saved_run(folder, clip, scoring=scoring, encoder={"text_encoder": scoring.text_encoder})


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
