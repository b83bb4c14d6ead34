"""Matches predicted with reference updates of the state in time, one to one.

The text costs 0 if it is exact and 0.5 for the same step, plus the distance cost of turn matching. Leaving a prediction
unpaired costs 1, like a silent frame in turn matching. The updates that remain on both sides are then paired at minimum
distance, so that a correct transition of a wrong step is counted. Malformed predictions are never paired.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.dialogue import Update, parse_update
from engine.records import FrameOutput, frame_at
from eval.data.samples import Sample
from eval.matching.assignment import Link, assign

WINDOW_S = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedUpdate:
    """One update text at its frame."""

    frame_index: int
    """Index of the sampled frame."""
    text: str
    """Text such as ``S3->complete``; it may be malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMatch:
    """The updates of one video, and their pairs."""

    gen: tuple[TimedUpdate, ...]
    """Predicted updates, in order."""
    ref: tuple[TimedUpdate, ...]
    """Reference updates, in order."""
    links: tuple[Link, ...]
    """Pairs, ordered by prediction."""


def pair_updates(
    outputs: Sequence[FrameOutput], sample: Sample, *, match_window: tuple[int, int] | None = None
) -> UpdateMatch:
    """Pair the updates of one video; ``match_window`` is in frames, by default ``WINDOW_S`` to either side."""
    gen, ref = predicted_updates(outputs), reference_updates(sample)
    links = match_updates(gen, ref, match_window=match_window or update_window(sample.fps))
    return UpdateMatch(gen=gen, ref=ref, links=links)


def reference_updates(sample: Sample) -> tuple[TimedUpdate, ...]:
    """Return the reference's updates with their frames, in order."""
    return tuple(
        TimedUpdate(frame_index=frame_at(turn.time_s, sample.fps), text=turn.text)
        for turn in sample.turns
        if turn.role == "update"
    )


def predicted_updates(outputs: Sequence[FrameOutput]) -> tuple[TimedUpdate, ...]:
    """Return the generated updates with their frames, in order."""
    return tuple(TimedUpdate(frame_index=out.frame_index, text=text) for out in outputs for text in out.updates)


def update_window(fps: float) -> tuple[int, int]:
    """Return the match window in frames relative to a prediction: ``WINDOW_S`` to either side."""
    reach = int(WINDOW_S * fps)
    return -reach, reach


def match_updates(
    gen: Sequence[TimedUpdate],
    ref: Sequence[TimedUpdate],
    *,
    match_window: tuple[int, int],
    dist_func_factor: float = 0.3,
    dist_func_power: float = 1.5,
) -> tuple[Link, ...]:
    """Pair predicted with reference updates, one to one, ordered by prediction.

    A pair requires ``left <= reference frame - predicted frame <= right`` for the ``match_window`` (left, right) in
    frames, and a well-formed prediction. It costs ``text + factor * (distance / max(-left, right)) ** power``. Raises
    ``ValueError`` if left > right.
    """
    left, right = match_window
    if left > right:
        raise ValueError(f"match_window must be (first, last) in frames; got {match_window}")
    texts = _text_costs(gen, ref)
    shifts = _frames(ref)[None, :] - _frames(gen)[:, None]
    far = dist_func_factor * (np.abs(shifts) / max(abs(left), abs(right), 1)) ** dist_func_power
    costs = np.where((shifts >= left) & (shifts <= right), texts + far, np.inf)
    links = assign(np.where(texts < 1, costs, np.inf), unmatched_cost=1.0)
    for link in links:
        costs[link.gen_index, :] = costs[:, link.ref_index] = np.inf
    return tuple(sorted((*links, *assign(costs)), key=lambda link: link.gen_index))


def _frames(updates: Sequence[TimedUpdate]) -> NDArray[np.int64]:
    return np.array([update.frame_index for update in updates], dtype=np.int64)


def _text_costs(gen: Sequence[TimedUpdate], ref: Sequence[TimedUpdate]) -> NDArray[np.float64]:
    """Return costs ``[P, R]``: 0 for equal updates, 0.5 for the same step, 1 for different steps, inf if malformed."""
    updates, steps = dict[Update, int](), dict[str, int]()
    (gen_updates, gen_steps), (ref_updates, ref_steps) = (_numbers(texts, updates, steps) for texts in (gen, ref))
    costs = np.where(gen_steps[:, None] == ref_steps[None, :], 0.5, 1.0)
    costs[gen_updates[:, None] == ref_updates[None, :]] = 0.0
    costs[gen_updates < 0, :] = costs[:, ref_updates < 0] = np.inf
    return costs


def _numbers(
    timed: Sequence[TimedUpdate], updates: dict[Update, int], steps: dict[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return an index per update and per step, -1 if malformed; adds new updates and steps to the dictionaries."""
    parsed = [parse_update(one.text) for one in timed]
    return (
        np.array([-1 if one is None else updates.setdefault(one, len(updates)) for one in parsed], dtype=np.int64),
        np.array([-1 if one is None else steps.setdefault(one.step_id, len(steps)) for one in parsed], dtype=np.int64),
    )
