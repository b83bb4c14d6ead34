"""Named signals: values per frame beside the two probabilities, as any model may have them.

``FrameOutput.signals`` holds the values of a frame by name; ``run.json`` describes each signal with a ``SignalSpec``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from stepscope.engine.decisions.policies import POLICIES, DecisionPolicy
from stepscope.engine.io.arguments import check_finite, check_type
from stepscope.engine.io.json_records import Finite

Decision = Literal["speak", "update"]
if TYPE_CHECKING:
    SignalPolicy = str
else:
    SignalPolicy = Literal[tuple(name for name, policy in POLICIES.items() if policy.source == "signal")]
MAX_SIGNALS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSpec:
    """Description of a signal. Raises ``ValueError`` for a range or a threshold that is not possible."""

    name: str
    """Name in ``FrameOutput.signals``, unique in the run."""
    label: str = ""
    """Name in figures and tables; empty for ``name``."""
    low: Finite = 0.0
    """Lower end of its range."""
    high: Finite = 1.0
    """Upper end of its range, greater than ``low``."""
    threshold: Finite | None = None
    """The value that triggers its decision; None without one."""
    decides: Decision | None = None
    """The decision that is made from it; None for a signal that is only shown."""
    missing: str = ""
    """Why a run may have no value of it, which an empty lane shows."""
    policy: SignalPolicy = "above"
    """How values become decisions; engine/decisions/policies.toml describes the choices."""

    def __post_init__(self) -> None:
        check_type("the name of a signal", self.name, str, "text")
        check_finite("low", self.low)
        check_finite("high", self.high)
        if not self.name.strip():
            raise ValueError("a signal must have a name")
        if not self.low < self.high:
            raise ValueError(f"the signal {self.name} must have low below high; got {self.low:g} and {self.high:g}")
        if self.policy not in POLICIES or POLICIES[self.policy].source != "signal":
            raise ValueError(f"the signal {self.name} has the unknown policy {self.policy!r}; see policies.toml")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise ValueError(f"the signal {self.name} must have a finite threshold; got {self.threshold}")

    @property
    def title(self) -> str:
        """The label, or the name without one."""
        return self.label or self.name

    @property
    def rule(self) -> DecisionPolicy:
        """How values become decisions."""
        return POLICIES[self.policy]

    def values(self, frames: Sequence[Mapping[str, float]]) -> list[float]:
        """Return the value at each frame from the signals of the frames; nan where it is missing."""
        return [signals.get(self.name, math.nan) for signals in frames]


def check_signals(specs: Sequence[SignalSpec]) -> Sequence[SignalSpec]:
    """Return the descriptions of a run's signals. Raises ``ValueError`` for two of one name, or too many."""
    names = [spec.name for spec in specs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"signals must have different names; {twice[0]} occurs twice")
    if len(names) > MAX_SIGNALS:
        raise ValueError(f"a run has at most {MAX_SIGNALS} signals; got {len(names)}")
    return specs


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
