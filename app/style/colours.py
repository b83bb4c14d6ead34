"""Colours of the page and of its figures.

The palette is safe for colour-blind readers (**Source**: Okabe and Ito, 2008). Each colour has a light and a dark
value with a contrast of at least 4.5:1 as text on the theme's blocks (WCAG 2.1 AA, 1.4.3), or 3:1 if it is never used
for text (1.4.11). No meaning is conveyed by colour alone: a word or a pattern repeats it.
"""

from typing import Final, Literal, NamedTuple

Theme = Literal["light", "dark"]


class Colour(NamedTuple):
    """CSS colours for the light and the dark theme."""

    light: str
    dark: str


COLOURS: Final = {
    "speak": Colour("#1c6fab", "#58aeea"),
    "update": Colour("#b0520a", "#f0934a"),
    "matched": Colour("#0b785c", "#35bd94"),
    "mismatched": Colour("#c2331f", "#f47f6c"),
    "low": Colour("#8a5d00", "#e0ad2f"),
    "redundant": Colour("#92489a", "#cf8fd2"),
    "missed": Colour("#c2331f", "#f47f6c"),
    "reference": Colour("#646b75", "#a6adb7"),
    "user": Colour("#4a62b3", "#93a7ee"),
    "active": Colour("#a87608", "#e0ad2f"),
    "done": Colour("#0b785c", "#35bd94"),
    "latency": Colour("#7462ba", "#a99be0"),
    "playhead": Colour("#c2331f", "#f47f6c"),
}
"""Colours of texts and marks, available to CSS as ``--ss-<name>``."""
SURFACES: Final = {
    "faint": "rgba(125, 132, 142, 0.30)",
    "grid": "rgba(125, 132, 142, 0.25)",
    "shade": "rgba(125, 132, 142, 0.10)",
    "highlight": "#e0ad2f",
}
"""Backgrounds and grids of both themes; text on ``highlight`` is black."""


def css_variables() -> str:
    """Return the style sheet that declares the colours; an element of the class ``dark`` has the dark theme."""
    light = {name: colour.light for name, colour in COLOURS.items()} | SURFACES
    dark = {name: colour.dark for name, colour in COLOURS.items()}
    return f":root {{ {_declarations(light)} }}\n:root .dark {{ {_declarations(dark)} }}\n"


def _declarations(colours: dict[str, str]) -> str:
    return " ".join(f"--ss-{name}: {colour};" for name, colour in colours.items())
