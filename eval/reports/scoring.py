"""Scoring of a run folder: its tables, from nothing but the references and the outputs and records on disk.

A killed and resumed run therefore has the same tables as an uninterrupted one, except for measured times. Rows are in
the order of the split; a failed video, an invalid record and a video without a record have a row with an error.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from engine.io import write_csv, write_json
from eval.data.samples import Sample, Split
from eval.matching.turns import Encode, ZeroCost
from eval.metrics.score import VideoAnalysis, analyze_video, count_texts
from eval.metrics.text import TextScorer
from eval.reports.charts import build_chart_data
from eval.reports.report import Report, compute_video_scores, make_report
from eval.reports.tables import write_columns
from eval.runs.folder import RunFolder, VideoRecord, explain_missing


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSettings:
    """Settings of the scores."""

    text_encoder: str
    """Name of the sentence encoder."""
    dataset: str = ""
    """Name that chooses the match window; see ``eval.metrics.turn_taking.MATCH_WINDOWS_S``."""
    zero_cost: ZeroCost = "keep"
    """Whether to ``keep`` or ``drop`` matches of cost 0; see ``eval.matching.turns``."""


def read_score_settings(settings: Mapping[str, Any], *, default: ScoreSettings) -> ScoreSettings:
    """Return the score settings of a ``run.json``; missing ones, and the encoder, are taken from ``default``.

    Raises ``ValueError`` for invalid settings.
    """
    dataset, zero_cost = settings.get("dataset", default.dataset), settings.get("zero_cost", default.zero_cost)
    if not isinstance(dataset, str) or zero_cost not in get_args(ZeroCost):
        raise ValueError(
            f"the run was scored with dataset {dataset!r} and zero_cost {zero_cost!r}, which are not known"
        )
    return replace(default, dataset=dataset, zero_cost=zero_cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """The scores of a run."""

    report: Report
    """Scores of the split."""
    rows: tuple[Mapping[str, str | float], ...]
    """Rows of ``videos.csv``."""
    errors: Mapping[str, str]
    """Per video without scores, the reason."""
    warnings: Mapping[str, str]
    """Per video with a problem that did not stop the run, the problem."""
    charts: Mapping[str, Any]
    """Content of ``charts.json``; see ``eval.reports.charts``."""
    text_problem: str | None
    """Why text scores are missing; None if they are present."""


def make_analyzer(run: RunFolder, settings: ScoreSettings, *, encode: Encode) -> Callable[[Sample], VideoAnalysis]:
    """Return a function that analyses a finished video of a run folder.

    Raises ``ValueError`` for an invalid ``run.json``. The function raises it with the reason if a video has no outputs,
    or invalid ones.
    """
    illegal, has_states = run.illegal_updates(), run.has_states()

    def analyze(sample: Sample) -> VideoAnalysis:
        record = run.record(sample.video_id)
        if record is None or record.error:
            raise ValueError(explain_missing(sample, record))
        return analyze_video(
            sample,
            run.outputs(sample),
            encode=encode,
            dataset=settings.dataset,
            zero_cost=settings.zero_cost,
            illegal=illegal,
            live=record.live,
            wall_s=record.wall_s,
            has_states=has_states,
        )

    return analyze


def score_run(
    folder: Path,
    split: Split,
    settings: ScoreSettings,
    *,
    encode: Encode,
    scorer: TextScorer,
    analyses: Mapping[str, VideoAnalysis] | None = None,
) -> ScoredRun:
    """Score the videos of a split in a run folder.

    Args:
        folder: The run folder, finished or not.
        split: The split from ``read_split``.
        settings: Match window and treatment of zero-cost matches.
        encode: Texts to embeddings ``[N, D]``, of ``settings.text_encoder``.
        scorer: An open ``TextScorer``.
        analyses: Analyses of videos that were already made with the same settings, by id.
    """
    run = RunFolder(folder)
    analyze = make_analyzer(run, settings, encode=encode)
    records = {sample.video_id: run.record(sample.video_id) for sample in split.samples}
    errors = dict(_errors(split, records))
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
    rows: list[Mapping[str, str | float]] = [
        {
            "video_id": entry.video_id,
            "error": errors.get(entry.video_id, ""),
            "warning": warnings.get(entry.video_id, ""),
            **compute_video_scores(
                [counts[entry.video_id]] if entry.video_id in counts else [], score_texts=scorer.summarize
            ),
        }
        for entry in split.entries
    ]
    return ScoredRun(
        report=report,
        rows=tuple(rows),
        errors=errors,
        warnings=warnings,
        charts=build_chart_data(list(analyzed.values())),
        text_problem=scorer.problem,
    )


def write_tables(folder: Path, run: ScoredRun, settings: Mapping[str, Any]) -> None:
    """Write ``videos.csv``, ``columns.csv``, ``metrics.json`` and ``charts.json``, each atomically."""
    write_csv(folder / "videos.csv", run.rows)
    write_columns(folder / "columns.csv")
    content = {"text_problem": run.text_problem, "errors": run.errors, "warnings": run.warnings, **asdict(run.report)}
    write_json(folder / "charts.json", run.charts)
    write_json(folder / "metrics.json", {**settings, **content})


def _errors(split: Split, records: Mapping[str, VideoRecord | None]) -> Iterator[tuple[str, str]]:
    for entry in split.entries:
        reason = explain_missing(entry, records.get(entry.video_id))
        if reason:
            yield entry.video_id, reason
