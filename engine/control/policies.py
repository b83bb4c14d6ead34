"""Decision policies: how the two probabilities of a frame are read, and when they trigger.

- ``heads``: sigmoids of the two binary heads.
- ``silent-token`` (VideoLLM-online): silent iff P(silent token) >= theta. So ``speak_prob = 1 - P``, and the threshold
  here is ``1 - theta``. There are no updates.
- ``not-talk`` (ProAssist): silent iff P(not talk) > theta. As above, but equality triggers speech.
"""

from dataclasses import dataclass

from engine.config import DecisionPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The two probabilities at one position."""

    speak_prob: float
    """Probability of speaking, in [0, 1]."""
    update_prob: float
    """Probability of a state update, in [0, 1]."""


def triggers(prob: float, threshold: float, *, policy: DecisionPolicy) -> bool:
    """Return whether a probability triggers at a threshold, which is used exactly as set."""
    return prob >= threshold if policy == "not-talk" else prob > threshold


def triggers_update(prob: float, threshold: float, *, policy: DecisionPolicy) -> bool:
    """Return whether an update triggers: never with the token policies, which have no update probability."""
    return policy == "heads" and triggers(prob, threshold, policy=policy)
