"""The best point of a grid of thresholds by one score, and the points that tie with it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from eval.metrics.definitions import compute_loss, find_metric, has_direction
from eval.sweeps.grid import RECOMMENDED_METRICS, SWEEP_METRICS, Grid, GridScores, check_known

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class BestPoint:
    """The point of a grid with the best value of one score."""

    metric: str
    value: float
    speak_threshold: float
    update_threshold: float
    num_tied: int
    """Points with this value, this one included."""
    num_plateau: int
    """Number of such points that are connected with this one."""
    split: str
    grid: Grid
    present_value: float | None = None
    """Value at the thresholds of the run; None if they are no point of the grid."""
    is_present: bool = False
    """Whether these are the thresholds of the run, which no point improves on."""

    @property
    def thresholds(self) -> tuple[float, float]:
        """The speak and the update threshold; nan for one that is not swept."""
        return self.speak_threshold, self.update_threshold

    @property
    def place(self) -> str:
        """Both thresholds as text."""
        return self.grid.describe(*self.thresholds)

    @property
    def ties(self) -> str:
        """The points with the same value, and the choice among them, as text; empty for a single best point."""
        if self.num_tied == 1:
            return ""
        if self.is_present:
            return f"{self.num_tied} points have this value; this is the one of the run"
        if self.num_plateau == self.num_tied:
            return f"{self.num_tied} neighbouring points have this value; this is the one in their middle"
        if self.num_plateau == 1:
            return f"{self.num_tied} points have this value, none beside another; this is the first in the grid"
        return (
            f"{self.num_tied} points have this value; this is the one in the middle of the largest group, "
            f"{self.num_plateau} neighbours"
        )

    def __str__(self) -> str:
        """Return the point as text, with its ties."""
        value = f"{self.value:.0f}" if find_metric(self.metric).is_count else f"{self.value:.3f}"
        text = f"{self.metric} {value} at {self.place}"
        return f"{text} ({self.ties})" if self.ties else text


def recommend_metric(known: Sequence[str]) -> str:
    """Return the score of ``known`` to choose thresholds by, the first in ``RECOMMENDED_METRICS``.

    Raises ``ValueError`` if none is known.
    """
    for name in RECOMMENDED_METRICS:
        if name in known:
            return name
    raise ValueError(f"the points have none of the scores {', '.join(RECOMMENDED_METRICS)}; choose one of theirs")


def check_metrics(names: Sequence[str], *, known: Sequence[str] = SWEEP_METRICS) -> None:
    """Raise ``ValueError`` for an unknown score, or one without a direction; see ``has_direction``."""
    for name in names:
        check_known(name, known)
        if not has_direction(name):
            raise ValueError(f"{name} has no better or worse values; choose a different score")


def find_best(scores: GridScores, metric: str, *, present: tuple[float, float] | None = None) -> BestPoint:
    """Return the point with the best value of a score, in the direction of its definition.

    Points that tie form connected plateaus. The result is the point nearest to the middle of the largest plateau, in
    steps of the grid, since there both thresholds tolerate small deviations on new videos. If the thresholds of the
    run, ``present``, tie with the best, the result is their point: nothing is gained by a change.

    Raises ``ValueError`` for an unknown score, and for one that is undefined at every point.
    """
    check_metrics([metric], known=scores.metrics)
    values = np.array(scores.as_matrix(metric), float)
    loss = compute_loss(metric, values)
    if np.isnan(loss).all():
        raise ValueError(f"{metric} is undefined at every point of the grid; choose a different score")
    is_best = loss <= np.nanmin(loss) + _TOLERANCE
    row, column, num_plateau = _find_middle(is_best)
    places = dict(zip(scores.grid.pairs(), np.ndindex(values.shape), strict=True))
    own = places.get(present) if present is not None else None
    is_present = own is not None and bool(is_best[own])
    if own is not None and is_present:
        row, column = own
    return BestPoint(
        metric=metric,
        value=float(values[row, column]),
        speak_threshold=(scores.grid.speak or (math.nan,))[column],
        update_threshold=(scores.grid.update or (math.nan,))[row],
        num_tied=int(is_best.sum()),
        num_plateau=num_plateau,
        split=scores.split,
        grid=scores.grid,
        present_value=None if own is None else float(values[own]),
        is_present=is_present,
    )


def _find_middle(is_best: NDArray[np.bool_]) -> tuple[int, int, int]:
    """Return the row and column of the cell nearest to the middle of the largest plateau, and the plateau's size.

    For ``is_best`` of ``110 / 110 / 001``, the plateaus have 4 and 1 cells and the result is ``(0, 0, 4)``.
    """
    plateaus: NDArray[Any] = ndimage.label(is_best)[0]
    cells = np.argwhere(plateaus == 1 + np.bincount(plateaus[is_best])[1:].argmax())
    row, column = cells[((cells - cells.mean(axis=0)) ** 2).sum(axis=1).argmin()]
    return int(row), int(column), len(cells)
