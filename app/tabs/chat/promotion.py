"""Uses of an answered question: turns and corrections of the reference, and user turns of the next run."""

from typing import Final

from stepscope.app.core.live_run import LiveRun
from stepscope.app.tabs.chat.conversation.window import ChatWindow
from stepscope.engine.dialogue import format_user_turn
from stepscope.engine.io.files import replace_surrogates, to_json
from stepscope.engine.records import UserTurn

QUESTION: Final = "user"
"""The last question becomes a user turn of the reference."""
ANSWER: Final = "assistant"
"""The last answer becomes an assistant turn of the reference."""
CORRECTION: Final = "correction"
"""The last answer replaces the text of the assistant turn of the reference nearest to it in time."""


def propose_turn(kind: str, window: ChatWindow | None, live: LiveRun | None) -> str:
    """Return the last question or answer as JSON, for the player's forms of the reference; empty without one.

    Args:
        kind: ``QUESTION``, ``ANSWER`` or ``CORRECTION``.
        window: The conversation.
        live: The displayed run.
    """
    time_s = _find_time(window, live)
    if window is None or time_s is None:
        return ""
    turn = window.answered[-1]
    text = turn.question if kind == QUESTION else turn.answer
    return to_json({"as": kind, "text": " ".join((text or "").split()), "time_s": time_s})


def add_user_turn(window: ChatWindow | None, live: LiveRun | None, typed: str | None) -> tuple[str, str]:
    """Add the last question to the user turns of the next run; return them and a status."""
    time_s, lines = _find_time(window, live), replace_surrogates(typed or "").splitlines()
    if window is None or time_s is None:
        return "\n".join(lines), "Ask a question first."
    line = format_user_turn(UserTurn(time_s=time_s, text=" ".join(window.answered[-1].question.split())))
    if line in lines:
        return "\n".join(lines), "The next run asks this already: see User turns, left."
    return "\n".join([*filter(str.strip, lines), line]), "Added to User turns, left: Run streams the video with it."


def _find_time(window: ChatWindow | None, live: LiveRun | None) -> float | None:
    """Return the time of the last answered question; None without one."""
    run = live.run if live is not None else None
    if window is None or not window.answered or run is None or not run.outputs:
        return None
    return window.time_s
