"""The player as a Gradio component: one ``gr.HTML`` beside a ``gr.Video`` draws what ``app.player.payload`` packed.

The scaffold is constant and the value a string that only the script reads: texts of the model, of dialogues and of file
names are never part of a template.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gradio as gr

from app.player.increments import Streams
from app.player.modules import join_modules
from app.reviews.actions import VERDICTS

STATIC: Final = Path(__file__).parent / "static"
START: Final = "$main.mount({ element, trigger, props, server, watch });\n"
"""Starts the joined script; Gradio defines these names for it."""
CSS: Final = (STATIC / "player.css").read_text(encoding="utf-8")
"""Style of the player; colours are variables of ``app.theme``."""


def make_player(
    *,
    video_id: str,
    elem_id: str,
    streams: Streams,
    review: Callable[[dict[str, Any], gr.Request], dict[str, Any]] | None = None,
) -> Any:
    """Return the player of the ``gr.Video`` with the element id ``video_id``.

    Args:
        video_id: Element id of the video.
        elem_id: Element id of the player.
        streams: The streaming runs; the script requests the frames that it does not have yet.
        review: Answers the script's review requests (``app.review_tab.api``); None for a player without reviews.

    The player has five events:

    - ``thresholds``: a threshold was moved and released. Data: both values (``speak``, ``update``), the number of
      the request (``ticket``) and whether a run is shown (``has_run``).
    - ``shown``: the element's ``thresholds()`` have changed.
    - ``against``: whether to score by the corrected reference (``corrected``), with ``reviewer`` and ``is_blind``.
    - ``export_run``: a file of the run was requested (``content``).
    - ``inspect_frame``: prompt and tokens of a frame were requested (``frame``). The answer is the event
      ``stepscope:inspection`` of the document.
    """

    def ask(asked: dict[str, Any], request: gr.Request) -> dict[str, Any]:
        assert review is not None
        return review(asked, request)

    def follow(asked: dict[str, Any]) -> str | None:
        return streams.since(asked.get("stream"), asked.get("first"))

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
