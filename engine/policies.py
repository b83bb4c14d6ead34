"""Decision policies: from the probabilities of a frame to its decisions.

``policies.toml`` holds one entry per policy. This module interprets them for the engine and the sweeps,
``policy.js`` for the page; both must decide the cases of ``tests/data/policies.json`` alike.

Worked example, with two frames in a row and the threshold 0.5: the probabilities 0.6 0.7 0.8 0.9 0.2 0.6 trigger at the
second and the fourth frame. The count restarts after each trigger, and at the frame of 0.2.
"""

import operator
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Signal = Literal["speak", "update"]
SignalSource = Literal["heads", "silent-token"]
_COMPARISONS: Final = {">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPolicy:
    """How probabilities become decisions. Raises ``ValueError`` for an entry that contradicts itself."""

    name: str
    """Value of the setting ``decision_policy``."""
    source: SignalSource
    """Where the probabilities are read."""
    comparison: Literal[">", ">="]
    """How a probability exceeds its threshold."""
    frames_in_a_row: int
    """Consecutive frames that must exceed the threshold, at least 1."""
    has_updates: bool
    """Whether the policy updates the dialogue state."""

    def __post_init__(self) -> None:
        """Check the values, which come from a file."""
        if self.source not in get_args(SignalSource) or self.comparison not in _COMPARISONS:
            raise ValueError(f"policy {self.name}: unknown source {self.source!r} or comparison {self.comparison!r}")
        if self.frames_in_a_row < 1:
            raise ValueError(f"policy {self.name}: frames_in_a_row must be at least 1; got {self.frames_in_a_row}")
        if self.has_updates and self.source == "silent-token":
            raise ValueError(f"policy {self.name}: a silent token gives no probability of an update")

    def exceeds(self, prob: float, threshold: float, *, signal: Signal) -> bool:
        """Return whether one probability exceeds a threshold, which is used exactly as set; nan never does."""
        return bool(self._exceeds(prob, threshold, signal))

    def find_triggers(self, probs: ArrayLike, thresholds: ArrayLike, *, signal: Signal) -> NDArray[np.bool_]:
        """Return which frames trigger.

        Args:
            probs: Probabilities of all frames of a video ``[T]``.
            thresholds: One threshold, or K of them ``[K, 1]``.
            signal: The signal of the probabilities.

        Returns:
            ``[T]``, or ``[K, T]`` for K thresholds.
        """
        exceeds = np.asarray(self._exceeds(np.asarray(probs, float), np.asarray(thresholds, float), signal))
        numbers = np.arange(1, exceeds.shape[-1] + 1)  # of the frames, from 1
        last_below = np.maximum.accumulate(np.where(exceeds, 0, numbers), axis=-1)
        return np.asarray(self._ends_run(numbers - last_below))

    def token_to_read(self, silent_id: int | None) -> int | None:
        """Return the silent token of a checkpoint if the policy reads it, or None if it reads the heads.

        Raises ``ValueError`` if the checkpoint lacks the token that the policy reads.
        """
        if self.source == "heads":
            return None
        if silent_id is None:
            raise ValueError(f"the policy {self.name} needs a checkpoint that names its silent token")
        return silent_id

    def _exceeds(self, prob: Any, threshold: Any, signal: Signal) -> Any:
        """Compare numbers or arrays."""
        return _COMPARISONS[self.comparison](prob, threshold) & (signal == "speak" or self.has_updates)

    def _ends_run(self, run_length: Any) -> Any:
        """Return whether a trigger follows ``run_length`` frames (number or array) that exceed, the last one included.

        As the count restarts after a trigger, every ``frames_in_a_row``-th frame of a long run triggers.
        """
        return (run_length > 0) & (run_length % self.frames_in_a_row == 0)


@dataclass(slots=True, kw_only=True)
class TriggerCounter:
    """Decides one signal of a stream frame by frame, as ``DecisionPolicy.find_triggers`` decides all frames."""

    policy: DecisionPolicy
    signal: Signal
    threshold: float
    run_length: int = 0
    """Consecutive frames so far that exceed the threshold."""

    def add(self, prob: float) -> bool:
        """Return whether the next frame triggers."""
        exceeds = self.policy.exceeds(prob, self.threshold, signal=self.signal)
        self.run_length = self.run_length + 1 if exceeds else 0
        return bool(self.policy._ends_run(self.run_length))


def _read_policies() -> dict[str, DecisionPolicy]:
    text = (Path(__file__).parent / "policies.toml").read_text(encoding="utf-8")
    return {name: DecisionPolicy(name=name, **entry) for name, entry in tomllib.loads(text).items()}


POLICIES: Final[dict[str, DecisionPolicy]] = _read_policies()
"""All policies by name, in the order of the file; the first one is the default."""

if TYPE_CHECKING:
    PolicyName = str
else:
    PolicyName = Literal[tuple(POLICIES)]  # the choices of the command line


def find_policy(name: object) -> DecisionPolicy:
    """Return a policy by name. Raises ``ValueError`` for an unknown name."""
    if not isinstance(name, str) or name not in POLICIES:
        raise ValueError(f"decision_policy must be one of {', '.join(POLICIES)}; got {name!r}")
    return POLICIES[name]
