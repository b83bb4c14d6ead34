"""Colours of markers and cells: single ones, one for each, or from a scale."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from plotly.colors import get_colorscale

from app.figures.svg.source import at

Scale = Sequence[tuple[float, str]]

_HEX: Final = re.compile(r"#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})")
_RGB: Final = re.compile(r"rgba?\(\s*([\d.]+)\s*,\s*([\d.]+)\s*,\s*([\d.]+).*")
DEFAULT_SCALE: Final = "Viridis"


def read_scale(options: Mapping[str, Any]) -> Scale:
    """Return the colour scale of a marker or a heat map, from 0 to 1."""
    scale = options.get("colorscale") or DEFAULT_SCALE
    pairs = get_colorscale(scale) if isinstance(scale, str) else scale
    if options.get("reversescale"):
        pairs = [[1 - float(place), colour] for place, colour in reversed(pairs)]
    return [(float(place), str(colour)) for place, colour in pairs]


def colour_at(scale: Scale, share: float) -> str:
    """Return the colour of a scale at a share from 0 to 1; shares outside have the colour of the end."""
    share = min(1.0, max(0.0, share))
    for (low, first), (high, second) in itertools.pairwise(scale):
        if share <= high:
            part = (share - low) / (high - low) if high > low else 1.0
            mixed = (round(a + part * (b - a)) for a, b in zip(_channels(first), _channels(second), strict=True))
            return "#" + "".join(f"{channel:02x}" for channel in mixed)
    return scale[-1][1]


def colours_of(options: Mapping[str, Any], count: int, *, default: str) -> list[str]:
    """Return the colour of each marker or bar; numbers are looked up in the colour scale."""
    given = options.get("color")
    values = [at(given, number, default) for number in range(count)]
    numbers = [value for value in values if isinstance(value, int | float)]
    if not numbers:
        return [str(value) for value in values]
    low, high = options.get("cmin", min(numbers)), options.get("cmax", max(numbers))
    scale = read_scale(options)
    return [
        colour_at(scale, (value - low) / ((high - low) or 1)) if isinstance(value, int | float) else str(value)
        for value in values
    ]


def _channels(colour: str) -> tuple[float, float, float]:
    """Return red, green and blue of a colour of a scale. Raises ``ValueError`` for a named colour."""
    if match := _HEX.fullmatch(colour):
        return int(match[1], 16), int(match[2], 16), int(match[3], 16)
    if match := _RGB.fullmatch(colour):
        return float(match[1]), float(match[2]), float(match[3])
    raise ValueError(f"a colour scale must have colours such as #1c6fab; got {colour!r}")
