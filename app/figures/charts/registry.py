"""The charts of a run, of a sweep, of two runs and of a training folder by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from stepscope.app.figures.charts import decisions, failures, sweep_curves, sweeps, timing, training, videos
from stepscope.app.figures.charts.layout import add_basis
from stepscope.app.style.colours import Theme
from stepscope.eval.reports.scoring import describe_scoring
from stepscope.eval.reports.table_files import Results
from stepscope.eval.training.results import VALIDATION_BASIS, TrainingResults


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart of a run."""

    title: str
    build: Callable[[Results, Theme], go.Figure]

    def draw(self, results: Results, theme: Theme) -> go.Figure:
        """Return the chart with its title; ``layout.meta`` has its numbers in words, and the basis of its scores."""
        figure = self.build(results, theme).update_layout(title_text=self.title)
        return add_basis(figure, describe_scoring(results.metrics)) if results.metrics else figure


CHARTS: Final[Mapping[str, Chart]] = {
    "precision_recall": Chart(title="Precision and recall", build=decisions.precision_recall),
    "roc": Chart(title="ROC curve", build=decisions.roc),
    "reliability": Chart(title="Reliability", build=timing.reliability),
    "leads": Chart(title="Early and late decisions", build=timing.leads),
    "failures": Chart(title="Failures by kind", build=failures.failures),
    "states": Chart(title="Wrong step states", build=failures.states),
    "latency": Chart(title="Latency", build=timing.latency),
    "videos": Chart(title="Videos by two scores", build=videos.scatter),
}
"""In the order of the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepChart:
    """One chart of a sweep; its title names the score or the best point."""

    title: str
    """Name in lists."""
    build: Callable[[sweep_curves.SweepData, str, Theme], go.Figure]

    def draw(self, data: sweep_curves.SweepData, metric: str, theme: Theme) -> go.Figure:
        """Return the chart of a score, with the basis of the scores. Raises ``ValueError`` if no point has it."""
        return add_basis(self.build(data, metric, theme), data.scores.scoring)


SWEEP_CHARTS: Final[Mapping[str, SweepChart]] = {
    "heat_map": SweepChart(title="Heat map of both thresholds; rates of one", build=sweeps.heat_map),
    "curves": SweepChart(title="Curves through the best point", build=sweep_curves.curves),
}
"""From the left of the page."""

SCORE_DISTRIBUTIONS: Final = "score_distributions"
COMPARISON_CHARTS: Final[Mapping[str, str]] = {SCORE_DISTRIBUTIONS: "Score of each video in both runs"}
"""Titles of the charts of two runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingChart:
    """One chart of a training folder."""

    title: str
    build: Callable[[TrainingResults, Theme], go.Figure]
    basis: str = ""

    def draw(self, results: TrainingResults, theme: Theme) -> go.Figure:
        """Return the chart with its title, and the basis of its scores."""
        return add_basis(self.build(results, theme).update_layout(title_text=self.title), self.basis)


TRAINING_CHARTS: Final[Mapping[str, TrainingChart]] = {
    "losses": TrainingChart(title="Losses", build=training.losses),
    "validation": TrainingChart(
        title="Scores on the validation split", build=training.validation, basis=VALIDATION_BASIS
    ),
}
"""From the left of the page."""
