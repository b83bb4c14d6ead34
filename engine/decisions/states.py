"""States of the assistant as texts that the model writes at each frame, such as ``</Silence>``."""

from typing import Final

from stepscope.engine.decisions.policies import DecisionPolicy
from stepscope.engine.decisions.signals import SignalSpec

SILENCE: Final = "silence"
RESPONSE: Final = "response"
"""The state whose text opens a message."""


def parse_states(text: str) -> dict[str, str]:
    """Return the texts of states by name, from ``silence=</Silence>, response=</Response>``; spaces in a text count.

    Raises ``ValueError`` for another form, or without silence.
    """
    parts = [part.partition("=") for part in text.split(",")]
    states = {name.strip(): written for name, _, written in parts}
    if len(states) < len(parts) or not all(name and written for name, written in states.items()):
        raise ValueError(f"states must be a list such as silence=</Silence>, response=</Response>; got {text!r}")
    if SILENCE not in states:
        raise ValueError(f"states must have {SILENCE}; got {', '.join(states)}")
    return states


def list_states(policy: DecisionPolicy, text: str) -> dict[str, str]:
    """Return the states whose probabilities a policy reads; empty for one that reads none.

    Raises ``ValueError`` for states that it cannot read.
    """
    if not policy.reads_states:
        return {}
    states = parse_states(text)
    if policy.reads_reserved_text:
        return {SILENCE: states[SILENCE]}
    if RESPONSE not in states:
        raise ValueError(f"states must have {RESPONSE} for the policy {policy.name}; got {', '.join(states)}")
    return states


def describe_states(policy: DecisionPolicy, text: str) -> tuple[SignalSpec, ...]:
    """Return the signals of a policy: the probability of each state among all; one without alternatives has none."""
    states = list_states(policy, text)
    return tuple(SignalSpec(name=name, label=f"P({name})") for name in states) if len(states) > 1 else ()
