"""Positions of the hands and parts of a scene at a given time, for drawing and for labels."""

from bisect import bisect_right
from dataclasses import dataclass

from stepscope.assets.scenes.scene import Part, Scene
from stepscope.assets.scenes.script import FALL_S, Place, State


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPose:
    """The position and state of a part at one time."""

    at: Place
    state: State
    hand: int | None
    """Index of the hand that holds it; None if it is not held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandPose:
    """The position of a hand at one time, which is also the centre of a held part."""

    at: Place
    is_closed: bool


def hand_at(scene: Scene, hand: int, time_s: float) -> HandPose | None:
    """Return the pose of a hand; None if the scene does not have this hand.

    Between keyframes the position follows a smoothstep curve: at a quarter of the time, 15.6 % of the way.
    """
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
    """Return the pose of a part; a held part follows its hand, and a dropped part falls for ``FALL_S``."""
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
