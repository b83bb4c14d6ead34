"""Theme and style sheet of the page."""

from pathlib import Path
from typing import Final

import gradio as gr

from stepscope.app.style.colours import css_variables


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
        checkbox_border_color_dark="*neutral_500",
        input_placeholder_color="*neutral_500",
        input_placeholder_color_dark="*neutral_400",
    )


_SHEETS: Final = ("app.css", "workbench.css")
CSS: Final = css_variables() + "".join((Path(__file__).parent / name).read_text(encoding="utf-8") for name in _SHEETS)
"""Style sheet of the page except the player."""
