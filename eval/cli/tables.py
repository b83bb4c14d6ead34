"""The tables of a scored run folder, on disk and as printed."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from stepscope.engine.config import format_thresholds
from stepscope.engine.config_files import read_preset
from stepscope.engine.plurals import format_count
from stepscope.eval.cli.options import ScoreOptions, StreamOptions
from stepscope.eval.data.samples import Split
from stepscope.eval.matching.turns import TextEncoder
from stepscope.eval.reports.scoring import ScoredRun, ScoreSettings, describe_scoring, describe_writer, write_tables
from stepscope.eval.reports.tables import format_scores
from stepscope.eval.runs.folder import RunFolder, read_policy
from stepscope.eval.runs.provenance import read_provenance

BAR_DELAY_S: Final = 0.5
"""Seconds before a progress bar is drawn, so that an early error stands alone."""


def make_score_settings(options: ScoreOptions) -> ScoreSettings:
    """Return the settings of the scores that the options name."""
    return ScoreSettings(text_encoder=options.encoder, dataset=options.dataset, zero_cost=options.zero_cost)


def write_scores(out: Path, scored: ScoredRun, encoder: TextEncoder) -> None:
    """Write the tables of a run folder and print the main scores."""
    settings = {**(RunFolder(out).settings() or {}), **encoder.settings()}
    write_tables(out, scored, settings)
    print_scores(scored, _format_origin(settings), out=out)


def print_scores(scored: ScoredRun, origin: str, *, out: Path) -> None:
    """Print the main scores of a run folder, their origin, and the videos without scores."""
    report = scored.report
    remarks = read_provenance(RunFolder(out)).asked_label, describe_writer(scored.reference_writer)
    origin = "\n".join(filter(None, [origin, *remarks]))
    print(
        f"{report.num_videos} of {format_count(len(scored.rows), 'video')}, micro average, 95 % intervals by "
        "bootstrap over videos\n"
        f"{origin}; definitions of the scores: docs/metrics.md\n"
    )
    print(f"{format_scores(report.scores, report.intervals)}\n")
    for signal in scored.signals.values():
        names = ("average_precision", "auroc", "ece", "event_f1_1s")
        scores = {name: signal["scores"][name] for name in names}
        values = ", ".join(f"{name} {'undefined' if math.isnan(x) else f'{x:.3f}'}" for name, x in scores.items())
        is_rule = signal["threshold"] is not None
        basis = " of the rule's decisions" if is_rule else ", by the decisions of the run: it has no threshold"
        print(f"signal {signal['title']}, decides to {signal['decides']}: {values}{basis}")
    print(f"all {len(report.scores)} scores: {out}/metrics.json; of videos and steps: videos.csv, steps.csv")
    if scored.text_problem is not None:
        print(f"text scores are missing: {scored.text_problem}", file=sys.stderr)
    for video_id, warning in scored.warnings.items():
        print(f"warning: {video_id}: {warning}", file=sys.stderr)
    failed = dict[str, list[str]]()
    for video_id, reason in scored.errors.items():
        failed.setdefault(reason, []).append(video_id)
    for reason, ids in sorted(failed.items(), key=lambda item: -len(item[1])):
        more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
        print(f"failed: {', '.join(ids[:3])}{more}: {reason}", file=sys.stderr)


def _format_origin(settings: Mapping[str, Any]) -> str:
    scoring = describe_scoring(settings)
    if "imported" in settings:
        return f"imported from {format_count(len(settings['imported']), 'file')}\n{scoring}"
    config, devices = settings["config"], ", ".join(dict.fromkeys(settings["devices"]))
    thresholds = config["speak_threshold"], config["update_threshold"]
    return (
        f"checkpoint {settings['checkpoint']} ({settings['model_digest'][:12]}) on {devices}, "
        f"thresholds {format_thresholds(*thresholds, read_policy(settings))}\n{scoring}"
    )


def name_unused_rate(options: StreamOptions, split: Split) -> None:
    """Print the rate of ``--config`` or ``--preset`` if the videos of the split have another, which is used."""
    rates = sorted({sample.fps for sample in split.samples})
    asked = {**read_preset(options.preset), **read_preset(str(options.config or ""))}.get("fps")
    if asked is not None and rates != [asked]:
        named = ", ".join(f"{rate:g}" for rate in rates)
        print(f"the videos run at the {named} frames/s of the split, not at {asked} as set", file=sys.stderr)
