"""Scores over a grid of both thresholds, and its best point.

A *point* is a pair of thresholds. The scores are *exact*, of a run at each point, or a *preview* from the probabilities
of one run. Not swept are scores that do not depend on thresholds (texts, ranking and calibration of the probabilities,
the teacher-forced pass), and times, which reused runs do not have. Choose thresholds on a validation split: on the
reported split they would make the scores too good.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from engine.config import check_threshold, format_thresholds
from eval.metrics.definitions import GROUPS, Better, find_metric

_UNSWEPT_GROUPS: Final = ("Text", "Teacher-forced", "System")
_OF_PROBABILITIES: Final = ("_average_precision", "_auroc", "_brier", "_ece")

SWEEP_METRICS: Final = tuple(
    metric.name
    for group in GROUPS
    if group.name not in _UNSWEPT_GROUPS
    for metric in group.metrics
    if not metric.name.endswith(_OF_PROBABILITIES)
)
"""The scores of an exact sweep, in the order of the tables."""

DECISION_F1: Final = "decision_f1_1s"
"""The score that is recommended for a preview, which has no texts and no states; both heads have equal weight."""

DEFAULT_METRICS: Final = (DECISION_F1, "speaking_event_f1_1s", "dst_update_event_f1_1s")
"""The default scores to choose a preview's point by; for an exact sweep ``NUM_FAILURES`` comes first."""

_LOSS_FUNCTIONS: Final[Mapping[Better, Callable[[NDArray[np.float64]], NDArray[np.float64]]]] = {
    "higher": np.negative,
    "lower": np.positive,
    "near 0": np.abs,
    "near 1": lambda values: np.abs(values - 1),
}
_TOLERANCE: Final = 1e-9
_MAX_POINTS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPoint:
    """A pair of thresholds with its scores."""

    speak_threshold: float
    """The assistant speaks when ``speak_prob`` is greater, in [0, 1]."""
    update_threshold: float
    """The assistant updates the state when ``update_prob`` is greater, in [0, 1]."""
    scores: Mapping[str, float]
    """By name; nan where undefined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All pairs of two lists of thresholds. Raises ``ValueError`` unless both ascend within [0, 1]."""

    speak: tuple[float, ...]
    """Speaking thresholds, ``S`` of them."""
    update: tuple[float, ...]
    """Update thresholds, ``U`` of them."""

    def __post_init__(self) -> None:
        """Check both axes."""
        for name, values in (("speak", self.speak), ("update", self.update)):
            if not values:
                raise ValueError(f"the grid has no {name} threshold; give at least one")
            for value in values:
                check_threshold(value, f"{name} thresholds")
            if any(before >= after for before, after in pairwise(values)):
                raise ValueError(f"{name} thresholds must ascend; got {values}")
        if len(self) > _MAX_POINTS:
            raise ValueError(f"the grid has {len(self)} points; give at most {_MAX_POINTS}")

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.speak) * len(self.update)

    def pairs(self) -> Iterator[tuple[float, float]]:
        """Yield the speak and update threshold of every point, row by row of equal update thresholds."""
        return ((speak, update) for update in self.update for speak in self.speak)

    def snake_order(self) -> Iterator[int]:
        """Yield the index in ``pairs`` of every point, such that consecutive points are neighbours in the grid.

        Columns are walked alternately down and up: with 2 speak and 3 update thresholds, 0 2 4 5 3 1. Neighbours with
        the same speak threshold share longer prefixes, which saves a third of the passes on the bundled videos.
        """
        width, height = len(self.speak), len(self.update)
        for column in range(width):
            rows = range(height)
            for row in reversed(rows) if column % 2 else rows:
                yield row * width + column


@dataclass(frozen=True, slots=True, kw_only=True)
class GridScores:
    """The scores of a split at every point of a grid."""

    split: str
    """File of the split that the thresholds are tuned on."""
    is_exact: bool
    """Whether each point was run; otherwise its decisions are derived from a trace."""
    grid: Grid
    """The points."""
    points: tuple[GridPoint, ...]
    """In the order of ``Grid.pairs``."""
    num_videos: int
    """Videos that were scored."""
    errors: Mapping[str, str]
    """Per video without scores, the reason."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the scores."""
        return tuple(self.points[0].scores)

    @property
    def warning(self) -> str:
        """A warning against choosing thresholds on a test split; otherwise empty."""
        if "test" not in Path(self.split).stem.lower():
            return ""
        return f"{self.split} looks like a test split; choose thresholds on validation, or their scores are too good"

    def as_matrix(self, metric: str) -> tuple[tuple[float, ...], ...]:
        """Return one score ``[U][S]``, with a row per update threshold and a column per speak threshold.

        Raises ``ValueError`` for an unknown score.
        """
        _check_known(metric, self.metrics)
        width = len(self.grid.speak)
        values = [point.scores[metric] for point in self.points]
        return tuple(tuple(values[row : row + width]) for row in range(0, len(values), width))


@dataclass(frozen=True, slots=True, kw_only=True)
class BestPoint:
    """The point of a grid with the best value of one score."""

    metric: str
    """Name of the score."""
    value: float
    speak_threshold: float
    update_threshold: float
    num_tied: int
    """Points with this value, this one included."""
    num_plateau: int
    """Size of the connected region of such points around this one."""
    split: str
    """File of the split that was tuned on."""

    def __str__(self) -> str:
        """Return the point as text, with the number of ties."""
        value = f"{self.value:.0f}" if find_metric(self.metric).is_count else f"{self.value:.3f}"
        text = f"{self.metric} {value} at {format_thresholds(self.speak_threshold, self.update_threshold)}"
        if self.num_tied == 1:
            return text
        return f"{text} (nearest the middle of a plateau of {self.num_plateau}; {self.num_tied} points tie)"


def parse_axis(text: str) -> tuple[float, ...]:
    """Parse thresholds such as ``0.1:0.9:9`` (first, last, number) or ``0.3,0.5``; return them sorted, each once.

    Raises ``ValueError`` for invalid text; ``Grid`` checks the range.
    """
    try:
        if ":" in text:
            first, last, number = text.split(":")
            values = np.linspace(float(first), float(last), int(number)).round(6).tolist()
        else:
            values = [float(value) for value in text.split(",")]
    except ValueError as error:
        raise ValueError(
            f"thresholds must be given as FIRST:LAST:NUMBER, such as 0.1:0.9:9, or as 0.3,0.5; got {text!r}"
        ) from error
    return tuple(sorted(set(values)))


def check_metrics(names: Sequence[str], *, known: Sequence[str] = SWEEP_METRICS) -> None:
    """Raise ``ValueError`` for an unknown score, or one without a direction; see ``has_direction``."""
    for name in names:
        _check_known(name, known)
        if not has_direction(name):
            raise ValueError(f"{name} has no better or worse values; choose a different score")


def has_direction(name: str) -> bool:
    """Return whether higher or lower values of a score are better."""
    return find_metric(name).better in _LOSS_FUNCTIONS


def compute_losses(metric: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the losses of values of a score, of the same shape; the lowest loss is the best value."""
    return _LOSS_FUNCTIONS[find_metric(metric).better](values)


def find_best(scores: GridScores, metric: str) -> BestPoint:
    """Return the point with the best value of a score, in the direction of its definition.

    Points that tie form connected plateaus. The result is the point nearest to the middle of the largest plateau, in
    steps of the grid, since there both thresholds tolerate small deviations on new videos.

    Raises ``ValueError`` for an unknown score, and for one that is undefined at every point.
    """
    check_metrics([metric], known=scores.metrics)
    values = np.array(scores.as_matrix(metric), float)
    loss = compute_losses(metric, values)
    if np.isnan(loss).all():
        raise ValueError(f"{metric} is undefined at every point of the grid; choose a different score")
    is_best = loss <= np.nanmin(loss) + _TOLERANCE
    row, column, num_plateau = _find_middle(is_best)
    return BestPoint(
        metric=metric,
        value=float(values[row, column]),
        speak_threshold=scores.grid.speak[column],
        update_threshold=scores.grid.update[row],
        num_tied=int(is_best.sum()),
        num_plateau=num_plateau,
        split=scores.split,
    )


def _check_known(name: str, known: Sequence[str]) -> None:
    if name not in known:
        problem = "a preview has no score" if name in SWEEP_METRICS else "a sweep has no score"
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        raise ValueError(f"{problem} {name}; choose one such as {', '.join(near or DEFAULT_METRICS)}")


def _find_middle(is_best: NDArray[np.bool_]) -> tuple[int, int, int]:
    """Return the row and column of the cell nearest to the middle of the largest plateau, and the plateau's size.

    For ``is_best`` of ``110 / 110 / 001``, the plateaus have 4 and 1 cells and the result is ``(0, 0, 4)``.
    """
    plateaus: NDArray[Any] = ndimage.label(is_best)[0]
    cells = np.argwhere(plateaus == 1 + np.bincount(plateaus[is_best])[1:].argmax())
    row, column = cells[((cells - cells.mean(axis=0)) ** 2).sum(axis=1).argmin()]
    return int(row), int(column), len(cells)
