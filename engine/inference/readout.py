"""Reads decisions from hidden states: probabilities of the two heads, or of the silent token.

``silent_id`` is the token to read, or None to read the heads; ``DecisionPolicy.token_to_read`` returns it.
"""

from torch import Tensor

from engine.control.requests import Decision
from engine.model.smolvlm import StreamingModel


def read_decisions(model: StreamingModel, hidden: Tensor, *, silent_id: int | None) -> list[Decision]:
    """Return the decisions at ``N`` positions from last hidden states ``[N, D]``."""
    if silent_id is None:
        speak, update = model.decision_logits(hidden)
        pairs = zip(speak.sigmoid().tolist(), update.sigmoid().tolist(), strict=True)
        return [Decision(speak_prob=s, update_prob=u) for s, u in pairs]
    return [Decision(speak_prob=1 - silent, update_prob=0.0) for silent, _ in _token_probs(model, hidden, silent_id)]


def read_silence(model: StreamingModel, hidden: Tensor, *, silent_id: int | None) -> list[tuple[float, float]]:
    """Return the probabilities of silence and of its strongest rival at ``N`` positions.

    The rival is speech, or with a silent token the most likely one of all other tokens. Arguments as in
    ``read_decisions``.
    """
    if silent_id is None:
        decisions = read_decisions(model, hidden, silent_id=None)
        return [(1 - decision.speak_prob, decision.speak_prob) for decision in decisions]
    return _token_probs(model, hidden, silent_id)


def _token_probs(model: StreamingModel, hidden: Tensor, silent_id: int) -> list[tuple[float, float]]:
    """Return the probability of the silent token and the highest of all remaining tokens, per position."""
    probs = model.token_logits(hidden).softmax(-1)
    silent = probs[:, silent_id].tolist()
    probs[:, silent_id] = 0
    return list(zip(silent, probs.amax(-1).tolist(), strict=True))
