"""Scores over a grid of both thresholds, and the best point of it.

A *point* is a pair of thresholds. The scores are *exact*, of a run at each point, or a *preview* from the probabilities
of one run. What no threshold decides (texts, ranking and calibration of the probabilities, the teacher-forced pass) and
what a shared run does not show (times) is left out. Choose on a validation split: on the one that is reported, a chosen
threshold makes its own scores too good.
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

from engine.config import format_threshold
from eval.metrics.definitions import GROUPS, Better, find_metric

_UNSWEPT_GROUPS: Final = ("Text", "Teacher-forced", "System")
_OF_PROBABILITIES: Final = ("_average_precision", "_auroc", "_brier", "_ece")

SWEPT: Final = tuple(
    metric.name
    for group in GROUPS
    if group.name not in _UNSWEPT_GROUPS
    for metric in group.metrics
    if not metric.name.endswith(_OF_PROBABILITIES)
)
"""The scores of an exact sweep, in the order of the tables."""

DECISIONS: Final = "decision_f1_1s"
"""The score that is recommended for a preview, which knows no texts and no states: both heads count alike."""

DEFAULT_METRICS: Final = (DECISIONS, "speaking_event_f1_1s", "dst_update_event_f1_1s")
"""What a preview is chosen by unless something else is asked for; an exact sweep by ``NUM_FAILURES`` first."""

_LOSSES: Final[Mapping[Better, Callable[[NDArray[np.float64]], NDArray[np.float64]]]] = {
    "higher": np.negative,
    "lower": np.positive,
    "near 0": np.abs,
    "near 1": lambda values: np.abs(values - 1),
}
_SAME: Final = 1e-9
_MOST_POINTS: Final = 10_000


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
    """The thresholds that are tried, each with each. Raises ``ValueError`` unless they ascend within [0, 1]."""

    speak: tuple[float, ...]
    """Thresholds of speaking."""
    update: tuple[float, ...]
    """Thresholds of updates."""

    def __post_init__(self) -> None:
        """Check both axes."""
        for name, values in (("speak", self.speak), ("update", self.update)):
            if not values:
                raise ValueError(f"the grid has no {name} threshold; give at least one")
            for value in values:
                if not 0 <= value <= 1:
                    raise ValueError(f"{name} thresholds must be within [0, 1]; got {value:g}")
            if any(before >= after for before, after in pairwise(values)):
                raise ValueError(f"{name} thresholds must ascend; got {values}")
        if len(self) > _MOST_POINTS:
            raise ValueError(f"the grid has {len(self)} points; give at most {_MOST_POINTS}")

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.speak) * len(self.update)

    def pairs(self) -> Iterator[tuple[float, float]]:
        """Yield speak and update threshold of every point, by update, then speak: the order of all tables."""
        return ((speak, update) for update in self.update for speak in self.speak)

    def walk(self) -> Iterator[int]:
        """Yield the place of every point in ``pairs``, from neighbour to neighbour: every other column backwards.

        Along the update thresholds, since that way runs share more: on bundled videos it took a third fewer passes.
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
    """File of the split: what the thresholds are tuned on."""
    is_exact: bool
    """Whether each point was run; else its decisions are those that a trace would have given."""
    grid: Grid
    """The points."""
    points: tuple[GridPoint, ...]
    """In the order of ``Grid.pairs``."""
    num_videos: int
    """Videos that were scored."""
    errors: Mapping[str, str]
    """Per video that has no scores, why."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the scores."""
        return tuple(self.points[0].scores)

    @property
    def caution(self) -> str:
        """What to beware of when thresholds are chosen by these scores; empty when all is well."""
        if "test" not in Path(self.split).stem.lower():
            return ""
        return f"{self.split} looks like a test split; choose thresholds on validation, or their scores are too good"

    def surface(self, metric: str) -> tuple[tuple[float, ...], ...]:
        """Return one score as rows by update threshold of columns by speak threshold.

        Raises ``ValueError`` for a score that is not there.
        """
        _check_known(metric, self.metrics)
        width = len(self.grid.speak)
        values = [point.scores[metric] for point in self.points]
        return tuple(tuple(values[row : row + width]) for row in range(0, len(values), width))


@dataclass(frozen=True, slots=True, kw_only=True)
class BestPoint:
    """The point of a grid that is best by one score."""

    metric: str
    """The score."""
    value: float
    """Its value there."""
    speak_threshold: float
    """Threshold of speaking."""
    update_threshold: float
    """Threshold of updates."""
    num_tied: int
    """Points with this value, this one included."""
    num_plateau: int
    """Those of them that touch one another, side by side, around this one."""
    split: str
    """File of the split that was tuned on."""

    def __str__(self) -> str:
        """Say which point it is, and why this one of several."""
        value = f"{self.value:.0f}" if find_metric(self.metric).is_count else f"{self.value:.3f}"
        speak, update = format_threshold(self.speak_threshold), format_threshold(self.update_threshold)
        text = f"{self.metric} {value} at speak {speak}, update {update}"
        if self.num_tied == 1:
            return text
        return f"{text} (nearest the middle of a plateau of {self.num_plateau}; {self.num_tied} points tie)"


def read_axis(text: str) -> tuple[float, ...]:
    """Return thresholds given as ``first:last:number``, or with commas between them; sorted, each once.

    Raises ``ValueError`` for anything else; ``Grid`` checks their range.
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


def check_metrics(names: Sequence[str], *, known: Sequence[str] = SWEPT) -> None:
    """Raise ``ValueError`` for a name that is no score of the sweep, or one that has no better and worse."""
    for name in names:
        _check_known(name, known)
        if not has_direction(name):
            raise ValueError(f"no value of {name} is better than another; choose by another score")


def has_direction(name: str) -> bool:
    """Whether one value of a score is better than another."""
    return find_metric(name).better in _LOSSES


def losses(metric: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much values of a score, of any shape, fall short: the least is the best."""
    return _LOSSES[find_metric(metric).better](values)


def find_best(scores: GridScores, metric: str) -> BestPoint:
    """Return the point with the best value of a score, by the direction that the registry gives.

    Points that tie form plateaus, side by side. Of the largest, the point nearest its middle is taken, in steps of
    the grid: there, either threshold may be a little off on other videos.

    Raises ``ValueError`` for an unknown score and for one that is undefined at every point.
    """
    check_metrics([metric], known=scores.metrics)
    values = np.array(scores.surface(metric), float)
    loss = losses(metric, values)
    if np.isnan(loss).all():
        raise ValueError(f"{metric} is undefined at every point of the grid; choose by another score")
    is_best = loss <= np.nanmin(loss) + _SAME
    row, column, num_plateau = _middle(is_best)
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
        what = "a preview has no score" if name in SWEPT else "a sweep has no score"
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        raise ValueError(f"{what} {name}; take one such as {', '.join(near or DEFAULT_METRICS)}")


def _middle(is_best: NDArray[np.bool_]) -> tuple[int, int, int]:
    """Return row and column of the cell nearest the middle of the largest plateau, and how many cells that has."""
    plateaus: NDArray[Any] = ndimage.label(is_best)[0]
    cells = np.argwhere(plateaus == 1 + np.bincount(plateaus[is_best])[1:].argmax())
    row, column = cells[((cells - cells.mean(axis=0)) ** 2).sum(axis=1).argmin()]
    return int(row), int(column), len(cells)
