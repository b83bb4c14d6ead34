"""Decision policies: from the probabilities of a frame to its decisions.

``policies.toml`` holds one entry per policy. This module interprets them for the engine and the sweeps,
``policy.js`` for the page; both must decide the cases of ``tests/data/policies.json`` alike. A kind of rule is a
subclass of ``TriggerCounter`` in both; all other code asks the policy.

Worked example, with two frames in a row and the threshold 0.5: the probabilities 0.6 0.7 0.8 0.9 0.2 0.6 trigger at the
second and the fourth frame. The count restarts after each trigger, and at the frame of 0.2.
"""

import math
import operator
import tomllib
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Signal = Literal["speak", "update"]
SignalSource = Literal[
    "heads", "silent-token", "most-likely-token", "answer", "state-token", "reserved-text", "most-likely-text", "signal"
]
Numbers = NDArray[np.float64]


def _exceeds_or_is_one(prob: Any, threshold: Any) -> Any:
    return (prob > threshold) | ((prob >= 1) & (threshold <= 1))  # nothing exceeds nan


_COMPARISONS: Final = {">": operator.gt, ">=": operator.ge, "> or 1": _exceeds_or_is_one}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPolicy:
    """How probabilities become decisions."""

    name: str
    """Value of the setting ``decision_policy``."""
    source: SignalSource
    comparison: Literal[">", ">=", "> or 1"]
    frames_in_a_row: int
    """Consecutive frames that must exceed the threshold, at least 1."""
    has_updates: bool
    level: str = "value"
    """The kind of rule, which gives the number that is compared; engine/decisions/policies.toml defines the choices."""
    always_from: float | None = None
    """A frame whose own value is at least this exceeds in any case; None for no such frame."""
    refractory_s: float | None = None
    """Least time from one trigger to the next; None for no such time."""
    over_s: float | None = None
    """The time of a surge."""
    words: str = ""
    """When a signal triggers, for a list of rules."""

    @property
    def has_theta(self) -> bool:
        """Whether its rule compares the probability of silence with theta; the threshold is 1 - theta."""
        return self.source in ("silent-token", "most-likely-token") or self.reads_reserved_text

    @property
    def reads_reserved_text(self) -> bool:
        """Whether it reads the text of silence alone."""
        return self.source in ("reserved-text", "most-likely-text")

    @property
    def reads_states(self) -> bool:
        """Whether it reads the probabilities of the texts of ``StreamConfig.states``."""
        return self.source == "state-token" or self.reads_reserved_text

    @property
    def reads_branches(self) -> bool:
        """Whether it reads tokens behind a frame that are taken back."""
        return self.reads_states or self.source == "answer"

    @property
    def kind(self) -> "type[TriggerCounter]":
        """The kind of its rule."""
        return RULES[self.level]

    @property
    def follows_triggers(self) -> bool:
        """Whether a trigger changes the decisions at later frames, so that curves over frames do not show them."""
        return self.kind.follows_triggers or self.refractory_s is not None or self.frames_in_a_row > 1

    def decides(self, signal: Signal) -> bool:
        """Return whether it decides on a signal."""
        return signal == "speak" or self.has_updates

    def exceeds(self, prob: float, threshold: float, *, signal: Signal) -> bool:
        """Return whether one probability exceeds a threshold, which is used exactly as set; nan never does."""
        return self.decides(signal) and bool(_COMPARISONS[self.comparison](prob, threshold))

    def levels(self, values: ArrayLike, *, fps: float) -> Numbers:
        """Return the numbers by which the frames of a video rank ``[T]``."""
        numbers = np.asarray(values, float)
        if self.kind.has_values:
            return numbers
        counter = self.kind(self, signal="speak", threshold=math.nan, fps=fps)
        return np.array([counter.measure(value) for value in numbers.tolist()], float)

    def find_triggers(
        self, probs: ArrayLike, thresholds: ArrayLike, *, signal: Signal, fps: float
    ) -> NDArray[np.bool_]:
        """Return which frames of a video trigger.

        They are ``[T]`` for ``probs [T]`` and one threshold, or ``[K, T]`` for thresholds ``[K, 1]``.
        """
        values, limits = np.asarray(probs, float), np.asarray(thresholds, float)
        if self.follows_triggers:  # each threshold has its own triggers, and so its own later numbers
            counters = [self.kind(self, signal=signal, threshold=limit, fps=fps) for limit in limits.ravel().tolist()]
            found = [[counter.add(value) for value in values.tolist()] for counter in counters]
            return np.array(found, bool).reshape(*limits.shape[:-1], len(values))
        exceeds = _COMPARISONS[self.comparison](self.levels(values, fps=fps), limits)
        if self.always_from is not None:
            exceeds = exceeds | ((values >= self.always_from) & (limits == limits))
        return np.asarray(exceeds & self.decides(signal))

    def pack(self) -> dict[str, Any]:
        """Return the values by which the page decides, without the parameters of other kinds of rules."""
        values = {name: value for name, value in asdict(self).items() if value is not None and name != "words"}
        return {"always_from": None, **values}


def convert_theta(value: float) -> float:
    """Return the theta of a speak threshold, or the speak threshold of a theta, both in [0, 1].

    It is 1 - value to 12 digits, so that 0.725 gives 0.275, and that gives 0.725 again.
    """
    return round(1 - value, 12)


def count_frames(seconds: float, fps: float) -> int:
    """Return the number of frames after which ``seconds`` have passed, at least 1."""
    return max(1, math.ceil(seconds * fps - 1e-9))


class TriggerCounter:
    """Decides one signal of a stream frame by frame, as ``DecisionPolicy.find_triggers`` decides all frames.

    It compares the value of a frame with the threshold. Each other kind of rule is a subclass.
    """

    follows_triggers: ClassVar = False
    has_values: ClassVar = True
    """Whether frames rank by their values, which may be calibrated; else by ``measure``."""
    is_armed = True
    """Whether a frame that exceeds the threshold counts."""
    level = math.nan
    """The number that was last compared with the threshold."""

    def __init__(self, policy: DecisionPolicy, *, signal: Signal, threshold: float, fps: float) -> None:
        """Start before the first frame of a stream of ``fps`` frames per second."""
        can_trigger = policy.decides(signal) and not math.isnan(threshold)
        self.threshold = threshold if can_trigger else math.nan
        self._always_from = policy.always_from if can_trigger and policy.always_from is not None else math.inf
        self._compare = _COMPARISONS[policy.comparison]
        self._frames_in_a_row = policy.frames_in_a_row
        self._refractory_frames = 0 if policy.refractory_s is None else count_frames(policy.refractory_s, fps)
        self._run_length = 0  # frames that exceed the threshold, since the last trigger
        self._frames_to_wait = 0

    def add(self, prob: float, *, forced: bool | None = None) -> bool:
        """Return whether the next frame triggers.

        ``forced`` is the decision of an intervention at this frame. Later frames follow it in place of the own one.
        """
        self.level = level = self.measure(prob)
        exceeds = self.is_armed and (self._compare(level, self.threshold) or prob >= self._always_from)
        self._run_length = self._run_length + 1 if exceeds else 0
        self._frames_to_wait -= 1
        triggers = self._run_length >= self._frames_in_a_row and self._frames_to_wait <= 0
        if triggers if forced is None else forced:
            self._run_length = 0
            self._frames_to_wait = self._refractory_frames
            self.follow_trigger()
        return triggers

    def measure(self, value: float) -> float:
        """Return the number that is compared with the threshold at the next frame; nan exceeds nothing."""
        return value

    def follow_trigger(self) -> None:
        """Note that the frame just measured triggers."""

    @classmethod
    def range(cls, low: float, high: float) -> tuple[float, float]:
        """Return the range of the numbers by which frames rank, from that of the values."""
        return (low, high) if cls.has_values else (low - high, high - low)

    @classmethod
    def axis(cls, low: float, high: float, levels: Sequence[Numbers], num_turns: int) -> tuple[float, float]:
        """Return the range of thresholds to sweep, from that of the values, or the levels of all videos."""
        return (low, high) if cls.has_values else (0.0, high - low)


class _Sum(TriggerCounter):
    follows_triggers = True
    total = 0.0

    def measure(self, value: float) -> float:
        self.total += 0.0 if math.isnan(value) else value
        return value if math.isnan(value) else self.total

    def follow_trigger(self) -> None:
        self.total = 0.0

    @classmethod
    def axis(cls, low: float, high: float, levels: Sequence[Numbers], num_turns: int) -> tuple[float, float]:
        """End at twice the sum per turn, with which a regular signal would speak half as often."""
        total = sum(float(np.nansum(values)) for values in levels)
        return 0.0, 2 * total / max(num_turns, 1) if total > 0 else high


class _Rise(TriggerCounter):
    has_values = False
    sign = 1.0
    before = math.nan

    def measure(self, value: float) -> float:
        before, self.before = self.before, value
        return self.sign * (value - before)


class _Drop(_Rise):
    sign = -1.0


class _Surge(_Rise):
    """**Source**: ``trigger_detection`` of Em-Garde, which has two conditions: the rise, and above the older mean."""

    def __init__(self, policy: DecisionPolicy, *, signal: Signal, threshold: float, fps: float) -> None:
        super().__init__(policy, signal=signal, threshold=threshold, fps=fps)
        assert policy.over_s is not None, "a surge needs over_s"
        self.recent = deque([math.nan] * count_frames(policy.over_s, fps))
        self.total, self.num_older = 0.0, 0

    def measure(self, value: float) -> float:
        self.recent.append(value)
        before = self.recent.popleft()
        if not math.isnan(before):
            self.total += before
            self.num_older += 1
        rise = value - before
        # a rise to at most the mean counts as 0, which no threshold lets through: one number for both conditions
        return rise if math.isnan(rise) or value > self.total / self.num_older else min(rise, 0.0)

    @classmethod
    def axis(cls, low: float, high: float, levels: Sequence[Numbers], num_turns: int) -> tuple[float, float]:
        """End at the largest rise."""
        highest = max((float(np.max(one, where=one > 0, initial=0)) for one in levels), default=0.0)
        return 0.0, highest or high - low


class _Hysteresis(TriggerCounter):
    follows_triggers = True

    def measure(self, value: float) -> float:
        self.is_armed = self.is_armed or value <= self.threshold - 0.5 * abs(self.threshold)
        return value

    def follow_trigger(self) -> None:
        self.is_armed = False


RULES: Final[dict[str, type[TriggerCounter]]] = {
    "value": TriggerCounter,
    "sum": _Sum,
    "drop": _Drop,
    "rise": _Rise,
    "surge": _Surge,
    "hysteresis": _Hysteresis,
}


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
