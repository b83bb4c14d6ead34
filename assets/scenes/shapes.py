"""Drawings of all nouns: flat rounded shapes that differ in silhouette, not only in colour.

A drawing is a list of polygons in units of half a part (x right, y down, mostly in [-1.5, 1.5]). ``Canvas`` maps the
world of ``assets.scenes.recipes`` to an image of any size and aspect ratio with sub-pixel precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import cv2
import numpy as np
import numpy.typing as npt

from stepscope.assets.scenes.recipes import Colour
from stepscope.assets.scenes.script import Place

Image = npt.NDArray[np.uint8]
Points = npt.NDArray[np.float64]
Tone = Literal["body", "dark", "light"]

WORLD_WIDTH: Final = 4 / 3
UNIT: Final = 0.072
"""Half a part of scale 1, in world units."""
_SHIFT: Final = 4
_WOOD: Final = Colour(134, 98, 66)
_STEEL: Final = Colour(176, 182, 190)
_GLASS: Final = Colour(186, 222, 240)
_INK: Final = Colour(52, 50, 58)
_CREAM: Final = Colour(250, 244, 226)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One filled polygon of a drawing."""

    points: Points
    """[N, 2] in units of half a part."""
    tone: Tone | Colour
    """A shade of the part's colour, or a colour of its own."""
    is_silhouette: bool
    """Whether it is part of the outline and the shadow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """An image with its mapping from world coordinates; see ``lay_canvas``."""

    image: npt.NDArray[Any]
    """[H, W, 3], or a mask [H, W]."""
    scale: Points
    """[2], pixels per world unit as fixed-point numbers with 4 fractional bits: 16 is one pixel."""
    origin: Points
    """[2], position of the world's origin as the same fixed-point numbers."""
    pixels_per_unit: float
    """Geometric mean over both axes, for line widths."""

    def fill(self, points: Points, colour: Sequence[int]) -> None:
        """Fill a polygon of world points [N, 2]."""
        cv2.fillPoly(self.image, [self._pixels(points)], colour, cv2.LINE_AA, _SHIFT)

    def stroke(self, points: Points, colour: Sequence[int], size: float, *, is_closed: bool = False) -> None:
        """Draw a line along world points [N, 2], ``size`` world units and at least a pixel wide, with round ends."""
        width = max(1, round(size * self.pixels_per_unit))
        cv2.polylines(self.image, [self._pixels(points)], is_closed, colour, width, cv2.LINE_AA, _SHIFT)

    def part(self, at: Place, scale: float) -> "Canvas":
        """Return the same image with a part's centre as origin and half its size as unit, for the points of a layer."""
        origin = self.origin + self.scale * (at.x, at.y)
        return replace(self, scale=self.scale * (UNIT * scale), origin=origin)

    def _pixels(self, points: Points) -> npt.NDArray[np.int32]:
        return (points * self.scale + self.origin).astype(np.int32)


def lay_canvas(image: npt.NDArray[Any], *, zoom: float, shift: Place) -> Canvas:
    """Map the world to an image of any size, magnified about its centre, then shifted by world units."""
    height, width = image.shape[:2]
    scale = np.array((width / WORLD_WIDTH, height)) * zoom * (1 << _SHIFT)
    middle = np.array(((0.5 + shift.x / WORLD_WIDTH) * width - 0.5, (0.5 + shift.y) * height - 0.5))
    origin = middle * (1 << _SHIFT) - scale * (0.0, 0.5)
    return Canvas(image=image, scale=scale, origin=origin, pixels_per_unit=zoom * (height * width / WORLD_WIDTH) ** 0.5)


def darken(colour: Sequence[int], factor: float = 0.58) -> Colour:
    """Return a darker shade."""
    return Colour(*(round(channel * factor) for channel in colour))


def lighten(colour: Sequence[int], share: float = 0.45) -> Colour:
    """Return a lighter shade."""
    return Colour(*(round(channel + (255 - channel) * share) for channel in colour))


def draw_part(canvas: Canvas, noun: str, *, colour: Colour, at: Place, scale: float) -> None:
    """Draw a part with its outline."""
    tones = {"body": colour, "dark": darken(colour, 0.72), "light": lighten(colour)}
    canvas = canvas.part(at, scale)
    for layer in DRAWINGS[noun]:
        if layer.is_silhouette:
            canvas.stroke(layer.points, darken(colour, 0.42), 0.016, is_closed=True)
    for layer in DRAWINGS[noun]:
        canvas.fill(layer.points, tones[layer.tone] if isinstance(layer.tone, str) else layer.tone)


def draw_silhouette(canvas: Canvas, noun: str, *, at: Place, scale: float) -> None:
    """Fill the silhouette of a part in a mask with 255."""
    for layer in DRAWINGS[noun]:
        if layer.is_silhouette:
            canvas.part(at, scale).fill(layer.points, (255,))


def oval(rx: float, ry: float, x: float = 0.0, y: float = 0.0, *, count: int = 20) -> Points:
    """Return an ellipse as a polygon ``[count, 2]``."""
    angle = np.arange(count) * (2 * np.pi / count) - np.pi / 2
    return np.stack((x + rx * np.cos(angle), y + ry * np.sin(angle)), axis=1)


def box(rx: float, ry: float, x: float = 0.0, y: float = 0.0, *, round_by: float = 0.15) -> Points:
    """Return a rectangle with rounded corners and half sizes ``rx`` and ``ry``, ``[16, 2]``."""
    angle = np.arange(4) * (np.pi / 6)
    quarter = np.stack((np.cos(angle), np.sin(angle)), axis=1) * round_by
    parts = []
    for turn, (right, down) in enumerate(((1, 1), (-1, 1), (-1, -1), (1, -1))):
        cos, sin = round(np.cos(turn * np.pi / 2)), round(np.sin(turn * np.pi / 2))
        corner = np.array((x + right * (rx - round_by), y + down * (ry - round_by)))
        parts.append(quarter @ np.array(((cos, sin), (-sin, cos))) + corner)
    return np.concatenate(parts)


def corners(*points: float) -> Points:
    """Return the points ``x, y, x, y, ..`` of a line or polygon, ``[N, 2]``."""
    return np.array(points, dtype=np.float64).reshape(-1, 2)


def _star(outer: float, inner: float, count: int, *, x: float = 0.0, y: float = 0.0) -> Points:
    angle = np.arange(2 * count) * (np.pi / count) - np.pi / 2
    radius = np.where(np.arange(2 * count) % 2 == 0, outer, inner)
    return np.stack((x + radius * np.cos(angle), y + radius * np.sin(angle)), axis=1)


def _hoop(outer: float, inner: float) -> Points:
    """Return a ring as one polygon with a slit."""
    turn = np.append(np.arange(20), 0) * (2 * np.pi / 20)
    circle = np.stack((np.cos(turn), np.sin(turn)), axis=1)
    return np.concatenate((circle * outer, circle[::-1] * inner))


def _dome(rx: float, ry: float, y: float) -> Points:
    turn = np.linspace(np.pi, 2 * np.pi, 16)
    return np.stack((rx * np.cos(turn), y + ry * np.sin(turn)), axis=1)


def _leafy() -> Points:
    turn = np.arange(36) * (2 * np.pi / 36)
    wave = 1 + 0.17 * np.cos(turn * 9)
    return np.stack((1.45 * wave * np.cos(turn), 0.5 * wave * np.sin(turn)), axis=1)


def _out(points: Points, tone: Tone | Colour = "body") -> Layer:
    return Layer(points=points, tone=tone, is_silhouette=True)


def _in(points: Points, tone: Tone | Colour) -> Layer:
    return Layer(points=points, tone=tone, is_silhouette=False)


DRAWINGS: Final[dict[str, tuple[Layer, ...]]] = {
    "arm": (
        _out(corners(-1.0, 0.35, -0.8, 0.75, 0.55, 0.15, 0.55, -0.95, 0.15, -0.95, 0.15, -0.15)),
        _out(oval(0.33, 0.33, -0.85, 0.5), "dark"),
        _out(
            corners(-0.1, -0.75, -0.1, -1.3, 0.12, -1.3, 0.2, -1.0, 0.5, -1.0, 0.58, -1.3, 0.8, -1.3, 0.8, -0.75),
            _STEEL,
        ),
    ),
    "axle": (
        _out(box(1.0, 0.13, round_by=0.1), _STEEL),
        *(_out(oval(0.58, 0.58, x), _INK) for x in (-0.95, 0.95)),
        *(_in(oval(0.32, 0.32, x), "body") for x in (-0.95, 0.95)),
    ),
    "base": (
        _out(corners(-1.35, 0.5, -1.25, 0.05, -0.5, -0.1, -0.4, -0.5, 0.4, -0.5, 0.5, -0.1, 1.25, 0.05, 1.35, 0.5)),
        _in(box(1.1, 0.09, 0, 0.18, round_by=0.08), "light"),
    ),
    "block": (_out(box(0.92, 0.9)), _in(box(0.62, 0.6), "light"), _in(box(0.48, 0.46), "body")),
    "board": (
        _out(box(1.5, 0.32)),
        _in(box(1.2, 0.05, 0, -0.1, round_by=0.04), "light"),
        _in(box(1.0, 0.05, 0.1, 0.12, round_by=0.04), "dark"),
    ),
    "bread": (_out(box(1.3, 0.42, round_by=0.35), "dark"), _in(box(1.16, 0.28, round_by=0.25), "light")),
    "bulb": (
        _out(box(0.32, 0.3, 0, 0.72, round_by=0.08), _STEEL),
        _out(oval(0.72, 0.72, 0, -0.2)),
        _in(oval(0.26, 0.26, -0.22, -0.42), _CREAM),
    ),
    "bun": (
        _out(_dome(1.3, 1.1, 0.45)),
        *(_in(oval(0.13, 0.09, x, y, count=10), _CREAM) for x, y in ((-0.5, -0.1), (0.05, -0.35), (0.55, -0.05))),
    ),
    "cabin": (
        _out(corners(-0.75, 0.9, -0.75, -0.85, 0.2, -0.85, 0.55, -0.05, 1.0, 0.05, 1.0, 0.9)),
        _in(corners(-0.4, -0.05, -0.4, -0.6, 0.05, -0.6, 0.3, -0.05), _GLASS),
        _in(oval(0.14, 0.14, 0.8, 0.4, count=10), _CREAM),
    ),
    "cheese": (
        _out(corners(-1.35, 0.1, -1.3, -0.25, 1.3, -0.25, 1.35, 0.1, 0.85, 0.15, 0.5, 0.75, 0.05, 0.15)),
        *(_in(oval(0.14, 0.1, x, y, count=10), "dark") for x, y in ((-0.8, -0.08), (0.5, 0.2), (-0.1, -0.05))),
    ),
    "door": (
        _out(np.concatenate((_dome(0.68, 0.7, -0.35), corners(0.68, 1.0, -0.68, 1.0)))),
        _in(box(0.4, 0.28, 0, 0.6, round_by=0.08), "dark"),
        _in(box(0.4, 0.28, 0, -0.25, round_by=0.08), _GLASS),
        _in(oval(0.12, 0.12, 0.48, 0.2, count=10), _CREAM),
    ),
    "flag": (
        _out(box(0.1, 1.1, -0.45, 0, round_by=0.08), _WOOD),
        _out(corners(-0.35, -1.05, 0.95, -0.95, 0.6, -0.5, 0.95, -0.05, -0.35, -0.1)),
    ),
    "flower": (
        *(_out(oval(0.45, 0.45, 0.6 * np.cos(a), 0.6 * np.sin(a), count=14)) for a in np.arange(5) * 1.2566 - 1.57),
        _in(oval(0.36, 0.36), Colour(246, 206, 80)),
    ),
    "head": (
        _out(box(0.16, 0.3, -1.05, 0, round_by=0.1), "dark"),
        _out(box(0.16, 0.3, 1.05, 0, round_by=0.1), "dark"),
        _out(box(0.95, 0.8, round_by=0.3)),
        *(_in(oval(0.26, 0.26, x, -0.2, count=14), _CREAM) for x in (-0.4, 0.4)),
        *(_in(oval(0.12, 0.12, x, -0.2, count=10), _INK) for x in (-0.36, 0.44)),
        _in(box(0.45, 0.09, 0, 0.4, round_by=0.08), _INK),
    ),
    "hull": (
        _out(corners(-1.4, -0.5, 1.4, -0.5, 1.1, 0.25, 0.8, 0.5, -0.8, 0.5, -1.1, 0.25)),
        _in(corners(-1.28, -0.3, 1.28, -0.3, 1.2, -0.1, -1.2, -0.1), _CREAM),
    ),
    "lettuce": (_out(_leafy()), _in(box(1.0, 0.07, round_by=0.06), "light")),
    "plate": (_out(oval(1.6, 0.42), _CREAM), _in(oval(1.3, 0.29), "body"), _in(oval(1.1, 0.22), _CREAM)),
    "pole": (_out(box(0.26, 1.1, round_by=0.2)), _in(box(0.07, 0.85, -0.08, 0, round_by=0.06), "light")),
    "pot": (
        _out(corners(-0.85, -0.5, 0.85, -0.5, 0.6, 0.85, -0.6, 0.85)),
        _out(box(1.08, 0.24, 0, -0.62, round_by=0.1), "dark"),
        _in(corners(-0.6, -0.25, -0.35, -0.25, -0.3, 0.6, -0.42, 0.6), "light"),
    ),
    "ring": (_out(_hoop(0.88, 0.46)), _in(oval(0.1, 0.1, -0.45, -0.48, count=10), "light")),
    "roof": (
        _out(corners(-1.4, 0.7, 0, -0.85, 1.4, 0.7)),
        _in(corners(-0.95, 0.5, 0, -0.55, 0.15, -0.4, -0.6, 0.5), "light"),
    ),
    "sail": (
        _out(corners(-0.7, 1.0, -0.7, -1.15, 0.2, -0.1, 0.85, 1.0)),
        _in(corners(-0.7, 0.2, 0.38, 0.2, 0.65, 0.6, -0.7, 0.6), "light"),
    ),
    "shade": (
        _out(corners(-0.5, -0.75, 0.5, -0.75, 1.2, 0.7, -1.2, 0.7)),
        _in(corners(-0.35, -0.55, -0.1, -0.55, -0.45, 0.5, -0.85, 0.5), "light"),
    ),
    "star": (_out(_star(1.15, 0.5, 5, y=0.08)), _in(_star(0.55, 0.25, 5, x=-0.05), "light")),
    "tomato": (
        _out(oval(1.12, 0.55)),
        _in(oval(0.85, 0.38), lighten(Colour(218, 62, 50), 0.3)),
        *(_in(oval(0.18, 0.12, x, 0, count=8), _CREAM) for x in (-0.5, 0.0, 0.5)),
    ),
    "wall": (
        _out(box(1.15, 0.85, round_by=0.05)),
        *(_in(box(1.05, 0.035, 0, y, round_by=0.03), "dark") for y in (-0.45, 0.0, 0.45)),
        *(_in(box(0.035, 0.2, x, y, round_by=0.03), "dark") for x, y in ((-0.5, -0.22), (0.5, -0.22), (0, 0.22))),
    ),
    "window": (
        _out(box(0.95, 0.95, round_by=0.06)),
        *(_in(box(0.33, 0.33, x, y, round_by=0.05), _GLASS) for x in (-0.41, 0.41) for y in (-0.41, 0.41)),
    ),
}
