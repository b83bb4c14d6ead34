"""The charts of a run, of a sweep, of two runs and of a training folder by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go

from stepscope.app.figures.charts import (
    decisions,
    failures,
    roots,
    steps,
    sweep_curves,
    sweeps,
    timing,
    training,
    videos,
)
from stepscope.app.figures.charts.layout import add_basis
from stepscope.app.style.colours import Theme
from stepscope.eval.reports.scoring import describe_scoring
from stepscope.eval.reports.table_files import Results
from stepscope.eval.training.results import VALIDATION_BASIS


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart of a run, a sweep or a training folder."""

    title: str
    """Name in lists, and the title of a chart that builds none."""
    build: Callable[..., go.Figure]
    """Takes the data, of a sweep also the name of a score, and the theme."""
    find_basis: Callable[[Any], str]
    """Returns the basis of the scores of the data; empty without scores that have one."""

    def draw(self, data: Any, *score_and_theme: str) -> go.Figure:
        """Return the chart; ``layout.meta`` has its numbers in words, and the basis. Raises as ``build``."""
        figure, basis = self.build(data, *score_and_theme), self.find_basis(data)
        figure.update_layout(title_text=figure.layout.title.text or self.title)
        return add_basis(figure, basis) if basis else figure


def _of_run(title: str, build: Callable[[Results, Theme], go.Figure], *, is_judged: bool = False) -> Chart:
    """Return a chart of a run; ``is_judged`` if its numbers depend on how the contents of responses are judged."""

    def find_basis(results: Results) -> str:
        return describe_scoring(results.metrics) if is_judged and results.metrics else ""

    return Chart(title=title, build=build, find_basis=find_basis)


def _of_sweep(title: str, build: Callable[[sweep_curves.SweepData, str, Theme], go.Figure]) -> Chart:
    return Chart(title=title, build=build, find_basis=lambda data: str(data.scores.scoring))


CHARTS: Final[Mapping[str, Chart]] = {
    "precision_recall": _of_run("Precision and recall", decisions.precision_recall),
    "roc": _of_run("ROC curve", decisions.roc),
    "reliability": _of_run("Reliability", timing.reliability),
    "leads": _of_run("Early and late decisions", timing.leads),
    "failures": _of_run("Failures by kind", failures.failures, is_judged=True),
    "roots": _of_run("First mistakes by class", roots.roots, is_judged=True),
    "states": _of_run("Wrong step states", failures.states),
    "classes": _of_run("Scores by class of steps", steps.classes),
    "latency": _of_run("Model time per frame", timing.latency),
    "videos": _of_run("Videos by two scores", videos.scatter, is_judged=True),
}
"""In the order of the page."""
SWEEP_CHARTS: Final[Mapping[str, Chart]] = {
    "heat_map": _of_sweep("Heat map of both thresholds; rates of one", sweeps.heat_map),
    "curves": _of_sweep("Curves through the best point", sweep_curves.curves),
}
"""From the left of the page."""
SCORE_DISTRIBUTIONS: Final = "score_distributions"
COMPARISON_CHARTS: Final[Mapping[str, str]] = {SCORE_DISTRIBUTIONS: "Score of each video in both runs"}
TRAINING_CHARTS: Final[Mapping[str, Chart]] = {
    "losses": Chart(title="Losses", build=training.losses, find_basis=lambda _: ""),
    "validation": Chart(
        title="Scores on the validation split", build=training.validation, find_basis=lambda _: VALIDATION_BASIS
    ),
}
"""From the left of the page."""
