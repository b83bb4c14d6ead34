"""The settings of training, without torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from stepscope.engine.decisions.policies import PolicyName

Method = Literal["auto", "full", "lora", "heads"]
"""Trained parameters; see ``engine.training.adaptation``."""
Decisions = Literal["heads", "silent-token", "answer", "state-token"]
"""Trained decisions; see ``engine.training.losses``."""
POLICY_OF: Final[Mapping[Decisions, PolicyName]] = {
    "heads": "heads",
    "silent-token": "streaming-eos",
    "answer": "answer",
    "state-token": "state-token",
}
"""The decision policy that a model is trained for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Training settings."""

    num_steps: int = 1000
    learning_rate: float = 1e-3
    """Peak of the one-cycle schedule."""
    weight_decay: float = 0.05
    decision_weight: float = 2.0
    """Weight of the losses of the decisions relative to the LM loss."""
    positive_weight: float = 1.5
    """Weight of frames with a turn in the losses of the decisions."""
    negative_rate: float = 1.0
    """Fraction of the frames without a turn that these losses count, in (0, 1]."""
    seed: int = 0
    micro_batch_size: int | None = None
    """Sequences per forward pass; gradients of a batch are accumulated. None for the whole batch."""
    autocast: Literal["bfloat16", "float32"] = "bfloat16"
    """Number format of the forward pass; weights stay in float32."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass, which saves memory."""

    def __post_init__(self) -> None:
        if not (self.num_steps >= 0 and 0 <= self.learning_rate < 100):
            raise ValueError(
                f"num_steps and learning_rate must not be negative; got {self.num_steps}, {self.learning_rate}"
            )
        if not 0 < self.negative_rate <= 1:
            raise ValueError(f"negative_rate must be in (0, 1]; got {self.negative_rate}")
        if not (0 < self.positive_weight < math.inf and 0 <= self.decision_weight < math.inf):
            raise ValueError(
                f"positive_weight must be positive and decision_weight not negative; got {self.positive_weight}, "
                f"{self.decision_weight}"
            )
        if abs(self.seed) >= 2**31:
            raise ValueError(f"seed must be less than 2^31; got {self.seed}")
        if self.micro_batch_size is not None and self.micro_batch_size < 1:
            raise ValueError(f"micro_batch_size must be at least 1; got {self.micro_batch_size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a session validates, saves and stops early."""

    interval: int = 200
    """Steps between validations; the state is saved after each."""
    patience: int = 0
    """Validations without a better score after which the session stops; 0 for never."""

    def __post_init__(self) -> None:
        if self.interval < 1 or self.patience < 0:
            raise ValueError(
                f"interval must be at least 1 and patience not negative; got {self.interval}, {self.patience}"
            )
