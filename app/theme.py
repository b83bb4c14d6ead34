"""Colours and theme of the page.

The palette is safe for colour-blind readers (**Source**: Okabe and Ito, 2008). Each colour has a light and a dark
value with a contrast of at least 4.5:1 as text on the theme's blocks (WCAG 2.1 AA, 1.4.3), or 3:1 if it is never used
for text (1.4.11). No meaning is conveyed by colour alone: a word or a pattern repeats it.
"""

from pathlib import Path
from typing import Final, NamedTuple

import gradio as gr


class Colour(NamedTuple):
    """CSS colours for the light and the dark theme."""

    light: str
    dark: str


COLOURS: Final = {
    "speak": Colour("#1c6fab", "#58aeea"),
    "update": Colour("#b0520a", "#f0934a"),
    "matched": Colour("#0b785c", "#35bd94"),
    "mismatched": Colour("#c2331f", "#f47f6c"),
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
NON_TEXT_COLOURS: Final = ("active",)
"""Colours that are never used for text."""
SURFACES: Final = {
    "faint": "rgba(125, 132, 142, 0.30)",
    "grid": "rgba(125, 132, 142, 0.25)",
    "shade": "rgba(125, 132, 142, 0.10)",
    "highlight": "#e0ad2f",
}
"""Backgrounds and grids of both themes; text on ``highlight`` is black."""
CHART_COLOURS: Final = {"speak": "#2b83c6", "update": "#cf6a12", "missed": "#d0402b", "redundant": "#a557a5"}
"""Chart colours that are the same in both themes, with at least 3:1 on either background."""


def make_theme() -> gr.themes.Base:
    """Return Gradio's default theme with a blue accent, readable hints, and a font whose bold has all glyphs."""
    return gr.themes.Default(
        primary_hue=gr.themes.colors.blue,
        font=(gr.themes.LocalFont("Source Sans Pro", weights=(400, 700)), "ui-sans-serif", "system-ui", "sans-serif"),
    ).set(
        color_accent="*primary_700",
        slider_color="*primary_600",
        slider_color_dark="*primary_400",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_hover_dark="*primary_800",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_400",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_400",
        input_placeholder_color="*neutral_500",
        input_placeholder_color_dark="*neutral_400",
    )


def _css_variables() -> str:
    light = {name: colour.light for name, colour in COLOURS.items()} | SURFACES
    dark = {name: colour.dark for name, colour in COLOURS.items()}
    return f":root {{ {_declarations(light)} }}\n:root .dark {{ {_declarations(dark)} }}\n"


def _declarations(colours: dict[str, str]) -> str:
    return " ".join(f"--ss-{name}: {colour};" for name, colour in colours.items())


CSS: Final = _css_variables() + (Path(__file__).parent / "app.css").read_text(encoding="utf-8")
"""Style sheet of the page except the player."""
