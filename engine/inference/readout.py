"""Reads decisions from hidden states: probabilities of the two heads, or of the token that means silence."""

from torch import Tensor

from engine.config import DecisionPolicy
from engine.control.policies import Decision
from engine.model.smolvlm import StreamingModel


def read_decisions(
    model: StreamingModel, hidden: Tensor, *, policy: DecisionPolicy, silent_id: int | None = None
) -> list[Decision]:
    """Read the decisions at ``N`` positions.

    Args:
        model: The model with its heads.
        hidden: Last hidden states ``[N, D]``.
        policy: Where the probabilities come from.
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
    return [Decision(speak_prob=1 - silent, update_prob=0.0) for silent, _ in _read_tokens(model, hidden, silent_id)]


def read_silence(
    model: StreamingModel, hidden: Tensor, *, policy: DecisionPolicy, silent_id: int | None = None
) -> list[tuple[float, float]]:
    """Read the probabilities of silence and of its strongest rival at ``N`` positions.

    The rival is to speak, or for the token policies the likeliest other token. Arguments as in ``read_decisions``.
    """
    if policy == "heads" or silent_id is None:
        decisions = read_decisions(model, hidden, policy=policy, silent_id=silent_id)
        return [(1 - decision.speak_prob, decision.speak_prob) for decision in decisions]
    return _read_tokens(model, hidden, silent_id)


def _read_tokens(model: StreamingModel, hidden: Tensor, silent_id: int) -> list[tuple[float, float]]:
    probs = model.token_logits(hidden).softmax(-1)
    silent = probs[:, silent_id].tolist()
    probs[:, silent_id] = 0
    return list(zip(silent, probs.amax(-1).tolist(), strict=True))
