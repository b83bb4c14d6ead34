"""The player and charts as Gradio components, each one ``gr.HTML``.

The templates are constant, and a value is a JSON string that only the script reads: for the player, next to a
``gr.Video``, the data of ``payload``; for a chart a figure in both themes, which Plotly draws. Texts of the model, of
dialogues and of file names are never part of a template. ``gr.Plot`` has no clicks, and loads a Plotly of its own.
"""

import base64
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

import gradio as gr
import plotly.graph_objects as go

from stepscope.app.controls.widgets import MODULES
from stepscope.app.figures.charts.layout import draw_themes
from stepscope.app.player.commands import COMMANDS
from stepscope.app.review_store.actions import UNFIT_VERDICTS
from stepscope.app.server.routes import ANSWER_URL, PICTURE_URL, PLOTLY_URL, SPEECH_URL
from stepscope.app.style.colours import Theme
from stepscope.app.window.increments import ActiveStreams
from stepscope.engine.config import StreamConfig
from stepscope.engine.io.files import to_json
from stepscope.eval.annotations.corrected_samples import ASPECTS
from stepscope.eval.annotations.corrections import VERDICTS

_DEFAULTS: Final = StreamConfig()
STATIC: Final = Path(__file__).parent / "static"
STYLES: Final = ("stage.css", "player.css")
CSS: Final = "".join((STATIC / name).read_text(encoding="utf-8") for name in STYLES)
"""Style sheets of the player; their colours are the variables of ``app.style.theme``."""


def make_player(
    *,
    video_id: str,
    elem_id: str,
    streams: ActiveStreams,
    review: Callable[..., dict[str, Any]] | None = None,
    hear: Callable[[Any], tuple[float, bytes] | None] | None = None,
    hint: str | None = None,
    config: StreamConfig = _DEFAULTS,
    model_digest: str = "",
    is_blind: bool = False,
    model: str = "",
) -> Any:
    """Return the player of the ``gr.Video`` with the element id ``video_id``.

    Args:
        video_id: Element id of the video.
        elem_id: Element id of the player.
        streams: The active streams, from which the script fetches new frames.
        review: Handles review requests of the script (``app.player.review``); None disables reviewing.
        hear: Returns the peaks per second of the sound of a served video, and the peaks in bytes, by its path; None for
            a player without a waveform.
        hint: Text before the first run, of a second player on the page; it leaves the page's address, the tour and
            exact runs to the first one.
        config: The settings of the page's runs: the sliders of its policy are shown before the first run, and the
            address of a video without a run has the thresholds that differ from its own.
        model_digest: Digest of the page's model, which can continue its own runs only; empty on a second player.
        is_blind: Whether every reviewer is blind: reasons are shown after a verdict only.
        model: The page's model in words.

    ``app.player.commands`` has its events and their arguments.
    """

    def ask(request_data: dict[str, Any], request: gr.Request) -> dict[str, Any]:
        assert review is not None
        return review(request_data, request=request)

    def follow(position: dict[str, Any]) -> str | None:
        return streams.since(position.get("stream"), position.get("first"))

    def listen(asked: dict[str, Any]) -> dict[str, Any] | None:
        assert hear is not None
        found = hear(asked.get("name"))
        return found and {"per_s": found[0], "peaks": base64.b64encode(found[1]).decode()}

    settings = {
        "video_id": video_id,
        "can_review": review is not None,
        "is_blind": is_blind,
        "can_run": hint is None,
        "hint": hint,
        "has_theta": config.policy.has_theta,
        "thresholds": {"speak": config.speak_threshold, "update": config.update_threshold},
        "model_digest": model_digest,
        "model": model,
        "verdicts": list(VERDICTS),
        "unfit_verdicts": UNFIT_VERDICTS,
        "aspects": ASPECTS,
        "plotly_url": PLOTLY_URL,
        "picture_url": PICTURE_URL,
        "speech_url": SPEECH_URL if hint is None else None,
        "answer_url": ANSWER_URL,
    }
    return gr.HTML(
        value="",
        patch="",
        html_template=(STATIC / "player.html").read_text(encoding="utf-8"),
        js_on_load=MODULES.make_script("main.js", events=COMMANDS, settings=settings),
        apply_default_css=False,
        server_functions=[follow, *([ask] if review else []), *([listen] if hear else [])],
        elem_id=elem_id,
        padding=False,
    )


_numbers = count()


def patch_player(
    *,
    inspection: Mapping[str, Any] | None = None,
    evidence: Mapping[str, Any] | None = None,
    turn: Mapping[str, Any] | None = None,
    thresholds: Mapping[str, Any] | None = None,
    choices: Mapping[str, Any] | None = None,
) -> Any:
    """Return an update of the player that leaves its run: what the server sends besides, by name.

    Args:
        inspection: The prompt and tokens of a frame; see ``app.player.inspection``.
        evidence: The evidence of the run; see ``app.player.inspection``.
        turn: A turn for the player's form of the reference: ``as``, ``text`` and ``time_s``.
        thresholds: Thresholds to preview and then run: ``speak`` and ``update`` as far as they are set, and ``used``
            with the name of a ``run`` and the thresholds of its named ``signals``.
        choices: The ``part`` of the head and what was ``found`` for its menu; see ``list_choices``.
    """
    sent = {"inspection": inspection, "evidence": evidence, "turn": turn, "thresholds": thresholds}
    sent["choices"] = choices
    known = {name: value for name, value in sent.items() if value is not None}
    return gr.HTML(patch=to_json({"number": next(_numbers), **known}))  # without a number, an equal one would be none


def make_chart(elem_id: str, *, hint: str = "") -> Any:
    """Return an empty chart, whose values are those of ``pack_chart``.

    ``hint`` states the effect of a click on a point, if there is one. The event ``pick`` then has the ``customdata`` of
    the point as ``point``.
    """
    return gr.HTML(
        value="",
        html_template='<div class="ss-chart"></div>',
        js_on_load=MODULES.make_script(
            "charts/chart.js", events=["pick"], settings={"plotly_url": PLOTLY_URL, "hint": hint}
        ),
        apply_default_css=False,
        elem_id=elem_id,
        elem_classes=["pickable"] if hint else [],
        padding=False,
        min_width=300,
    )


def pack_chart(draw: Callable[[Theme], go.Figure], *, revision: str) -> str:
    """Return a figure for both themes as JSON. The zoom of the chart lasts as long as ``revision`` is the same."""
    return to_json({**draw_themes(draw), "revision": revision})
