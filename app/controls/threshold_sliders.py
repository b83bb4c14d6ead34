"""The sliders of the thresholds of a page, a tab or a form: speak and update, or theta of a rule that has it.

Handlers take speak and update alone. The slider of theta writes 1 - theta to that of speak, which is hidden then.
"""

from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.controls.widgets import THRESHOLD_SLIDER
from stepscope.engine.config import StreamConfig
from stepscope.engine.decisions.policies import DecisionPolicy, convert_theta

THETA_INFO: Final = "The assistant stays silent while the probability of its silent token reaches theta."
_CONVERT: Final = "Number((1 - value).toFixed(12))"
_READ_THETA_JS: Final = f"(value) => {_CONVERT}"
_PREVIEW_THETA_JS: Final = f"""(value) => {{
    const speak = {_CONVERT};
    document.dispatchEvent(new CustomEvent('stepscope:threshold', {{detail: {{speak}}}}));
    return speak;
}}"""
_SHOW_THETA_JS: Final = f"""(value) =>
    document.activeElement?.closest('#%s') ? {{__type__: 'update'}} : {_CONVERT}"""
"""Theta of the speak threshold; the slider that is in use stays as it is."""


class SliderIds(NamedTuple):
    """Element ids of the sliders."""

    speak: str
    update: str
    theta: str


class ThresholdSliders(NamedTuple):
    """The sliders, or their updates."""

    speak: Any
    update: Any
    theta: Any


def make_threshold_sliders(config: StreamConfig, ids: SliderIds, *, is_previewed: bool = False) -> ThresholdSliders:
    """Lay out the sliders with the thresholds of the settings.

    With ``is_previewed`` they are those of the player, whose style sheet shows the sliders of the run's rule, and theta
    is previewed while it moves. Otherwise the policy of the settings shows them; see ``show_sliders``.
    """
    shown = ThresholdSliders(True, True, True) if is_previewed else _shown(config.policy)
    speak = gr.Slider(
        value=config.speak_threshold,
        label="Speak threshold",
        elem_id=ids.speak,
        visible=shown.speak,
        **THRESHOLD_SLIDER,
    )
    update = gr.Slider(
        value=config.update_threshold,
        label="Update threshold",
        elem_id=ids.update,
        visible=shown.update,
        **THRESHOLD_SLIDER,
    )
    theta = gr.Slider(
        value=convert_theta(config.speak_threshold),
        label="Theta",
        info=THETA_INFO,
        elem_id=ids.theta,
        visible=shown.theta,
        **THRESHOLD_SLIDER,
    )
    js = _PREVIEW_THETA_JS if is_previewed else _READ_THETA_JS
    gr.on([theta.input, theta.release], None, theta, speak, js=js, api_visibility="private")
    speak.change(None, speak, theta, js=_SHOW_THETA_JS % ids.theta, api_visibility="private")
    return ThresholdSliders(speak, update, theta)


def show_sliders(policy: DecisionPolicy) -> ThresholdSliders:
    """Return the updates that show the sliders of a policy and hide the others."""
    return ThresholdSliders(*(gr.Slider(visible=is_shown) for is_shown in _shown(policy)))


def _shown(policy: DecisionPolicy) -> ThresholdSliders:
    return ThresholdSliders(not policy.has_theta, policy.has_updates, policy.has_theta)
