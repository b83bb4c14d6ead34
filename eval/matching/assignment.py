"""One-to-one assignment of predictions to references at minimum total cost.

The callers, for events and for updates, compute the costs. An infinite cost means that a pair is not allowed.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The positions of one prediction and of the reference assigned to it."""

    gen_index: int
    ref_index: int


def assign(costs: np.ndarray, *, unmatched_cost: float | None = None) -> tuple[Link, ...]:
    """Return the one-to-one pairs of minimum total cost, ordered by prediction.

    Args:
        costs: Costs ``[P, R]`` from 0; inf where a pair is not allowed.
        unmatched_cost: Cost of leaving a prediction unpaired. None makes as many pairs as possible and, among those
            assignments, chooses the cheapest.

    Raises:
        ValueError: A cost is negative or nan.
    """
    if not np.all(costs >= 0):
        raise ValueError("costs must be 0 or greater; mark a pair that is not allowed with inf")
    is_edge = np.isfinite(costs)
    if unmatched_cost is None:  # more than the cost of any set of pairs, so that one more pair is always cheaper
        unmatched_cost = (1.0 + np.max(costs, where=is_edge, initial=0.0)) * (min(costs.shape) + 1)
    rows, columns = linear_sum_assignment(np.minimum(costs, unmatched_cost))
    return tuple(
        Link(gen_index=int(row), ref_index=int(column))
        for row, column in zip(rows, columns, strict=True)
        if is_edge[row, column] and costs[row, column] < unmatched_cost
    )
