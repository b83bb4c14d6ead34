"""The player as a Gradio component: one ``gr.HTML`` next to a ``gr.Video`` renders the data of ``payload``.

The template is constant, and the value is a JSON string that only the script reads. Texts of the model, of dialogues
and of file names are never part of a template.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gradio as gr

from app.player.display.increments import ActiveStreams
from app.player.display.modules import join_modules
from app.reviews.actions import VERDICTS

STATIC: Final = Path(__file__).parents[1] / "static"
START: Final = "$main.mount({ element, trigger, props, server, watch });\n"
"""Starts the joined script; Gradio defines these names for it."""
CSS: Final = (STATIC / "player.css").read_text(encoding="utf-8")
"""Style sheet of the player; its colours are the variables of ``app.theme``."""


def make_player(
    *,
    video_id: str,
    elem_id: str,
    streams: ActiveStreams,
    review: Callable[[dict[str, Any], gr.Request], dict[str, Any]] | None = None,
) -> Any:
    """Return the player of the ``gr.Video`` with the element id ``video_id``.

    Args:
        video_id: Element id of the video.
        elem_id: Element id of the player.
        streams: The active streams, from which the script fetches new frames.
        review: Handles review requests of the script (``app.review_tab.api``); None disables reviewing.

    Events and their data:

    - ``thresholds``: both sliders on release (``speak``, ``update``), the request's number (``ticket``), and whether a
      run is shown (``has_run``).
    - ``shown``: the element's ``thresholds()`` have changed.
    - ``against``: whether to score against the corrected reference (``corrected``), for whom (``reviewer``,
      ``is_blind``).
    - ``export_run``: the requested file of the run (``content``).
    - ``inspect_frame``: the frame to inspect (``frame``), answered by the document's event ``stepscope:inspection``.
    """

    def ask(request_data: dict[str, Any], request: gr.Request) -> dict[str, Any]:
        assert review is not None
        return review(request_data, request)

    def follow(position: dict[str, Any]) -> str | None:
        return streams.since(position.get("stream"), position.get("first"))

    return gr.HTML(
        value="",
        html_template=(STATIC / "player.html").read_text(encoding="utf-8"),
        js_on_load=join_modules(STATIC) + START,
        apply_default_css=False,
        server_functions=[follow, *([ask] if review else [])],
        video_id=video_id,
        can_review=review is not None,
        verdicts=list(VERDICTS),
        elem_id=elem_id,
        padding=False,
    )
