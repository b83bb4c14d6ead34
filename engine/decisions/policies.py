"""Decision policies: from the probabilities of a frame to its decisions.

``policies.toml`` holds one entry per policy. This module interprets them for the engine and the sweeps,
``policy.js`` for the page; both must decide the cases of ``tests/data/policies.json`` alike.

Worked example, with two frames in a row and the threshold 0.5: the probabilities 0.6 0.7 0.8 0.9 0.2 0.6 trigger at the
second and the fourth frame. The count restarts after each trigger, and at the frame of 0.2.
"""

import math
import operator
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Signal = Literal["speak", "update"]
SignalSource = Literal["heads", "silent-token", "most-likely-token", "answer", "signal"]
Level = Literal["value", "sum", "drop", "rise"]


def _exceeds_or_is_one(prob: Any, threshold: Any) -> Any:
    return (prob > threshold) | ((prob >= 1) & (threshold <= 1))  # nothing exceeds nan


_COMPARISONS: Final = {">": operator.gt, ">=": operator.ge, "> or 1": _exceeds_or_is_one}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPolicy:
    """How probabilities become decisions. Raises ``ValueError`` for an entry that contradicts itself."""

    name: str
    """Value of the setting ``decision_policy``."""
    source: SignalSource
    """Source of the probabilities."""
    comparison: Literal[">", ">=", "> or 1"]
    """How a probability exceeds its threshold."""
    frames_in_a_row: int
    """Consecutive frames that must exceed the threshold, at least 1."""
    has_updates: bool
    """Whether the policy updates the dialogue state."""
    level: Level = "value"
    """The number that is compared with the threshold; engine/decisions/policies.toml defines the choices."""
    always_from: float | None = None
    """A frame whose own value is at least this exceeds in any case; None for no such frame."""

    def __post_init__(self) -> None:
        """Check the values, which come from a file."""
        if self.source not in get_args(SignalSource) or self.comparison not in _COMPARISONS:
            raise ValueError(f"policy {self.name}: unknown source {self.source!r} or comparison {self.comparison!r}")
        if self.level not in get_args(Level) or (self.level == "sum" and self.frames_in_a_row > 1):
            raise ValueError(f"policy {self.name}: unknown level {self.level!r}, or a sum over frames in a row")
        if self.frames_in_a_row < 1:
            raise ValueError(f"policy {self.name}: frames_in_a_row must be at least 1; got {self.frames_in_a_row}")
        if self.has_updates and self.source not in ("heads", "answer", "signal"):
            raise ValueError(f"policy {self.name}: a silent token gives no probability of an update")

    @property
    def has_theta(self) -> bool:
        """Whether its rule compares the probability of a silent token with theta; the threshold is 1 - theta."""
        return self.source in ("silent-token", "most-likely-token")

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
        values = np.asarray(probs, float)
        if self.level == "sum":
            return self._find_sum_triggers(values, np.asarray(thresholds, float), signal)
        levels = values
        if self.level in ("drop", "rise"):
            levels = np.diff(values, prepend=np.nan) * (1 if self.level == "rise" else -1)
        exceeds = np.asarray(self._exceeds(levels, np.asarray(thresholds, float), signal))
        exceeds = exceeds | self._always_exceeds(values, np.asarray(thresholds, float), signal)
        numbers = np.arange(1, exceeds.shape[-1] + 1)  # of the frames, from 1
        last_below = np.maximum.accumulate(np.where(exceeds, 0, numbers), axis=-1)
        return np.asarray(self._ends_run(numbers - last_below))

    def _find_sum_triggers(
        self, values: NDArray[np.float64], thresholds: NDArray[np.float64], signal: Signal
    ) -> NDArray[np.bool_]:
        """Return which frames trigger, where a trigger resets the sum of each threshold on its own."""
        levels = thresholds.reshape(-1)  # [K]
        sums, fires = np.zeros(len(levels)), np.zeros((len(levels), len(values)), bool)
        for frame, value in enumerate(values.tolist()):
            if math.isnan(value):
                continue
            sums += value
            fires[:, frame] = self._exceeds(sums, levels, signal)
            sums[fires[:, frame]] = 0.0
        return fires if thresholds.ndim else fires[0]

    def token_to_read(self, silent_id: int | None) -> int | None:
        """Return the silent token of a checkpoint if the policy reads it, or None if it reads none.

        Raises ``ValueError`` if the checkpoint lacks the token that the policy reads.
        """
        if self.source in ("heads", "answer"):
            return None
        if silent_id is None:
            raise ValueError(f"the policy {self.name} needs a checkpoint that names its silent token")
        return silent_id

    def _exceeds(self, prob: Any, threshold: Any, signal: Signal) -> Any:
        """Compare numbers or arrays."""
        return _COMPARISONS[self.comparison](prob, threshold) & (signal == "speak" or self.has_updates)

    def _always_exceeds(self, value: Any, threshold: Any, signal: Signal) -> Any:
        """Return whether a value (number or array) exceeds every threshold but nan."""
        least = math.inf if self.always_from is None else self.always_from
        return (value >= least) & (threshold == threshold) & (signal == "speak" or self.has_updates)

    def _ends_run(self, run_length: Any) -> Any:
        """Return whether a trigger follows ``run_length`` frames (number or array) that exceed, the last one included.

        As the count restarts after a trigger, every ``frames_in_a_row``-th frame of a long run triggers.
        """
        return (run_length > 0) & (run_length % self.frames_in_a_row == 0)


def convert_theta(value: float) -> float:
    """Return the theta of a speak threshold, or the speak threshold of a theta, both in [0, 1].

    It is 1 - value to 12 digits, so that 0.725 gives 0.275, and that gives 0.725 again.
    """
    return round(1 - value, 12)


@dataclass(slots=True, kw_only=True)
class TriggerCounter:
    """Decides one signal of a stream frame by frame, as ``DecisionPolicy.find_triggers`` decides all frames."""

    policy: DecisionPolicy
    signal: Signal
    threshold: float
    run_length: int = 0
    """Consecutive frames so far that exceed the threshold."""
    kept: float = math.nan
    """The sum so far, or the last value, for a policy of such a level."""

    def add(self, prob: float) -> bool:
        """Return whether the next frame triggers."""
        exceeds = self.policy.exceeds(self._level(prob), self.threshold, signal=self.signal)
        exceeds = exceeds or bool(self.policy._always_exceeds(prob, self.threshold, self.signal))
        self.run_length = self.run_length + 1 if exceeds else 0
        is_trigger = bool(self.policy._ends_run(self.run_length))
        if is_trigger and self.policy.level == "sum":
            self.kept = 0.0
        return is_trigger

    def add_level(self, value: float) -> float:
        """Count the next frame, and return the number that was compared with the threshold."""
        before = self.kept
        is_trigger = self.add(value)
        if self.policy.level in ("drop", "rise"):
            return (before - value) * (1 if self.policy.level == "drop" else -1)
        if self.policy.level == "value" or math.isnan(value):
            return value
        return value + (0.0 if math.isnan(before) else before) if is_trigger else self.kept

    def _level(self, value: float) -> float:
        """Return the number that is compared with the threshold."""
        if self.policy.level in ("drop", "rise"):
            level, self.kept = self.kept - value, value
            return level if self.policy.level == "drop" else -level
        if self.policy.level == "sum" and not math.isnan(value):
            self.kept = value + (0.0 if math.isnan(self.kept) else self.kept)
            return self.kept
        return value


def _read_policies() -> dict[str, DecisionPolicy]:
    text = (Path(__file__).parent / "policies.toml").read_text(encoding="utf-8")
    return {name: DecisionPolicy(name=name, **entry) for name, entry in tomllib.loads(text).items()}


POLICIES: Final[dict[str, DecisionPolicy]] = _read_policies()
"""All policies by name, in the order of the file; the first one is the default."""

if TYPE_CHECKING:
    PolicyName = str
else:
    PolicyName = Literal[tuple(name for name, policy in POLICIES.items() if policy.source != "signal")]


def find_policy(name: object) -> DecisionPolicy:
    """Return a policy of a stream by name. Raises ``ValueError`` for an unknown name, or one for signals only."""
    known = [known for known, policy in POLICIES.items() if policy.source != "signal"]
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"decision_policy must be one of {', '.join(known)}; got {name!r}")
    return POLICIES[name]
