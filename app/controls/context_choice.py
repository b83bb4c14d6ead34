"""The choice of the context strategy of a run: in the player, in the tab Live and in the form of a new run."""

from typing import Any, Final, get_args

import gradio as gr

from stepscope.engine.config import ContextStrategy, StreamConfig

STRATEGIES: Final[dict[ContextStrategy, str]] = {
    "refresh": "refresh: a new prompt with the current states",
    "drop-all": "drop-all: nothing",
    "drop-middle": "drop-middle: beginning and last tokens",
    "sink-window": "sink-window: prompt and last tokens, renumbered",
    "summarize-and-drop": "summarize-and-drop: a prompt with a summary",
    "none": "none: it is never shortened",
}
"""The context strategies with their words on the page."""


def make_context_choice(config: StreamConfig, *, elem_id: str) -> gr.Dropdown:
    """Lay out the choice, with the strategy of the settings."""
    return gr.Dropdown(
        [(words, name) for name, words in STRATEGIES.items()],
        value=config.context_strategy,
        label="Context",
        info=f"when it is full ({config.refresh_at:,} tokens), the next one begins with",
        elem_id=elem_id,
    )


def read_strategy(value: Any, default: ContextStrategy) -> ContextStrategy:
    """Return the strategy of this name, the default for None. Raises ``ValueError`` for an unknown name."""
    choices: tuple[ContextStrategy, ...] = get_args(ContextStrategy)
    if value is None:
        return default
    for name in choices:
        if name == value:
            return name
    raise ValueError(f"the context must be one of {', '.join(choices)}; got {str(value)[:40]!r}")
