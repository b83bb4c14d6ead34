"""The timed script of a scene: keyframes of the hands and states of the parts.

``play`` turns a ``Plan`` into keyframes, spans and events with times in seconds. Every event is between two multiples
of 0.5 s, with a margin, so that sampling at 2 fps never shows a change in progress.
"""

import math
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

State = Literal["tray", "held", "loose", "placed"]
Kind = Literal["start", "complete", "drop", "retake", "decoy", "return", "hover"]
Cause = Literal["drop", "decoy", "hover", "swap", "light", "noise"]

FALL_S: Final = 0.3
"""Time in which a dropped part falls to the bench."""
FLOOR_Y: Final = 0.66


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A point of the world: x from the centre, y from the top."""

    x: float
    y: float

    def toward(self, other: "Place", share: float) -> "Place":
        """Interpolate linearly: ``share`` 0 is this point, 1 is ``other``."""
        return Place(x=self.x + (other.x - self.x) * share, y=self.y + (other.y - self.y) * share)


_RESTS: Final = (Place(x=0.57, y=0.53), Place(x=-0.57, y=0.53))


@dataclass(frozen=True, slots=True, kw_only=True)
class HandKey:
    """A keyframe of a hand; positions between keyframes are interpolated, and ``is_closed`` holds until the next."""

    time_s: float
    at: Place
    is_closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The state of a part from ``start_s`` until its next span."""

    start_s: float
    state: State
    at: Place
    """Its position; while held, the position where it was taken."""
    hand: int | None = None
    """The hand that holds it; None unless held."""
    fell_from: Place | None = None
    """Position where it was dropped; None unless it fell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event at one time."""

    time_s: float
    kind: Kind
    part: int
    """Index of the part; parts of steps come first, in recipe order."""
    cause: Cause | None
    """The difficulty that makes this event hard to predict; None for an easy event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A few seconds of dim light or heavy noise."""

    cause: Cause
    start_s: float
    end_s: float
    strength: float
    """In [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The untimed plan of a scene. ``has_drop`` and ``has_hover`` are in the order of ``order``."""

    seed: int
    trays: tuple[Place, ...]
    targets: tuple[Place, ...]
    order: tuple[int, ...]
    """Step indices in the order in which they are done."""
    has_drop: tuple[bool, ...]
    has_hover: tuple[bool, ...]
    decoy_at: int | None
    """Index in ``order`` before which the unneeded part, which is the last one, is taken; None for never."""
    has_two_hands: bool


@dataclass(slots=True, kw_only=True)
class Script:
    """A script under construction: the current time, and the keyframes, spans and events so far."""

    plan: Plan
    pause: float
    """Scale of the pauses; ``pace`` is that of the durations of movements."""
    pace: float
    rng: np.random.Generator
    clock: float = 0.0
    paused_s: float = 0.0
    """Sum of the pauses so far, before scaling."""
    keys: tuple[list[HandKey], list[HandKey]] = field(default_factory=lambda: ([], []))
    spans: list[list[Span]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def wait(self, low: float, high: float) -> None:
        """Advance the time by a random pause."""
        wait_s = float(self.rng.uniform(low, high))
        self.paused_s += wait_s
        self.clock += wait_s * self.pause

    def settle(self) -> None:
        """Advance the time to an instant 0.06 to 0.3 s after a multiple of 0.5 s.

        At 3.1 s with offset 0.2 s the next instant is 3.2 s: ``ceil((3.1 - 0.2) * 2) / 2 + 0.2``.
        """
        offset = float(self.rng.uniform(0.06, 0.3))
        self.clock = math.ceil((self.clock - offset) * 2) / 2 + offset

    def move(self, hand: int, at: Place, low: float, high: float, *, is_closed: bool = False) -> None:
        """Move a hand from its current position within a random duration."""
        last = self.keys[hand][-1]
        self.key(hand, last.at, is_closed=is_closed)
        self.clock += float(self.rng.uniform(low, high)) * self.pace
        self.key(hand, at, is_closed=is_closed)

    def key(self, hand: int, at: Place, *, is_closed: bool) -> None:
        """Add a keyframe of a hand at the current time."""
        self.keys[hand].append(HandKey(time_s=self.clock, at=at, is_closed=is_closed))

    def log(self, kind: Kind, part: int, cause: Cause | None) -> None:
        """Add an event at the current time."""
        self.events.append(Event(time_s=self.clock, kind=kind, part=part, cause=cause))

    def grasp(self, hand: int, part: int, at: Place) -> None:
        """Close a hand over a part at the current time, and lift it slightly."""
        self.key(hand, at, is_closed=False)
        self.key(hand, at, is_closed=True)
        self.spans[part].append(Span(start_s=self.clock, state="held", at=at, hand=hand))
        self.move(hand, Place(x=at.x, y=at.y - 0.05), 0.3, 0.4, is_closed=True)

    def release(self, hand: int, part: int, state: State, at: Place, fell_from: Place | None = None) -> None:
        """Open a hand after ``settle``, which leaves its part at ``at``."""
        here = self.keys[hand][-1].at
        self.settle()
        self.key(hand, here, is_closed=True)
        self.key(hand, here, is_closed=False)
        self.spans[part].append(Span(start_s=self.clock, state=state, at=at, fell_from=fell_from))

    def near(self, place: Place, across: float, along: float) -> Place:
        """Return a random point near ``place``."""
        x, y = self.rng.uniform(-across, across), self.rng.uniform(-along, along)
        return Place(x=place.x + float(x), y=place.y + float(y))


def play(plan: Plan, *, pause: float, pace: float) -> Script:
    """Return the complete script; it depends only on the arguments, on any machine."""
    script = Script(plan=plan, pause=pause, pace=pace, rng=np.random.default_rng([plan.seed, 2]))
    script.spans = [[Span(start_s=0.0, state="tray", at=tray)] for tray in plan.trays]
    for hand in (0, 1) if plan.has_two_hands else (0,):
        script.key(hand, _RESTS[hand], is_closed=False)
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
    script.move(hand, _RESTS[hand], 0.8, 1.0)


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
    """Carry the held part to its target, and drop it on the way if planned."""
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
    """Return the hand to its rest position; return whether the other hand took the next part at the same instant."""
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
