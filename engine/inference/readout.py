"""Reads decisions from hidden states: probabilities of the two heads, or of the silent token."""

from torch import Tensor

from engine.config import DecisionPolicy
from engine.control.policies import Decision
from engine.model.smolvlm import StreamingModel


def read_decisions(
    model: StreamingModel, hidden: Tensor, *, policy: DecisionPolicy, silent_id: int | None = None
) -> list[Decision]:
    """Return the decisions at ``N`` positions.

    Args:
        model: The model with its heads.
        hidden: Last hidden states ``[N, D]``.
        policy: Source of the probabilities.
        silent_id: The token that means silence, for the two token policies.

    Raises:
        ValueError: A token policy without ``silent_id``.
    """
    if policy == "heads":
        speak, update = model.decision_logits(hidden)
        pairs = zip(speak.sigmoid().tolist(), update.sigmoid().tolist(), strict=True)
        return [Decision(speak_prob=s, update_prob=u) for s, u in pairs]
    if silent_id is None:
        raise ValueError(f"the policy {policy} needs a checkpoint that names its silent token")
    return [Decision(speak_prob=1 - silent, update_prob=0.0) for silent, _ in _token_probs(model, hidden, silent_id)]


def read_silence(
    model: StreamingModel, hidden: Tensor, *, policy: DecisionPolicy, silent_id: int | None = None
) -> list[tuple[float, float]]:
    """Return the probabilities of silence and of its strongest rival at ``N`` positions.

    The rival is speech, or for the token policies the most likely token except the silent one. Arguments as in
    ``read_decisions``.
    """
    if policy == "heads" or silent_id is None:
        decisions = read_decisions(model, hidden, policy=policy, silent_id=silent_id)
        return [(1 - decision.speak_prob, decision.speak_prob) for decision in decisions]
    return _token_probs(model, hidden, silent_id)


def _token_probs(model: StreamingModel, hidden: Tensor, silent_id: int) -> list[tuple[float, float]]:
    """Return the probability of the silent token and the highest of all remaining tokens, per position."""
    probs = model.token_logits(hidden).softmax(-1)
    silent = probs[:, silent_id].tolist()
    probs[:, silent_id] = 0
    return list(zip(silent, probs.amax(-1).tolist(), strict=True))
