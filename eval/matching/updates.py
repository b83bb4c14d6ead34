"""Matches predicted with reference updates of the state in time, one to one.

The text costs 0 if it is exact and 0.5 for the same step; leaving a prediction unpaired costs 1. The updates that
remain on both sides are then paired at minimum distance, of equal ones by transition, so that a correct transition of
a wrong step is counted. ``eval.metrics.decisions`` pairs events by ``assign``, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from stepscope.engine.dialogue import parse_update
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.data.samples import Sample

WINDOW_S = 2.5
_TIE = 1e-6
"""Cost of another transition of another step: less than that of any distance."""


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
    """Pairs, ordered by prediction."""


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
    texts = _text_costs(gen, ref)
    distances = np.abs(_frames(ref)[None, :] - _frames(gen)[:, None])
    costs = np.where(distances <= reach, texts + 0.3 * (distances / max(reach, 1)) ** 1.5, np.inf)
    links = assign(np.where(texts < 1, costs, np.inf), unmatched_cost=1.0)
    for link in links:
        costs[link.gen_index, :] = costs[:, link.ref_index] = np.inf
    return tuple(sorted((*links, *assign(costs)), key=lambda link: link.gen_index))


def _frames(updates: Sequence[TimedUpdate]) -> NDArray[np.int64]:
    return np.array([update.frame_index for update in updates], dtype=np.int64)


def _text_costs(gen: Sequence[TimedUpdate], ref: Sequence[TimedUpdate]) -> NDArray[np.float64]:
    """Return costs ``[P, R]``: 0 for equal updates, 0.5 for the same step, 1 for another, inf if malformed."""
    (gen_steps, gen_kinds), (ref_steps, ref_kinds) = _parse(gen), _parse(ref)
    is_other_step, is_other_kind = gen_steps[:, None] != ref_steps, gen_kinds[:, None] != ref_kinds
    costs: NDArray[np.float64] = np.where(is_other_step, 1 + _TIE * is_other_kind, 0.5 * is_other_kind)
    costs[gen_steps == "", :] = costs[:, ref_steps == ""] = np.inf
    return costs


def _parse(timed: Sequence[TimedUpdate]) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
    """Return the step and the transition of each update, as texts that are empty if malformed."""
    updates = [parse_update(one.text) for one in timed]
    steps, kinds = [one.step_id if one else "" for one in updates], [one.transition if one else "" for one in updates]
    return np.array(steps, dtype=object), np.array(kinds, dtype=object)


def assign(costs: np.ndarray, *, unmatched_cost: float | None = None) -> tuple[Link, ...]:
    """Return the one-to-one pairs of predictions and references at minimum total cost, ordered by prediction.

    ``costs`` ``[P, R]`` are from 0; inf where a pair is not allowed. ``unmatched_cost`` is the cost of leaving a
    prediction unpaired. None makes as many pairs as possible and, among those assignments, chooses the cheapest.
    """
    is_edge = np.isfinite(costs)
    if unmatched_cost is None:  # more than the cost of any set of pairs, so that one more pair is always cheaper
        unmatched_cost = (1.0 + np.max(costs, where=is_edge, initial=0.0)) * (min(costs.shape) + 1)
    rows, columns = linear_sum_assignment(np.minimum(costs, unmatched_cost))
    return tuple(
        Link(gen_index=int(row), ref_index=int(column))
        for row, column in zip(rows, columns, strict=True)
        if is_edge[row, column] and costs[row, column] < unmatched_cost
    )
