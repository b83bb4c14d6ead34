"""Pairs predictions with references, one to one, at least cost.

Knows nothing of what is paired: the rooms of events and of updates bring their costs. Cost inf means no edge.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One prediction and the reference that it stands for."""

    gen_index: int
    """Position in the predictions."""
    ref_index: int
    """Position in the references."""


def assign(costs: np.ndarray, *, unmatched_cost: float | None = None) -> tuple[Link, ...]:
    """Return the one-to-one pairs of least total cost, by position of the prediction.

    ``costs`` [P, R] >= 0, inf where no pair is allowed. Leaving a prediction alone costs ``unmatched_cost``; None
    makes as many pairs as possible, then the cheapest of those. Raises ``ValueError`` for negative costs or nan.
    """
    if not np.all(costs >= 0):
        raise ValueError("costs must be 0 or greater; mark a pair that is not allowed with inf")
    is_edge = np.isfinite(costs)
    if unmatched_cost is None:  # dearer than any set of pairs, so one pair more always pays
        unmatched_cost = (1.0 + np.max(costs, where=is_edge, initial=0.0)) * (min(costs.shape) + 1)
    rows, columns = linear_sum_assignment(np.minimum(costs, unmatched_cost))
    return tuple(
        Link(gen_index=int(row), ref_index=int(column))
        for row, column in zip(rows, columns, strict=True)
        if is_edge[row, column] and costs[row, column] < unmatched_cost
    )
