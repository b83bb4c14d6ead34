"""Pairs predicted with reference updates of the state in time, one to one.

Text costs 0 when exact and 0.5 for the same step, plus the distance as in turn matching; leaving a prediction alone
costs 1, as does a silent frame there. What is then left on both sides is paired nearest first, so that a right
transition of a wrong step is seen. Malformed predictions are never paired.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.dialogue import parse_update
from engine.records import FrameOutput, turn_frame
from eval.assignment import Link, assign
from eval.samples import Sample

WINDOW_S = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedUpdate:
    """One update text at its frame."""

    frame_index: int
    """Index of the sampled frame."""
    text: str
    """As written, such as ``S3->complete``; malformed ones too."""


def reference_updates(sample: Sample) -> tuple[TimedUpdate, ...]:
    """Return the reference's updates at their frames, in order."""
    return tuple(
        TimedUpdate(frame_index=turn_frame(turn.time_s, sample.fps), text=turn.text)
        for turn in sample.turns
        if turn.role == "update"
    )


def predicted_updates(outputs: Sequence[FrameOutput]) -> tuple[TimedUpdate, ...]:
    """Return the updates that were written, in order."""
    return tuple(TimedUpdate(frame_index=out.frame_index, text=text) for out in outputs for text in out.updates)


def update_window(fps: float) -> tuple[int, int]:
    """Return the frames, relative to a prediction, in which its reference may lie: ``WINDOW_S`` to either side."""
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
    """Pair predicted with reference updates, one to one, by position of the prediction.

    A pair needs l <= reference frame - predicted frame <= r of ``match_window`` (l, r), and a prediction that is an
    update; it costs text + factor * (distance / max(-l, r)) ** power. Raises ``ValueError`` for a window that ends
    before it begins.
    """
    left, right = match_window
    if left > right:
        raise ValueError(f"match_window must be (first, last) in frames; got {match_window}")
    texts = np.array([[_text_cost(one, other) for other in ref] for one in gen]).reshape(len(gen), len(ref))
    shifts = np.array([[other.frame_index - one.frame_index for other in ref] for one in gen]).reshape(texts.shape)
    far = dist_func_factor * (np.abs(shifts) / max(abs(left), abs(right), 1)) ** dist_func_power
    costs = np.where((shifts >= left) & (shifts <= right), texts + far, np.inf)
    links = assign(np.where(texts < 1, costs, np.inf), unmatched_cost=1.0)
    for link in links:
        costs[link.gen_index, :] = costs[:, link.ref_index] = np.inf
    return tuple(sorted((*links, *assign(costs)), key=lambda link: link.gen_index))


def _text_cost(gen: TimedUpdate, ref: TimedUpdate) -> float:
    one, other = parse_update(gen.text), parse_update(ref.text)
    if one is None or other is None:
        return np.inf
    return 0.0 if one == other else 0.5 if one.step_id == other.step_id else 1.0
