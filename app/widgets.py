"""How events and lines of all tabs are wired."""

from typing import Any, Final

import gradio as gr

AT_ONCE: Final[dict[str, Any]] = {"concurrency_limit": None, "show_progress": "hidden", "api_visibility": "private"}
"""For events that never wait for another's end."""
MODEL_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "model", "concurrency_limit": 1, "api_visibility": "private"}
"""For events that need the model: one at a time, the others wait in a queue."""
SWEEP_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "sweep", "concurrency_limit": 1, "api_visibility": "private"}
"""For sweeps, which load a model of their own and last long: one at a time, and no run waits for them."""
THRESHOLD_SLIDER: Final[dict[str, Any]] = {
    "minimum": 0,
    "maximum": 1,
    "value": 0.5,
    "step": "any",
    "elem_classes": "threshold",
}
"""A slider of a threshold, with no step that would round it.

By its class the player's script finds the box and refuses what is no threshold.
"""
PREVIEW_THRESHOLDS_JS: Final = """(speak, update) => {
    document.dispatchEvent(new CustomEvent('stepscope:threshold', {detail: {speak, update}}));
}"""
"""Script of an event with both sliders as inputs: the player previews them, then asks for the exact run."""
_STATUS_LINE_JS = """
const line = () => element.querySelector('.status-line');
const show = () => { line().textContent = props.value ?? ''; };
watch('value', show);
show();
"""


def read_event(event: gr.EventData, name: str) -> Any:
    """Return a value that the player's script sent with an event; None where it sent none."""
    try:
        return getattr(event, name)
    except (AttributeError, TypeError):  # not even a mapping was sent
        return None


def make_status_line(elem_id: str, *, value: str = "") -> gr.HTML:
    """Return a status line: a live region whose value is plain text, never markup.

    The scaffold is constant and the text enters as ``textContent``, so file names and errors in it stay text.
    """
    return gr.HTML(
        value=value,
        html_template='<p class="status-line" role="status" aria-live="polite"></p>',
        js_on_load=_STATUS_LINE_JS,
        apply_default_css=False,
        elem_id=elem_id,
        padding=False,
    )
