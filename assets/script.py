"""The timed script of a scene: when which hand is where, and what lies where.

``play`` turns a ``Plan`` (who does what, in which order, with which mishaps) into keyframes of hands, spans of
parts and events, in seconds. Pauses and movements have their own scale, so that the caller can fit a script to a
length. Every event falls well inside a half second, so that a sampler at 2 fps never meets one in the act.
"""

import math
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

State = Literal["tray", "held", "loose", "placed"]
Kind = Literal["start", "complete", "drop", "retake", "decoy", "return", "hover"]
Cause = Literal["drop", "decoy", "hover", "swap", "light", "noise"]

FALL_S: Final = 0.3
"""Time a dropped part takes to reach the bench."""
FLOOR_Y: Final = 0.66
"""Where dropped parts come to lie."""
_RESTS: Final = ((0.57, 0.53), (-0.57, 0.53))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A point of the world: x from the middle, y from the top."""

    x: float
    y: float

    def toward(self, other: "Place", share: float) -> "Place":
        """Return the point that lies ``share`` of the way to another."""
        return Place(x=self.x + (other.x - self.x) * share, y=self.y + (other.y - self.y) * share)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandKey:
    """Where a hand is at one instant; it moves smoothly from key to key and grips until the next one."""

    time_s: float
    at: Place
    is_closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What becomes of a part from ``start_s`` until its next span."""

    start_s: float
    state: State
    at: Place
    """Where it lies; while held, where it was taken."""
    hand: int | None = None
    """The hand that holds it; None unless held."""
    fell_from: Place | None = None
    """Where it was let go; None unless it fell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens at one instant."""

    time_s: float
    kind: Kind
    part: int
    """Index of the part; parts of steps come first, in recipe order."""
    cause: Cause | None
    """The difficulty that makes this event hard to judge; None for a plain one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """Some seconds of failing light or of heavy noise."""

    cause: Cause
    start_s: float
    end_s: float
    strength: float
    """In [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Who does what, before any time is known. Lists run over steps in the order of doing."""

    seed: int
    trays: tuple[Place, ...]
    """Where every part lies at first."""
    targets: tuple[Place, ...]
    """Where the parts of the steps belong."""
    order: tuple[int, ...]
    """Steps in the order of doing."""
    has_drop: tuple[bool, ...]
    has_hover: tuple[bool, ...]
    decoy_at: int | None
    """Position in ``order`` before which an unneeded part, the last one, is taken; None for never."""
    has_two_hands: bool


@dataclass(slots=True, kw_only=True)
class Script:
    """A script while it is written: a clock, and what has been written so far."""

    plan: Plan
    pause: float
    """Scale of the waiting times."""
    pace: float
    """Scale of the movements' times."""
    rng: np.random.Generator
    clock: float = 0.0
    paused_s: float = 0.0
    """Waiting time so far, before scaling."""
    keys: tuple[list[HandKey], list[HandKey]] = field(default_factory=lambda: ([], []))
    spans: list[list[Span]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def wait(self, low: float, high: float) -> None:
        """Let time pass with nothing to see."""
        wait_s = float(self.rng.uniform(low, high))
        self.paused_s += wait_s
        self.clock += wait_s * self.pause

    def settle(self) -> None:
        """Move the clock on to an instant well inside a half second."""
        offset = float(self.rng.uniform(0.06, 0.3))
        self.clock = math.ceil((self.clock - offset) * 2) / 2 + offset

    def move(self, hand: int, at: Place, low: float, high: float, *, is_closed: bool = False) -> None:
        """Move a hand from where it is now."""
        last = self.keys[hand][-1]
        self.key(hand, last.at, is_closed=is_closed)
        self.clock += float(self.rng.uniform(low, high)) * self.pace
        self.key(hand, at, is_closed=is_closed)

    def key(self, hand: int, at: Place, *, is_closed: bool) -> None:
        """Write where a hand is now."""
        self.keys[hand].append(HandKey(time_s=self.clock, at=at, is_closed=is_closed))

    def log(self, kind: Kind, part: int, cause: Cause | None) -> None:
        """Write an event now."""
        self.events.append(Event(time_s=self.clock, kind=kind, part=part, cause=cause))

    def grasp(self, hand: int, part: int, at: Place) -> None:
        """Close a hand over a part now, and lift it a little."""
        self.key(hand, at, is_closed=False)
        self.key(hand, at, is_closed=True)
        self.spans[part].append(Span(start_s=self.clock, state="held", at=at, hand=hand))
        self.move(hand, Place(x=at.x, y=at.y - 0.05), 0.3, 0.4, is_closed=True)

    def release(self, hand: int, part: int, state: State, at: Place, fell_from: Place | None = None) -> None:
        """Open a hand after settling; its part lies at ``at`` from now on."""
        here = self.keys[hand][-1].at
        self.settle()
        self.key(hand, here, is_closed=True)
        self.key(hand, here, is_closed=False)
        self.spans[part].append(Span(start_s=self.clock, state=state, at=at, fell_from=fell_from))

    def near(self, place: Place, across: float, along: float) -> Place:
        """Return a random place near another."""
        x, y = self.rng.uniform(-across, across), self.rng.uniform(-along, along)
        return Place(x=place.x + float(x), y=place.y + float(y))


def play(plan: Plan, *, pause: float, pace: float) -> Script:
    """Write the whole script. Equal arguments give equal scripts on any machine."""
    script = Script(plan=plan, pause=pause, pace=pace, rng=np.random.default_rng([plan.seed, 2]))
    script.spans = [[Span(start_s=0.0, state="tray", at=tray)] for tray in plan.trays]
    for hand in (0, 1) if plan.has_two_hands else (0,):
        script.key(hand, Place(x=_RESTS[hand][0], y=_RESTS[hand][1]), is_closed=False)
    script.wait(1.2, 2.5)
    hand, is_taken = 0, False
    for turn in range(len(plan.order)):
        if not is_taken:
            _pick_up(script, turn, hand)
        _carry(script, turn, hand)
        is_taken = _hand_over(script, turn, hand)
        changes = is_taken or (plan.has_two_hands and script.rng.random() < 0.4)
        hand = 1 - hand if changes else hand
    script.events.sort(key=lambda event: event.time_s)
    return script


def _pick_up(script: Script, turn: int, hand: int) -> None:
    plan = script.plan
    if plan.decoy_at == turn:
        _try_decoy(script, hand)
    if plan.has_hover[turn]:
        _hover(script, hand)
    step = plan.order[turn]
    script.move(hand, plan.trays[step], 0.8, 1.4)
    script.settle()
    script.log("start", step, _cause_of_order(plan, step))
    script.grasp(hand, step, plan.trays[step])


def _cause_of_order(plan: Plan, step: int) -> Cause | None:
    return None if plan.order[step] == step else "swap"


def _go_home(script: Script, hand: int) -> None:
    script.move(hand, Place(x=_RESTS[hand][0], y=_RESTS[hand][1]), 0.8, 1.0)


def _hover(script: Script, hand: int) -> None:
    lying = [part for part, spans in enumerate(script.spans) if spans[-1].state == "tray"]
    part = int(script.rng.choice(lying))
    script.move(hand, script.plan.trays[part], 0.7, 1.2)
    script.log("hover", part, "hover")
    script.move(hand, script.near(script.plan.trays[part], 0.01, 0.01), 0.6, 1.2)
    _go_home(script, hand)
    script.wait(0.3, 0.8)


def _try_decoy(script: Script, hand: int) -> None:
    part = len(script.plan.trays) - 1
    tray = script.plan.trays[part]
    script.move(hand, tray, 0.8, 1.4)
    script.settle()
    script.log("decoy", part, "decoy")
    script.grasp(hand, part, tray)
    script.move(hand, script.near(Place(x=tray.x * 0.5, y=0.6), 0.05, 0.04), 1.0, 1.8, is_closed=True)
    script.move(hand, tray, 1.2, 2.0, is_closed=True)
    script.release(hand, part, "tray", tray)
    script.log("return", part, "decoy")
    _go_home(script, hand)
    script.wait(0.3, 0.8)


def _carry(script: Script, turn: int, hand: int) -> None:
    """Bring the part in hand to its target, perhaps dropping it on the way."""
    step = script.plan.order[turn]
    target, tray = script.plan.targets[step], script.plan.trays[step]
    cause = _cause_of_order(script.plan, step)
    if script.plan.has_drop[turn]:
        _drop(script, step, hand)
        cause = "drop"
    elif script.rng.random() < 0.5:
        half = Place(x=(tray.x + target.x) / 2, y=(tray.y + target.y) / 2)
        script.move(hand, script.near(half, 0.1, 0.05), 0.9, 1.8, is_closed=True)
    script.move(hand, target, 1.4, 2.6, is_closed=True)
    script.release(hand, step, "placed", target)
    script.log("complete", step, cause)


def _drop(script: Script, step: int, hand: int) -> None:
    tray, target = script.plan.trays[step], script.plan.targets[step]
    part_way = float(script.rng.uniform(0.35, 0.7))
    slip = Place(x=tray.x + (target.x - tray.x) * part_way, y=float(script.rng.uniform(0.5, 0.58)))
    script.move(hand, slip, 0.9, 1.6, is_closed=True)
    side = -0.22 if slip.x > 0 else 0.22
    floor = Place(x=slip.x + side * float(script.rng.uniform(0.3, 1.0)), y=FLOOR_Y)
    script.release(hand, step, "loose", floor, fell_from=slip)
    script.log("drop", step, "drop")
    script.move(hand, script.near(Place(x=slip.x, y=slip.y - 0.06), 0.04, 0.01), 0.5, 0.8)
    script.wait(0.2, 0.6)
    script.move(hand, floor, 0.6, 1.0)
    script.settle()
    script.log("retake", step, "drop")
    script.grasp(hand, step, floor)


def _hand_over(script: Script, turn: int, hand: int) -> bool:
    """Send the hand home; perhaps the other one takes the next part on this very instant."""
    plan, other, after = script.plan, 1 - hand, turn + 1
    is_plain = after < len(plan.order) and not plan.has_hover[after] and plan.decoy_at != after
    is_taken = plan.has_two_hands and is_plain and bool(script.rng.random() < 0.5)
    placed_s = script.clock
    if is_taken:
        step = plan.order[after]
        script.clock = max(script.keys[other][-1].time_s, placed_s - 1.3 * script.pace)
        script.key(other, script.keys[other][-1].at, is_closed=False)
        script.clock = placed_s - 0.08
        script.key(other, plan.trays[step], is_closed=False)
        script.clock = placed_s
        script.log("start", step, _cause_of_order(plan, step))
        script.grasp(other, step, plan.trays[step])
        taken_s, script.clock = script.clock, placed_s
        _go_home(script, hand)
        script.clock = taken_s
    else:
        _go_home(script, hand)
        script.wait(0.6, 2.0)
    return is_taken
