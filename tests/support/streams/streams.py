"""Settings of short streams, and how two streams are compared."""

from typing import Any

import torch
from torch import Tensor

from stepscope.engine.control.task import Task
from stepscope.engine.records import FrameOutput, UserTurn
from tests.support.streams.fakes import STEPS

TASK = Task(goal="build the toy truck", steps=STEPS, user_turns=(UserTurn(time_s=3.2, text="What is next?"),))
SHORT: dict[str, Any] = {"max_new_tokens": 6, "max_update_tokens": 5, "max_seq_len": 260, "reserved_seq_len": 60}


def between(probs: list[float], share: float) -> float:
    """Return a threshold half-way between two probabilities: at one of them, rounding would decide."""
    ordered = [0.0, *sorted(probs), 1.0]
    rank = round((len(ordered) - 2) * (1 - share))
    return (ordered[rank] + ordered[rank + 1]) / 2


def decided(outputs: list[FrameOutput]) -> list[tuple[object, ...]]:
    """Return all values that must be exactly equal."""
    return [
        (o.frame_index, o.response, o.updates, dict(o.dst_state), o.cache_tokens, o.refreshed, o.state, o.reasoning)
        for o in outputs
    ]


def probs(outputs: list[FrameOutput]) -> Tensor:
    return torch.tensor([(output.speak_prob, output.update_prob, *output.signals.values()) for output in outputs])


def assert_equal(outputs: list[FrameOutput], wanted: list[FrameOutput]) -> None:
    assert decided(outputs) == decided(wanted)
    assert torch.allclose(probs(outputs), probs(wanted), atol=1e-4)
