"""Inputs of the settings of a run that several tabs share: thresholds, context strategy, and the rule of a signal.

Handlers take the thresholds to speak and to update alone. The slider of theta, of rules that have it, writes 1 - theta
to that of speak, which is hidden then.
"""

from functools import partial
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.controls.widgets import Updates, run_script
from stepscope.engine.config import ContextStrategy, StreamConfig
from stepscope.engine.decisions.policies import POLICIES, DecisionPolicy, convert_theta
from stepscope.engine.io.files import strip_text
from stepscope.eval.runs.imports.system_output import SignalRule

GOAL_HINT: Final = "for example: build the toy truck"
STEPS_HINT: Final = "for example:\nS1: attach the wheel\nS2: put on the roof"
THETA_INFO: Final = "The assistant stays silent while the probability of its silent token reaches theta."


class ThresholdSliders(NamedTuple):
    """The sliders, their updates, or their element ids."""

    speak: Any
    update: Any
    theta: Any


def make_threshold_sliders(
    config: StreamConfig, ids: ThresholdSliders, *, is_previewed: bool = False
) -> ThresholdSliders:
    """Lay out the sliders with the thresholds of the settings.

    With ``is_previewed`` they are those of the player, whose style sheet shows the sliders of the run's rule, and theta
    is previewed while it moves. Otherwise the policy of the settings shows them; see ``show_sliders``.
    """
    shown = ThresholdSliders(True, True, True) if is_previewed else _shown(config.policy)

    def add(head: str, value: float, label: str, **options: Any) -> Any:
        options |= {"minimum": 0, "maximum": 1, "step": "any"}  # no step that would round the value
        options |= {"elem_id": getattr(ids, head), "visible": getattr(shown, head)}
        # the player's script validates the number box of this class
        return gr.Slider(value=value, label=label, elem_classes="threshold", **options)

    speak = add("speak", config.speak_threshold, "Speak threshold")
    update = add("update", config.update_threshold, "Update threshold")
    theta = add("theta", convert_theta(config.speak_threshold), "Theta", info=THETA_INFO)
    read = "previewTheta" if is_previewed else "readTheta"
    run_script(partial(gr.on, [theta.input, theta.release]), read, theta, speak)
    run_script(speak.change, "showTheta", speak, theta, ids.theta)
    return ThresholdSliders(speak, update, theta)


def show_sliders(policy: DecisionPolicy) -> Updates:
    """Return the updates that show the sliders of a policy and hide the others."""
    shown = _shown(policy)._asdict()
    return Updates(**{name: gr.Slider(visible=is_shown) for name, is_shown in shown.items()})


def _shown(policy: DecisionPolicy) -> ThresholdSliders:
    return ThresholdSliders(not policy.has_theta, policy.has_updates, policy.has_theta)


STRATEGIES: Final[dict[ContextStrategy, str]] = {
    "refresh": "refresh: a new prompt with the current states",
    "drop-all": "drop-all: nothing",
    "drop-middle": "drop-middle: beginning and last tokens",
    "sink-window": "sink-window: prompt and last tokens, renumbered",
    "summarize-and-drop": "summarize-and-drop: a prompt with a summary",
    "none": "none: it is never shortened",
}


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
    if value is None:
        return default
    for name in STRATEGIES:
        if name == value:
            return name
    raise ValueError(f"the context must be one of {', '.join(STRATEGIES)}; got {str(value)[:40]!r}")


class RuleBoxes(NamedTuple):
    """The inputs of a rule, in the order of ``read_rule``."""

    signal: Any
    policy: Any
    threshold: Any


def make_rule_boxes(prefix: str) -> RuleBoxes:
    """Lay out the inputs of a rule; their ids begin with ``prefix``."""
    signal = gr.Dropdown(
        [],
        label="Signal that decides",
        info="if the files hold no threshold, as those of MMDuet",
        allow_custom_value=True,
        interactive=True,
        elem_id=f"{prefix}_signal",
    )
    policies = [(f"{name}: {rule.words}", name) for name, rule in POLICIES.items() if rule.source == "signal"]
    policy = gr.Dropdown(policies, value="above", label="Rule", interactive=True, elem_id=f"{prefix}_policy")
    threshold = gr.Textbox(
        label="Threshold (optional)",
        placeholder="none",
        max_lines=1,
        elem_id=f"{prefix}_threshold",
    )
    return RuleBoxes(signal=signal, policy=policy, threshold=threshold)


def read_rule(signal: str | None, policy: str, threshold: str | None) -> SignalRule | None:
    """Return the rule of the inputs; None without a threshold.

    Raises ``ValueError`` for an unknown policy, or a threshold that is no number with a point or a comma.
    """
    text = strip_text(threshold or "")
    if not text:
        return None
    if policy not in POLICIES or POLICIES[policy].source != "signal":
        raise ValueError(f"there is no rule {policy!r}; choose one of the list")
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        raise ValueError(f"the threshold must be a number; got {text:.40}") from None
    return SignalRule(signal=strip_text(signal or ""), policy=policy, threshold=value)
