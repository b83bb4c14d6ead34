"""The player as a Gradio component: one ``gr.HTML`` that draws what ``app.player.pack`` packed beside a ``gr.Video``.

The scaffold is constant and the value a string that only the script reads: texts of the model, of dialogues and of file
names are never part of a template. The scripts share one scope and are joined in the order of ``SCRIPTS``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gradio as gr

from app.reviews.actions import VERDICTS

HERE: Final = Path(__file__).parent
SCRIPTS: Final = (
    "data.js",
    "shapes.js",
    "axis.js",
    "lanes.js",
    "review_lanes.js",
    "panels.js",
    "screen.js",
    "player.js",
    "outbox.js",
    "review.js",
    "corrections.js",
    "acts.js",
    "hands.js",
)
CSS: Final = (HERE / "player.css").read_text(encoding="utf-8")
"""Style of the player; colours are variables of ``app.palette``."""


def make_player(
    *, video_id: str, elem_id: str, review: Callable[[dict[str, Any], gr.Request], dict[str, Any]] | None = None
) -> Any:
    """Return the player of the ``gr.Video`` with the element id ``video_id``.

    Args:
        video_id: Element id of the video.
        elem_id: Its own.
        review: Answers what the script asks of the reviews (``app.desk.answers``); None leaves reviewing out.

    It has two events: ``thresholds``, both thresholds (``speak``, ``update``) once the hand that moved one lets go, and
    ``against``, whether to judge by the corrected reference (``corrected``), and who asks (``reviewer``, ``is_blind``).
    """

    def ask(asked: dict[str, Any], request: gr.Request) -> dict[str, Any]:
        assert review is not None
        return review(asked, request)

    return gr.HTML(
        value="",
        html_template=(HERE / "player.html").read_text(encoding="utf-8"),
        js_on_load="".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS),
        apply_default_css=False,
        server_functions=[ask] if review else None,
        video_id=video_id,
        can_review=review is not None,
        verdicts=list(VERDICTS),
        elem_id=elem_id,
        padding=False,
    )
