"""Scoring of a run folder: its tables, from nothing but the references and the outputs and records on disk.

A killed and resumed run therefore has the same tables as an uninterrupted one, except for measured times. Rows are in
the order of the split; a failed video, an invalid record and a video without a record have a row with an error.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from stepscope.engine.io.files import load_json, read_text, replace_files, write_csv, write_json
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.matching.grading import COSINE_JUDGE, Grade, NamedJudge
from stepscope.eval.matching.turns import DEFAULT_ENCODER, Encode, ZeroCost
from stepscope.eval.metrics.counts import NUM_RESAMPLES, Interval, Pool, bootstrap
from stepscope.eval.metrics.decisions import summarize_signals
from stepscope.eval.metrics.definitions import METRICS, ROOTS
from stepscope.eval.metrics.moments import VideoMoment, list_moments
from stepscope.eval.metrics.replies.turn_taking import find_match_window
from stepscope.eval.metrics.score import (
    ScoreTexts,
    VideoAnalysis,
    VideoCounts,
    analyze_video,
    count_texts,
    score_counts,
)
from stepscope.eval.metrics.text import TextScorer, undefined_texts
from stepscope.eval.reports.charts import build_chart_data, chart_signals
from stepscope.eval.reports.table_files import read_metrics, read_video_rows
from stepscope.eval.reports.tables import write_columns
from stepscope.eval.runs.folder import RunFolder, explain_unscored, read_stream_config
from stepscope.eval.runs.roots import read_roots

_STALE: Final = "its diagnosis is stale: "


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSettings:
    """Settings of the scores."""

    text_encoder: str
    dataset: str = ""
    """Name that chooses the match window; see ``eval.metrics.replies.turn_taking.MATCH_WINDOWS_S``."""
    zero_cost: ZeroCost = "keep"
    """Whether to ``keep`` or ``drop`` matches of cost 0; see ``eval.matching.turns``."""


def read_score_settings(settings: Mapping[str, Any], *, default: ScoreSettings) -> ScoreSettings:
    """Return the score settings of a ``run.json``; missing ones, and the encoder, are taken from ``default``."""
    return replace(default, **{name: settings[name] for name in ("dataset", "zero_cost") if name in settings})


def describe_scoring(settings: Mapping[str, Any]) -> str:
    """Return the basis of all scores of a table in one line, from settings named as in ``metrics.json``.

    Example: ``contents judged by cosine bands 0.5/0.8, text encoder all-MiniLM-L6-v2, match window -2.5 to 2.5 s,
    zero-cost matches: keep``. The scores of a protocol do not use the last two.
    """
    parts = [
        f"contents judged by {settings.get('judge') or COSINE_JUDGE}",
        f"text encoder {settings.get('text_encoder') or 'unknown'}",
    ]
    if "zero_cost" in settings:
        left_s, right_s = find_match_window(str(settings.get("dataset") or ""))
        parts += [f"match window {left_s:g} to {right_s:g} s", f"zero-cost matches: {settings['zero_cost']}"]
    return ", ".join(parts)


def read_run_scoring(run: RunFolder) -> ScoreSettings:
    """Return the settings that a run was scored with. Raises ``ValueError`` for invalid settings."""
    settings = run.settings() or {}
    default = ScoreSettings(text_encoder=settings.get("text_encoder") or DEFAULT_ENCODER)
    return read_score_settings(settings, default=default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The scores of the videos of a split that have any."""

    num_videos: int
    scores: Mapping[str, float]
    """Scores of the pooled counts; nan if undefined."""
    intervals: Mapping[str, Interval]
    """Their 95 % intervals; counts have none."""
    num_undefined: Mapping[str, int]
    """Per score, the number of videos in which it is undefined, if not 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """The scores of a run."""

    report: Report
    rows: tuple[Mapping[str, str | float], ...]
    errors: Mapping[str, str]
    """Per video without scores, the reason."""
    warnings: Mapping[str, str]
    """Per video with a problem that did not stop the run, the problem."""
    charts: Mapping[str, Any]
    """Content of ``charts.json``; see ``eval.reports.charts``."""
    text_problem: str | None
    """Why text scores are missing; None if they are present."""
    judge: str = COSINE_JUDGE
    signals: Mapping[str, Any] = field(default_factory=dict)
    """Scores of each named signal that decides; see ``eval.metrics.decisions``."""
    moments: tuple[VideoMoment, ...] = ()


def make_analyzer(
    run: RunFolder, settings: ScoreSettings, *, encode: Encode, grade: Grade | None = None, counts_states: bool = True
) -> Callable[[Sample], VideoAnalysis]:
    """Return a function that analyses a finished video of a run folder, and lists its moments.

    ``grade`` is the judge, see ``analyze_video``. Without ``counts_states`` a run is analysed as one without states.

    Raises ``ValueError`` for an invalid ``run.json`` or ``diagnosis.json``. The function raises it with the reason if a
    video has no outputs, or invalid ones.
    """
    has_states, specs, settings_of_run = counts_states and run.has_states(), run.signals(), run.settings() or {}
    roots = read_roots(run) if has_states == run.has_states() else None

    def analyze(sample: Sample) -> VideoAnalysis:
        record = run.record(sample.video_id)
        if reason := explain_unscored(sample, record):
            raise ValueError(reason)
        assert record is not None
        outputs, config = run.outputs(sample), None
        with suppress(ValueError):  # the scores do not depend on the settings of the stream
            config = read_stream_config(settings_of_run, fps=sample.fps)
        traced = (roots or {}).get(sample.video_id)
        stale_roots = "" if traced is None else traced.explain_stale(sample)
        analysis = analyze_video(
            sample,
            outputs,
            encode=encode,
            dataset=settings.dataset,
            zero_cost=settings.zero_cost,
            live=record.live,
            wall_s=record.wall_s,
            has_states=has_states,
            grade=grade,
            specs=specs,
            num_roots=math.nan if traced is None or stale_roots else len(traced.roots),
        )
        moments = list_moments(sample, outputs, analysis.judged, config=config)
        return replace(analysis, moments=moments, stale_roots=stale_roots)

    return analyze


def score_run(
    folder: Path,
    split: Split,
    settings: ScoreSettings,
    *,
    encode: Encode,
    scorer: TextScorer,
    analyses: Mapping[str, VideoAnalysis] | None = None,
    judge: NamedJudge | None = None,
) -> ScoredRun:
    """Score the videos of a split in a run folder.

    The run folder may be unfinished. ``encode`` is that of ``settings.text_encoder``. ``analyses``, by video, were
    already made with the same settings. Replies inside reply spans are by default graded by the cosine bands.
    """
    run = RunFolder(folder)
    analyze = make_analyzer(run, settings, encode=encode, grade=None if judge is None else judge.grade)
    records = {sample.video_id: run.record(sample.video_id) for sample in split.samples}
    found = ((entry.video_id, explain_unscored(entry, records.get(entry.video_id))) for entry in split.entries)
    errors = {video_id: reason for video_id, reason in found if reason}
    analyzed: dict[str, VideoAnalysis] = {}
    for sample in split.samples:
        if sample.video_id not in errors:
            try:
                known = (analyses or {}).get(sample.video_id)
                analyzed[sample.video_id] = known or analyze(sample)
            except ValueError as error:
                errors[sample.video_id] = str(error)
    counts = dict(zip(analyzed, count_texts(list(analyzed.values()), scorer), strict=True))
    report = make_report(list(counts.values()), score_texts=scorer.summarize)
    peaks = [record.peak_memory_mb for record in records.values() if record is not None]
    peak = max((peak for peak in peaks if peak is not None), default=math.nan)
    report = replace(report, scores={**report.scores, "peak_memory_mb": peak})
    warnings = {name: record.warning for name, record in records.items() if record is not None and record.warning}
    for name, video in analyzed.items():
        if video.stale_roots:
            warnings[name] = "; ".join(filter(None, [warnings.get(name), f"{_STALE}{video.stale_roots}"]))
    rows: list[Mapping[str, str | float]] = [
        {
            "video_id": entry.video_id,
            "error": errors.get(entry.video_id, ""),
            "warning": warnings.get(entry.video_id, ""),
            **compute_video_scores(counts.get(entry.video_id, VideoCounts()), score_texts=scorer.summarize),
        }
        for entry in split.entries
    ]
    return ScoredRun(
        report=report,
        rows=tuple(rows),
        errors=errors,
        warnings=warnings,
        charts=build_chart_data(list(analyzed.values())) | chart_signals(run.signals(), list(analyzed.values())),
        signals=summarize_signals(run.signals(), [video.signals for video in analyzed.values()]),
        text_problem=scorer.problem,
        judge=COSINE_JUDGE if judge is None else judge.name,
        moments=tuple(moment for video in analyzed.values() for moment in video.moments),
    )


def make_report(rows: Sequence[VideoCounts], *, score_texts: ScoreTexts, num_resamples: int = NUM_RESAMPLES) -> Report:
    """Score a split; ``score_texts`` is ``TextScorer.summarize`` of an open scorer."""
    pool = Pool(rows, VideoCounts)
    intervals = bootstrap(pool, partial(score_counts, score_texts=score_texts), num_resamples=num_resamples)
    videos = [score_counts(row, score_texts=score_texts) for row in rows]
    undefined = {metric.name: sum(math.isnan(scores.get(metric.name, 0.0)) for scores in videos) for metric in METRICS}
    return Report(
        num_videos=len(rows),
        scores=score_counts(pool.total(), score_texts=score_texts),
        intervals={one.name: intervals[one.name] for one in METRICS if one.name in intervals and not one.is_count},
        num_undefined={name: number for name, number in undefined.items() if number},
    )


def compute_video_scores(counts: VideoCounts, *, score_texts: ScoreTexts = undefined_texts) -> dict[str, float]:
    """Return the scores of one video in the columns of ``videos.csv``; all are nan for empty counts."""
    scores = score_counts(counts, score_texts=score_texts)
    renamed = {name.replace("CIDEr", "CIDEr_split_df"): value for name, value in scores.items()}
    return {metric.name: renamed[metric.name] for metric in METRICS if metric.scope != "split"}


def write_tables(folder: Path, run: ScoredRun, settings: Mapping[str, Any]) -> None:
    """Write ``videos.csv``, ``columns.csv``, ``moments.csv``, ``metrics.json`` and ``charts.json`` together."""
    scoring = describe_scoring({**settings, "judge": run.judge})
    names = [field.name for field in fields(VideoMoment)]
    problems = {"text_problem": run.text_problem, "errors": run.errors, "warnings": run.warnings}
    content = {"judge": run.judge, **problems, **asdict(run.report)}
    if run.signals:
        content["signal_scores"] = run.signals
    with replace_files(folder) as new:
        write_csv(new / "videos.csv", [{**row, "scoring": scoring} for row in run.rows])
        write_csv(new / "moments.csv", map(asdict, run.moments), columns=names)
        write_columns(new / "columns.csv")
        write_json(new / "charts.json", run.charts)
        write_json(new / "metrics.json", {**settings, **content})


def update_roots(folder: Path, numbers: Mapping[str, int]) -> None:
    """Write the numbers of roots by video into the tables of a run folder; a folder that is not scored has none."""
    try:
        rows, known = read_video_rows(folder), read_metrics(folder)
    except FileNotFoundError:
        return
    metrics: Any = load_json(read_text(folder / "metrics.json"))
    rows = [
        {**row, "warning": _drop_stale(str(row["warning"])), ROOTS: float(numbers.get(str(row["video_id"]), math.nan))}
        for row in rows
    ]
    scored = [float(row[ROOTS]) for row in rows if not row["error"]]
    num_unknown = sum(map(math.isnan, scored))
    undefined = {name: number for name, number in known["num_undefined"].items() if name != ROOTS}
    undefined |= {ROOTS: num_unknown} if num_unknown else {}
    warnings = {name: text for name, warning in known["warnings"].items() if (text := _drop_stale(warning))}
    with replace_files(folder) as new:
        write_csv(new / "videos.csv", rows)
        write_columns(new / "columns.csv")
        scores = {**metrics["scores"], ROOTS: sum(scored) if scored else math.nan}
        write_json(
            new / "metrics.json", {**metrics, "warnings": warnings, "scores": scores, "num_undefined": undefined}
        )


def _drop_stale(warning: str) -> str:
    return "; ".join(part for part in warning.split("; ") if not part.startswith(_STALE))
