"""Where the hands and parts of a scene are at an instant: what is drawn, and what the labels are read from."""

from bisect import bisect_right
from dataclasses import dataclass

from assets.scene import Part, Scene
from assets.script import FALL_S, Place, State


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPose:
    """Where a part is at one instant."""

    at: Place
    state: State
    hand: int | None
    """The hand that holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandPose:
    """Where a hand is at one instant; a part it holds has its middle there."""

    at: Place
    is_closed: bool


def hand_at(scene: Scene, hand: int, time_s: float) -> HandPose | None:
    """Return where a hand is, or None when the scene has no such hand."""
    keys = scene.hands[hand]
    if not keys:
        return None
    index = bisect_right(keys, time_s, key=lambda key: key.time_s)
    before = keys[max(index - 1, 0)]
    if index == 0 or index == len(keys):
        return HandPose(at=before.at, is_closed=before.is_closed)
    after = keys[index]
    share = (time_s - before.time_s) / (after.time_s - before.time_s)
    at = before.at.toward(after.at, share * share * (3 - 2 * share))
    return HandPose(at=at, is_closed=before.is_closed)


def part_at(scene: Scene, part: Part, time_s: float) -> PartPose:
    """Return where a part is; a held one is where its hand is, a dropped one may still be falling."""
    index = bisect_right(part.spans, time_s, key=lambda span: span.start_s)
    span = part.spans[max(index - 1, 0)]
    at = span.at
    if span.hand is not None:
        pose = hand_at(scene, span.hand, time_s)
        assert pose is not None
        at = pose.at
    elif span.fell_from is not None:
        at = span.fell_from.toward(span.at, min(1.0, (time_s - span.start_s) / FALL_S) ** 2)
    return PartPose(at=at, state=span.state, hand=span.hand)
