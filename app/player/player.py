"""The player as a Gradio component: one ``gr.HTML`` that draws what ``app.player.pack`` packed beside a ``gr.Video``.

The scaffold is constant and the value a string that only the script reads: texts of the model, of dialogues and of file
names are never part of a template. The scripts share one scope and are joined in the order of ``SCRIPTS``.
"""

from pathlib import Path
from typing import Any, Final

import gradio as gr

HERE: Final = Path(__file__).parent
SCRIPTS: Final = ("data.js", "lanes.js", "panels.js", "screen.js", "player.js", "acts.js", "hands.js")
CSS: Final = (HERE / "player.css").read_text(encoding="utf-8")
"""Style of the page around the player; colours are variables of ``app.palette``."""


def make_player(*, video_id: str, elem_id: str) -> Any:
    """Return the player of the ``gr.Video`` with the element id ``video_id``.

    It has one event, ``thresholds``: both thresholds (``speak``, ``update``) once the hand that moved one lets go.
    """
    return gr.HTML(
        value="",
        html_template=(HERE / "player.html").read_text(encoding="utf-8"),
        js_on_load="".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS),
        apply_default_css=False,
        video_id=video_id,
        elem_id=elem_id,
        padding=False,
    )
