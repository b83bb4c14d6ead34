"""Matches predicted with reference updates of the state in time, one to one.

The text costs 0 if it is exact and 0.5 for the same step; leaving a prediction unpaired costs 1. The updates that
remain on both sides are then paired at minimum distance, of equal ones by transition, so that a correct transition of
a wrong step is counted. ``eval.metrics.decisions`` pairs events by ``assign_pairs``, too.

Only pairs within the window are listed, so memory is proportional to their number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from stepscope.engine.dialogue import parse_update
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.data.samples import Sample

WINDOW_S = 2.5
MAX_PAIRS = 2**23
"""Maximum number of pairs within the window of one video: matching takes about 60 bytes for each."""
_MAX_CELLS = 2**22
"""Largest table of all pairs that is made, 32 MB; of solutions with equal costs, it and the sparse one may differ."""
_TIE = 1e-6
"""Cost of another transition of another step: less than that of any distance."""


Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Positions ``[E]`` of predictions and of references, of pairs that may be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedUpdate:
    """One update text at its frame."""

    frame_index: int
    text: str
    """Text such as ``S3->complete``; it may be malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The positions of one prediction and of the reference assigned to it."""

    gen_index: int
    ref_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMatch:
    """The predicted and the reference updates of one video, in order, and their pairs."""

    gen: tuple[TimedUpdate, ...]
    ref: tuple[TimedUpdate, ...]
    links: tuple[Link, ...]


def pair_updates(outputs: Sequence[FrameOutput], sample: Sample) -> UpdateMatch:
    """Pair the updates of one video that are at most ``WINDOW_S`` apart."""
    gen = tuple(TimedUpdate(frame_index=out.frame_index, text=text) for out in outputs for text in out.updates)
    ref = reference_updates(sample)
    links = match_updates(gen, ref, reach=int(WINDOW_S * sample.fps))
    return UpdateMatch(gen=gen, ref=ref, links=links)


def reference_updates(sample: Sample) -> tuple[TimedUpdate, ...]:
    """Return the reference's updates with their frames, in order."""
    return tuple(
        TimedUpdate(frame_index=frame_at(turn.time_s, sample.fps), text=turn.text)
        for turn in sample.turns
        if turn.role == "update"
    )


def match_updates(gen: Sequence[TimedUpdate], ref: Sequence[TimedUpdate], *, reach: int) -> tuple[Link, ...]:
    """Pair predicted with reference updates, one to one, ordered by prediction.

    A pair requires a distance of at most ``reach`` frames, and a well-formed prediction. It costs
    ``text + 0.3 * (distance / reach) ** 1.5``.
    """
    if not (gen and ref):
        return ()
    gen_frames, ref_frames, shape = _frames(gen), _frames(ref), (len(gen), len(ref))
    rows, columns = pairs = find_near(gen_frames, ref_frames, reach=reach)
    texts = _text_costs(gen, ref, pairs)
    costs = texts + 0.3 * (np.abs(gen_frames[rows] - ref_frames[columns]) / max(reach, 1)) ** 1.5
    links = assign_pairs(pairs, np.where(texts < 1, costs, np.inf), shape=shape, unmatched_cost=1.0)
    is_taken = np.isin(rows, [link.gen_index for link in links]) | np.isin(columns, [link.ref_index for link in links])
    others = assign_pairs(pairs, np.where(is_taken, np.inf, costs), shape=shape)
    return tuple(sorted((*links, *others), key=lambda link: link.gen_index))


def _frames(updates: Sequence[TimedUpdate]) -> NDArray[np.int64]:
    return np.array([update.frame_index for update in updates], dtype=np.int64)


def _text_costs(gen: Sequence[TimedUpdate], ref: Sequence[TimedUpdate], pairs: Pairs) -> NDArray[np.float64]:
    """Return costs ``[E]`` of pairs: 0 if equal, 0.5 for the same step, 1 for another, inf if malformed."""
    (gen_steps, gen_kinds), (ref_steps, ref_kinds) = _parse(gen), _parse(ref)
    rows, columns = pairs
    is_other_step = gen_steps[rows] != ref_steps[columns]
    is_other_kind = gen_kinds[rows] != ref_kinds[columns]
    costs: NDArray[np.float64] = np.where(is_other_step, 1 + _TIE * is_other_kind, 0.5 * is_other_kind)
    costs[(gen_steps[rows] == "") | (ref_steps[columns] == "")] = np.inf
    return costs


def _parse(timed: Sequence[TimedUpdate]) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
    """Return the step and the transition of each update, as texts that are empty if malformed."""
    updates = [parse_update(one.text) for one in timed]
    steps, kinds = [one.step_id if one else "" for one in updates], [one.transition if one else "" for one in updates]
    return np.array(steps, dtype=object), np.array(kinds, dtype=object)


def find_near(gen_frames: NDArray[np.int64], ref_frames: NDArray[np.int64], *, reach: int) -> Pairs:
    """Return the pairs at most ``reach`` frames apart. Raises ``ValueError`` if they are more than ``MAX_PAIRS``.

    Predictions at 0 and 9 with references at 1, 2 and 8 and a reach of 2 have the pairs (0, 0), (0, 1) and (1, 2).
    """
    order = np.argsort(ref_frames, kind="stable")
    first = np.searchsorted(ref_frames, gen_frames - reach, sorter=order)
    counts = np.searchsorted(ref_frames, gen_frames + reach, side="right", sorter=order) - first
    check_num_pairs(int(counts.sum()))
    starts = counts.cumsum() - counts
    places = np.arange(counts.sum()) + np.repeat(first - starts, counts)
    return np.repeat(np.arange(len(gen_frames)), counts), order[places]


def check_num_pairs(number: int) -> None:
    """Raise ``ValueError`` if a video has more than ``MAX_PAIRS`` pairs within a window."""
    if number > MAX_PAIRS:
        raise ValueError(
            f"matching in time would compare {number} pairs of this video, more than {MAX_PAIRS}; "
            "lower its frame rate, or score a shorter part"
        )


def assign_pairs(
    pairs: Pairs, costs: NDArray[np.float64], *, shape: tuple[int, int], unmatched_cost: float | None = None
) -> tuple[Link, ...]:
    """Return the one-to-one pairs at minimum total cost, as ``assign`` does with the table of ``shape`` ``(P, R)``.

    ``costs`` ``[E]`` are those of the pairs that may be allowed; all others are not.
    """
    if math.prod(shape) <= _MAX_CELLS:
        table = np.full(shape, np.inf)
        table[pairs] = costs
        return assign(table, unmatched_cost=unmatched_cost)
    if unmatched_cost is None:
        unmatched_cost = _highest_cost(costs, shape)
    rows, columns = (side[costs < unmatched_cost] for side in pairs)
    alone = np.arange(shape[0])  # each prediction has a column of its own, in which it stays unpaired
    weights = np.concatenate([costs[costs < unmatched_cost], np.full(shape[0], unmatched_cost)])
    places = np.concatenate([rows, alone]), np.concatenate([columns, shape[1] + alone])
    chosen = assign_rows(places, weights, shape=(shape[0], sum(shape)))
    return tuple(Link(gen_index=int(row), ref_index=int(chosen[row])) for row in np.flatnonzero(chosen < shape[1]))


def assign_rows(pairs: Pairs, costs: NDArray[np.float64], *, shape: tuple[int, int]) -> NDArray[np.intp]:
    """Return the column of each row at minimum total cost. Raises ``ValueError`` if the pairs leave a row without one.

    SciPy's sparse matrix drops zeros, so 1 is added to all costs: each total grows by the number of rows.
    """
    _, columns = min_weight_full_bipartite_matching(csr_matrix((costs + 1, pairs), shape=shape))
    return np.asarray(columns, dtype=np.intp)


def _highest_cost(costs: NDArray[np.float64], shape: tuple[int, ...]) -> float:
    """Return more than the cost of any set of pairs, so that one more pair is always cheaper."""
    return float((1.0 + np.max(costs, where=np.isfinite(costs), initial=0.0)) * (min(shape) + 1))


def assign(costs: np.ndarray, *, unmatched_cost: float | None = None) -> tuple[Link, ...]:
    """Return the one-to-one pairs of predictions and references at minimum total cost, ordered by prediction.

    ``costs`` ``[P, R]`` are from 0; inf where a pair is not allowed. ``unmatched_cost`` is the cost of leaving a
    prediction unpaired. None makes as many pairs as possible and, among those assignments, chooses the cheapest.
    """
    is_edge = np.isfinite(costs)
    if unmatched_cost is None:
        unmatched_cost = _highest_cost(costs, costs.shape)
    rows, columns = linear_sum_assignment(np.minimum(costs, unmatched_cost))
    return tuple(
        Link(gen_index=int(row), ref_index=int(column))
        for row, column in zip(rows, columns, strict=True)
        if is_edge[row, column] and costs[row, column] < unmatched_cost
    )
