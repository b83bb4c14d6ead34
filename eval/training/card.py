"""The model card of a training result, written from its data, settings, curves and scores."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscope.engine.io.files import atomic_write
from stepscope.engine.plurals import format_count
from stepscope.eval.metrics.counts import NO_INTERVAL
from stepscope.eval.reports.scoring import Report
from stepscope.eval.training.results import SHOWN_SCORES


@dataclass(frozen=True, slots=True, kw_only=True)
class CardScores:
    """The validation scores of a card."""

    split: str
    basis: str
    """Judge and settings of the scores; see ``describe_scoring``."""
    trained: Report
    before: Mapping[str, float]
    """Scores that the checkpoint had before training; empty if they are unknown."""
    silent: Report
    """Scores of a system that never acts."""


def write_card(
    path: Path,
    *,
    name: str,
    base: str,
    base_digest: str,
    data: Sequence[str],
    split: str,
    settings: Mapping[str, Any],
    num_trained: int,
    best_step: int | None,
    scores: CardScores | None,
) -> None:
    """Write the card of a result folder.

    ``data`` are lines that summarise the clips; ``scores`` is None without a validation split.
    """
    lines = [
        f"# {_plain(name)}",
        "",
        f"Trained from `{_plain(base)}` (digest `{base_digest}`) with `stepscope train`.",
        "",
        "## Data",
        "",
        f"`{_plain(split)}`:",
        "",
        *(f"- {_plain(line)}" for line in data),
        "",
        "## Recipe",
        "",
        f"{num_trained:,} trained parameters; weights of step {best_step}.",
        "",
        "| setting | value |",
        "|---|---|",
        *(f"| {_plain(key)} | {_plain(str(value))} |" for key, value in settings.items()),
        "",
        "## Scores",
        "",
        *(_score_lines(scores) if scores else ["No validation split was given, so the model was not scored."]),
    ]
    with atomic_write(path) as file:
        file.write("\n".join(lines) + "\n")


def _score_lines(scores: CardScores) -> list[str]:
    lines = [
        f"Streamed freely over `{_plain(scores.split)}`, {format_count(scores.trained.num_videos, 'video')}; 95 % "
        f"intervals by bootstrap over videos; {_plain(scores.basis)}. The best step was chosen on the same videos, "
        "so these scores are slightly optimistic.",
        "",
        "| score | trained | 95 % interval | before | always silent |",
        "|---|---|---|---|---|",
    ]
    for name in SHOWN_SCORES:
        interval = scores.trained.intervals.get(name, NO_INTERVAL)
        cells = [_figure(scores.trained.scores[name]), f"{_figure(interval.low)} - {_figure(interval.high)}"]
        cells += [_figure(scores.before.get(name, math.nan)), _figure(scores.silent.scores[name])]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _plain(text: str) -> str:
    """Return a text on one line, without characters of Markdown tables and code."""
    return " ".join(text.replace("|", "/").replace("`", "'").split())
