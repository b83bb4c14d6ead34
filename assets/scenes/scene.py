"""Scenes: the content of a video before rendering, with parts, steps, hand movements and appearance.

``make_scene`` depends only on its arguments, on any machine. ``Difficulty`` has one probability per named cause, and
affected events carry the name of their cause. Durations are between 40 and 60 s; pauses are scaled to fit.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from stepscope.assets.scenes.recipes import (
    NATURAL_COLOURS,
    NOUNS,
    PALETTE,
    RECIPES,
    TRAINED_FAMILIES,
    Colour,
    PartSpec,
    mix_parts,
)
from stepscope.assets.scenes.script import FALL_S, Cause, Event, HandKey, Place, Plan, Script, Span, Spell, State, play
from stepscope.engine.records import Step

FPS: Final = 2.0
"""Sampled frames per second: the grid on which the reference turns lie."""
_SLOTS: Final = tuple((0.125 * column - 0.5, 0.89 if column % 2 else 0.785) for column in range(9))
_SKINS: Final = (Colour(240, 196, 162), Colour(214, 158, 118), Colour(158, 108, 76), Colour(252, 218, 190))
_BENCHES: Final = (Colour(214, 182, 144), Colour(196, 160, 122), Colour(222, 206, 184), Colour(176, 186, 190))
_MATS: Final = (Colour(86, 126, 118), Colour(96, 112, 142), Colour(222, 218, 206), Colour(140, 124, 148))


@dataclass(frozen=True, slots=True, kw_only=True)
class Difficulty:
    """Probabilities of difficulties, each in [0, 1]: 0 never, 1 at least once per scene."""

    drop: float
    """A part is dropped and picked up again."""
    decoy: float
    """A part that is not needed is taken and put back."""
    hover: float
    """A hand hovers over a part without taking it."""
    swap: float
    """Two adjacent steps are done in reverse order."""
    light: float
    """The light is dim, and much dimmer for some seconds."""
    noise: float
    """The image is noisy, and much noisier for some seconds."""

    @classmethod
    def easy(cls) -> "Difficulty":
        """Few drops and hovers, steps in order, good light."""
        return cls(drop=0.2, decoy=0.0, hover=0.15, swap=0.0, light=0.1, noise=0.15)

    @classmethod
    def hard(cls) -> "Difficulty":
        """All causes are likely."""
        return cls(drop=0.5, decoy=0.4, hover=0.5, swap=0.3, light=0.4, noise=0.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a scene and its states over time."""

    noun: str
    colour: Colour
    scale: float
    step: int | None
    """Index of its step; None for a part that is not needed."""
    spans: tuple[Span, ...]
    """Its states over time; the first starts at 0 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Appearance of the video; no label depends on it."""

    bench: Colour
    mat: Colour
    skin: Colour
    sleeve: Colour
    zoom: float
    shift: Place
    gain: float
    """Brightness factor; 1 is neutral."""
    noise: float
    """Standard deviation of the noise, in grey levels."""
    flicker_hz: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The content of a video."""

    seed: int
    family: str
    parts: tuple[Part, ...]
    """The parts of the steps in recipe order, then a part that is not needed."""
    steps: tuple[Step, ...]
    """In recipe order; ids may be permuted."""
    duration_s: float
    """A multiple of 0.5 s; the sampled frames are at 0, 0.5, .., duration_s - 0.5."""
    hands: tuple[tuple[HandKey, ...], ...]
    """Keyframes of the right and the left hand; empty for an absent left hand."""
    events: tuple[Event, ...]
    spells: tuple[Spell, ...]
    look: Look

    @property
    def goal(self) -> str:
        """Goal of the task, such as ``build the toy truck``."""
        return f"build the {self.family}"

    @property
    def num_frames(self) -> int:
        """Sampled frames at 2 fps."""
        return round(self.duration_s * FPS)


def make_scene(
    seed: int,
    *,
    difficulty: Difficulty,
    family: str | None = None,
    permute_ids: bool = False,
    has_mixed_parts: bool = False,
) -> Scene:
    """Return a random scene of a family, by default of a random trained family.

    Ids are S1..Sn; ``permute_ids`` shuffles them over the steps and changes nothing else. With ``has_mixed_parts`` the
    steps follow no recipe, so that the next step can be read only from the prompt.
    """
    rng = np.random.default_rng([seed, 1])
    drawn = TRAINED_FAMILIES[int(rng.integers(len(TRAINED_FAMILIES)))]
    recipe = RECIPES[family if family is not None else drawn]
    if has_mixed_parts:
        recipe = mix_parts(recipe, np.random.default_rng([seed, 5]))
    specs = recipe.parts[: int(rng.integers(recipe.num_required, len(recipe.parts) + 1))]
    script = _fit(_make_plan(seed, rng, specs, difficulty), rng)
    spells = _cast_spells(rng, script.events, difficulty)
    ids = np.random.default_rng([seed, 3]).permutation(len(specs)) if permute_ids else range(len(specs))
    return Scene(
        seed=seed,
        family=recipe.name,
        parts=_make_parts(rng, specs, script),
        steps=tuple(Step(id=f"S{i + 1}", name=spec.step_name) for i, spec in zip(ids, specs, strict=True)),
        duration_s=math.ceil((script.clock + 1.6) * FPS) / FPS,
        hands=(tuple(script.keys[0]), tuple(script.keys[1])),
        events=tuple(_blame(event, spells) for event in script.events),
        spells=spells,
        look=_make_look(rng, difficulty),
    )


def _make_plan(seed: int, rng: np.random.Generator, specs: tuple[PartSpec, ...], difficulty: Difficulty) -> Plan:
    has_decoy = bool(rng.random() < difficulty.decoy)
    has_extra = has_decoy or bool(rng.random() < 0.3)
    num_steps, order = len(specs), list(range(len(specs)))
    slots = rng.permutation(len(_SLOTS))[: num_steps + has_extra]
    jitter = rng.uniform(-1, 1, (len(slots), 2)) * (0.02, 0.008)
    first = int(rng.integers(1, num_steps - 1))
    if rng.random() < difficulty.swap:
        order[first], order[first + 1] = order[first + 1], order[first]
    return Plan(
        seed=seed,
        trays=tuple(
            Place(x=_SLOTS[slot][0] + float(dx), y=_SLOTS[slot][1] + float(dy))
            for slot, (dx, dy) in zip(slots, jitter, strict=True)
        ),
        targets=tuple(Place(x=spec.x, y=spec.y) for spec in specs),
        order=tuple(order),
        has_drop=_choose(rng, num_steps, difficulty.drop),
        has_hover=_choose(rng, num_steps, difficulty.hover),
        decoy_at=int(rng.integers(num_steps)) if has_decoy else None,
        has_two_hands=bool(rng.random() < 0.5),
    )


def _choose(rng: np.random.Generator, count: int, knob: float) -> tuple[bool, ...]:
    """Mark each step with probability 0.4 ``knob``, but at least one with probability ``knob``."""
    chosen = rng.random(count) < 0.4 * knob
    if not chosen.any() and rng.random() < knob:
        chosen[int(rng.integers(count))] = True
    return tuple(chosen.tolist())


def _fit(plan: Plan, rng: np.random.Generator) -> Script:
    """Play the plan with pauses, and movements if necessary, scaled to a duration of 40 to 60 s.

    Rounding events to instants between frames changes the duration, so the scale is corrected in three rounds.
    """
    script = play(plan, pause=1.0, pace=1.0)
    wanted_s = min(max(script.clock * float(rng.uniform(0.95, 1.2)), 41.0), 54.0)
    pause = pace = 1.0
    for _ in range(3):
        moving_s = (script.clock - script.paused_s * pause) / pace
        pace = min(1.0, (wanted_s - 0.4 * script.paused_s) / moving_s)
        pause = (wanted_s - moving_s * pace) / script.paused_s
        script = play(plan, pause=pause, pace=pace)
    return script


def _make_parts(rng: np.random.Generator, specs: tuple[PartSpec, ...], script: Script) -> tuple[Part, ...]:
    named = [(spec.noun, spec.scale) for spec in specs]
    if len(script.spans) > len(specs):
        used = {spec.noun for spec in specs}
        named.append((str(rng.choice([noun for noun in NOUNS if noun not in used])), 1.1))
    hues = rng.permutation(len(PALETTE))
    return tuple(
        Part(
            noun=noun,
            colour=NATURAL_COLOURS.get(noun, PALETTE[hues[index % len(PALETTE)]]),
            scale=scale,
            step=index if index < len(specs) else None,
            spans=tuple(script.spans[index]),
        )
        for index, (noun, scale) in enumerate(named)
    )


def _cast_spells(rng: np.random.Generator, events: list[Event], difficulty: Difficulty) -> tuple[Spell, ...]:
    spells = []
    causes: tuple[tuple[Cause, float], ...] = (("light", difficulty.light), ("noise", difficulty.noise))
    for cause, knob in causes:
        for _ in range(2 if rng.random() < knob / 2 else 1):
            start_s = events[int(rng.integers(len(events)))].time_s - float(rng.uniform(0.6, 1.2))
            end_s = start_s + float(rng.uniform(2.0, 4.0))
            strength = float(rng.uniform(0.6, 1.0))
            if rng.random() < knob:
                spells.append(Spell(cause=cause, start_s=start_s, end_s=end_s, strength=strength))
    return tuple(spells)


def _blame(event: Event, spells: tuple[Spell, ...]) -> Event:
    for spell in spells:
        if event.cause is None and spell.start_s <= event.time_s <= spell.end_s:
            return replace(event, cause=spell.cause)
    return event


def _make_look(rng: np.random.Generator, difficulty: Difficulty) -> Look:
    def pick(colours: tuple[Colour, ...]) -> Colour:
        tint = rng.uniform(0.94, 1.05)
        return Colour(*(min(255, round(channel * tint)) for channel in colours[int(rng.integers(len(colours)))]))

    return Look(
        bench=pick(_BENCHES),
        mat=pick(_MATS),
        skin=pick(_SKINS),
        sleeve=pick(PALETTE),
        zoom=float(rng.uniform(0.96, 1.03)),
        shift=Place(x=float(rng.uniform(-0.02, 0.02)), y=float(rng.uniform(-0.015, 0.015))),
        gain=float(rng.uniform(0.94, 1.04)) - 0.3 * difficulty.light * float(rng.random()),
        noise=float(rng.uniform(0.5, 1.5)) + 8.0 * difficulty.noise * float(rng.random()),
        flicker_hz=float(rng.uniform(0.3, 0.8)),
    )


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
