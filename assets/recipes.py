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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSpec:
    """One part of a recipe and the step that puts it in place."""

    noun: str
    verb: str
    x: float
    """Target of its centre, from the centre of the world; ``y`` from the top."""
    y: float
    scale: float

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


def _part(noun: str, verb: str, x: float, y: float, scale: float = 1.0) -> PartSpec:
    return PartSpec(noun=noun, verb=verb, x=x, y=y, scale=scale)


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
        _part("board", "lay down", 0.0, 0.46, 1.6),
        _part("axle", "attach", 0.0, 0.535, 1.3),
        _part("cabin", "attach", 0.1, 0.352, 1.15),
        _part("block", "load", -0.08, 0.357),
        _part("flag", "insert", -0.06, 0.225),
        _part("bulb", "screw in", 0.1, 0.215, 0.9),
        _part("star", "pin on", 0.1, 0.36, 0.65),
    ),
    "tower": (
        _part("base", "set down", 0.0, 0.62, 1.1),
        _part("block", "stack", 0.0, 0.512),
        _part("board", "add", 0.0, 0.425),
        _part("window", "add", 0.0, 0.337, 0.9),
        _part("roof", "put on", 0.0, 0.218),
        _part("flag", "insert", 0.03, 0.1, 0.85),
    ),
    "sandwich": (
        _part("plate", "set down", 0.0, 0.61, 1.2),
        _part("bread", "add", 0.0, 0.55, 1.2),
        _part("lettuce", "add", 0.0, 0.495, 1.2),
        _part("tomato", "add", 0.0, 0.44, 1.2),
        _part("cheese", "add", 0.0, 0.4, 1.2),
        _part("bun", "put on", 0.0, 0.335, 1.2),
    ),
    "desk lamp": (
        _part("base", "set down", 0.0, 0.61, 1.2),
        _part("pole", "insert", 0.0, 0.475, 1.3),
        _part("bulb", "screw in", 0.0, 0.335),
        _part("shade", "mount", 0.0, 0.255, 1.4),
        _part("ring", "slide on", 0.0, 0.48, 0.85),
    ),
    "house": (
        _part("wall", "set up", 0.0, 0.535, 1.45),
        _part("door", "attach", -0.06, 0.563, 0.85),
        _part("window", "attach", 0.06, 0.53, 0.7),
        _part("roof", "put on", 0.0, 0.385, 1.4),
        _part("flag", "insert", 0.03, 0.24),
        _part("star", "pin on", 0.0, 0.395, 0.7),
    ),
    "boat": (
        _part("hull", "set down", 0.0, 0.575, 1.5),
        _part("pole", "insert", 0.0, 0.44, 1.25),
        _part("sail", "hang", 0.085, 0.425, 1.15),
        _part("flag", "insert", 0.028, 0.272, 0.85),
        _part("ring", "hang", -0.09, 0.57, 0.7),
        _part("star", "pin on", 0.065, 0.455, 0.65),
        _part("window", "attach", 0.0, 0.585, 0.5),
    ),
    "robot": (
        _part("axle", "set down", 0.0, 0.6, 1.1),
        _part("block", "mount", 0.0, 0.47, 1.45),
        _part("head", "put on", 0.0, 0.3, 1.15),
        _part("arm", "attach", 0.15, 0.45, 1.1),
        _part("bulb", "screw in", 0.0, 0.175, 0.8),
        _part("star", "pin on", 0.0, 0.47, 0.7),
    ),
    "flower pot": (
        _part("plate", "lay down", 0.0, 0.625, 1.2),
        _part("pot", "set down", 0.0, 0.535, 1.35),
        _part("pole", "insert", 0.0, 0.37, 1.25),
        _part("flower", "attach", 0.0, 0.25, 1.15),
        _part("ring", "slide on", 0.0, 0.41, 0.75),
        _part("star", "pin on", 0.0, 0.54, 0.7),
    ),
}
RECIPES: Final = tuple(
    Recipe(name=name, parts=parts, num_required=6 if name == "sandwich" else 4) for name, parts in _PARTS.items()
)
NOUNS: Final = tuple(sorted({part.noun for recipe in RECIPES for part in recipe.parts}))
FAMILIES: Final = tuple(recipe.name for recipe in RECIPES)
HELD_OUT_FAMILY: Final = "tower"
"""Excluded from training videos; each of its parts also occurs in a different recipe."""
TRAINED_FAMILIES: Final = tuple(name for name in FAMILIES if name != HELD_OUT_FAMILY)


def find_recipe(name: str) -> Recipe:
    """Return the recipe with a name. Raises ``ValueError`` with the known names."""
    if name not in FAMILIES:
        raise ValueError(f"no task family is called {name!r}; choose one of {', '.join(FAMILIES)}")
    return RECIPES[FAMILIES.index(name)]


def mix_parts(recipe: Recipe, rng: np.random.Generator) -> Recipe:
    """Return the recipe with its parts replaced by random parts of the trained families, each noun at most once."""
    known = {part.noun: part for name in TRAINED_FAMILIES for part in find_recipe(name).parts}
    nouns = rng.choice(sorted(known), len(recipe.parts), replace=False)
    parts = (replace(known[str(noun)], x=old.x, y=old.y) for noun, old in zip(nouns, recipe.parts, strict=True))
    return replace(recipe, parts=tuple(parts))
