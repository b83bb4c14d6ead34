"""The inputs of the rule by which a signal of imported results decides, where their files hold no threshold."""

from typing import Any, NamedTuple

import gradio as gr

from stepscope.engine.decisions.policies import POLICIES
from stepscope.engine.io.files import strip_text
from stepscope.eval.runs.imports.signals import SignalRule


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
