"""Eight recipes for building an object from parts; a noun occurs once per recipe, and in several recipes.

The world is 4:3: ``x`` is in [-2/3, 2/3] from the centre, ``y`` in [0, 1] from the top. Colours are random, except
those of food, and are never mentioned in texts.
"""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np


class Colour(NamedTuple):
    """A colour, each channel in [0, 255]."""

    red: int
    green: int
    blue: int


class PartSpec(NamedTuple):
    """One part of a recipe and the step that puts it in place."""

    noun: str
    verb: str
    x: float
    """Target of its centre, from the centre of the world; ``y`` from the top."""
    y: float
    scale: float = 1.0

    @property
    def step_name(self) -> str:
        """Name of the step, such as ``attach the cabin``."""
        return f"{self.verb} the {self.noun}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """An object to build."""

    name: str
    parts: tuple[PartSpec, ...]
    num_required: int
    """Number of parts that every scene has; a scene may leave out the remaining ones, from the end."""


PALETTE: Final = (
    Colour(226, 92, 78),
    Colour(240, 150, 62),
    Colour(244, 200, 74),
    Colour(112, 178, 92),
    Colour(58, 160, 160),
    Colour(78, 132, 214),
    Colour(150, 108, 196),
    Colour(228, 134, 172),
    Colour(238, 232, 214),
)
NATURAL_COLOURS: Final = {
    "bread": Colour(222, 172, 108),
    "bun": Colour(206, 138, 70),
    "cheese": Colour(248, 204, 70),
    "lettuce": Colour(120, 190, 74),
    "tomato": Colour(218, 62, 50),
}
_PARTS: Final = {
    "toy truck": (
        PartSpec("board", "lay down", 0.0, 0.46, 1.6),
        PartSpec("axle", "attach", 0.0, 0.535, 1.3),
        PartSpec("cabin", "attach", 0.1, 0.352, 1.15),
        PartSpec("block", "load", -0.08, 0.357),
        PartSpec("flag", "insert", -0.06, 0.225),
        PartSpec("bulb", "screw in", 0.1, 0.215, 0.9),
        PartSpec("star", "pin on", 0.1, 0.36, 0.65),
    ),
    "tower": (
        PartSpec("base", "set down", 0.0, 0.62, 1.1),
        PartSpec("block", "stack", 0.0, 0.512),
        PartSpec("board", "add", 0.0, 0.425),
        PartSpec("window", "add", 0.0, 0.337, 0.9),
        PartSpec("roof", "put on", 0.0, 0.218),
        PartSpec("flag", "insert", 0.03, 0.1, 0.85),
    ),
    "sandwich": (
        PartSpec("plate", "set down", 0.0, 0.61, 1.2),
        PartSpec("bread", "add", 0.0, 0.55, 1.2),
        PartSpec("lettuce", "add", 0.0, 0.495, 1.2),
        PartSpec("tomato", "add", 0.0, 0.44, 1.2),
        PartSpec("cheese", "add", 0.0, 0.4, 1.2),
        PartSpec("bun", "put on", 0.0, 0.335, 1.2),
    ),
    "desk lamp": (
        PartSpec("base", "set down", 0.0, 0.61, 1.2),
        PartSpec("pole", "insert", 0.0, 0.475, 1.3),
        PartSpec("bulb", "screw in", 0.0, 0.335),
        PartSpec("shade", "mount", 0.0, 0.255, 1.4),
        PartSpec("ring", "slide on", 0.0, 0.48, 0.85),
    ),
    "house": (
        PartSpec("wall", "set up", 0.0, 0.535, 1.45),
        PartSpec("door", "attach", -0.06, 0.563, 0.85),
        PartSpec("window", "attach", 0.06, 0.53, 0.7),
        PartSpec("roof", "put on", 0.0, 0.385, 1.4),
        PartSpec("flag", "insert", 0.03, 0.24),
        PartSpec("star", "pin on", 0.0, 0.395, 0.7),
    ),
    "boat": (
        PartSpec("hull", "set down", 0.0, 0.575, 1.5),
        PartSpec("pole", "insert", 0.0, 0.44, 1.25),
        PartSpec("sail", "hang", 0.085, 0.425, 1.15),
        PartSpec("flag", "insert", 0.028, 0.272, 0.85),
        PartSpec("ring", "hang", -0.09, 0.57, 0.7),
        PartSpec("star", "pin on", 0.065, 0.455, 0.65),
        PartSpec("window", "attach", 0.0, 0.585, 0.5),
    ),
    "robot": (
        PartSpec("axle", "set down", 0.0, 0.6, 1.1),
        PartSpec("block", "mount", 0.0, 0.47, 1.45),
        PartSpec("head", "put on", 0.0, 0.3, 1.15),
        PartSpec("arm", "attach", 0.15, 0.45, 1.1),
        PartSpec("bulb", "screw in", 0.0, 0.175, 0.8),
        PartSpec("star", "pin on", 0.0, 0.47, 0.7),
    ),
    "flower pot": (
        PartSpec("plate", "lay down", 0.0, 0.625, 1.2),
        PartSpec("pot", "set down", 0.0, 0.535, 1.35),
        PartSpec("pole", "insert", 0.0, 0.37, 1.25),
        PartSpec("flower", "attach", 0.0, 0.25, 1.15),
        PartSpec("ring", "slide on", 0.0, 0.41, 0.75),
        PartSpec("star", "pin on", 0.0, 0.54, 0.7),
    ),
}
RECIPES: Final = {
    name: Recipe(name=name, parts=parts, num_required=6 if name == "sandwich" else 4) for name, parts in _PARTS.items()
}
NOUNS: Final = tuple(sorted({part.noun for parts in _PARTS.values() for part in parts}))
FAMILIES: Final = tuple(RECIPES)
HELD_OUT_FAMILY: Final = "tower"
"""Excluded from training videos; each of its parts also occurs in a different recipe."""
TRAINED_FAMILIES: Final = tuple(name for name in FAMILIES if name != HELD_OUT_FAMILY)


def mix_parts(recipe: Recipe, rng: np.random.Generator) -> Recipe:
    """Return the recipe with its parts replaced by random parts of the trained families, each noun at most once."""
    known = {part.noun: part for name in TRAINED_FAMILIES for part in RECIPES[name].parts}
    nouns = rng.choice(sorted(known), len(recipe.parts), replace=False)
    parts = (known[str(noun)]._replace(x=old.x, y=old.y) for noun, old in zip(nouns, recipe.parts, strict=True))
    return replace(recipe, parts=tuple(parts))
