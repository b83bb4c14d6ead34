"""The command ``figure``: a video of a run folder, or a chart, as a file for a paper."""

from difflib import get_close_matches
from pathlib import Path

from stepscope.app.figures.chart_files import draw_chart
from stepscope.app.figures.options import FigureOptions
from stepscope.app.figures.paper import Width, parse_width, read_format
from stepscope.app.figures.render import Drawing, write_figure
from stepscope.app.figures.timeline.figure import check_range, check_width, draw_timeline
from stepscope.app.figures.timeline.run import TimelineRun, make_timeline_run
from stepscope.engine.cli.program import load_object
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample, Split, build_task
from stepscope.eval.matching.turns import Encode
from stepscope.eval.reports.compare_runs import find_common_split
from stepscope.eval.reports.scoring import ScoreSettings, make_analyzer, read_run_scoring
from stepscope.eval.runs.folder import RunFolder, explain_missing, read_stream_config

_MAX_NAMES = 5


def draw(options: FigureOptions) -> None:
    """Draw a video or a chart of a run. Everything is checked before the text encoder is loaded."""
    file_format, width = read_format(options.out, options.format), parse_width(options.width)
    check_width(width.pixels)
    if (options.video is None) == (options.chart is None):
        raise ValueError("give one of --video and --chart")
    if options.chart is not None:
        made = draw_chart(options, options.chart)
        drawing = Drawing(figure=made.update_layout(width=width.pixels), width=width)
    else:
        drawing = _draw_video(options, width)
    write_figure(options.out, drawing, file_format)
    size = drawing.figure.layout
    extent = f", {width.css(size.width)} x {width.css(size.height)}" if file_format != "csv" else ""
    print(f"{options.out}{extent}")


def _draw_video(options: FigureOptions, width: Width) -> Drawing:
    if options.metric:
        raise ValueError("--metric is for --chart")
    run, other = RunFolder(options.run), RunFolder(options.against) if options.against is not None else None
    if other is None:
        split_path = options.split or run.split_path()
    else:
        split_path = find_common_split(run, other, given=options.split)
    sample = _find_sample(read_split(split_path), options.video or "", run.path)
    start_s, end_s = check_range(sample.num_frames / sample.fps, options.start_s, options.end_s)
    scoring = read_run_scoring(run)
    for folder in filter(None, (run, other)):
        if missing := explain_missing(sample, folder.record(sample.video_id)):
            raise ValueError(f"{folder.path}: {sample.video_id} has no outputs: {missing}")
    encode = load_object("stepscope.eval.matching.sentence_encoders:load_encoder")(scoring.text_encoder).encode

    def read(folder: RunFolder, letter: str) -> TimelineRun:
        return _read_run(folder, sample, scoring, encode, letter=letter)

    shown, below = (read(run, ""), None) if other is None else (read(run, "A"), read(other, "B"))
    return draw_timeline(shown, from_s=start_s, to_s=end_s, width=width, theme=options.theme, below=below)


def _read_run(run: RunFolder, sample: Sample, scoring: ScoreSettings, encode: Encode, *, letter: str) -> TimelineRun:
    return make_timeline_run(
        video_id=sample.video_id,
        run_name=run.path.resolve().name,
        task=build_task(sample),
        config=read_stream_config(run.settings() or {}, fps=sample.fps),
        outputs=run.outputs(sample),
        duration_s=sample.num_frames / sample.fps,
        sample=sample if sample.has_reference else None,
        judged=make_analyzer(run, scoring, encode=encode)(sample).judged if sample.has_reference else None,
        letter=letter,
        specs=run.signals(),
        has_states=run.has_states(),
    )


def _find_sample(split: Split, video_id: str, folder: Path) -> Sample:
    names = [sample.video_id for sample in split.samples]
    if video_id in names:
        return split.samples[names.index(video_id)]
    near = get_close_matches(video_id, names, n=_MAX_NAMES, cutoff=0.5) or names[:_MAX_NAMES]
    more = ", ..." if len(near) < len(names) else ""
    raise ValueError(f"{folder} has no video {video_id!r}; choose one such as {', '.join(near)}{more}")
