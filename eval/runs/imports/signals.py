"""The signals of imported results, and the rule by which one of them decides where the files hold no rule."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stepscope.engine.decisions.signals import SignalPolicy, SignalSpec
from stepscope.eval.runs.imports.system_output import ResultForm, SystemOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRule:
    """The rule by which a signal decides to speak. Raises ``ValueError`` for a threshold that is not finite."""

    threshold: float
    """In the units of the signal, or of its sum or fall."""
    policy: SignalPolicy = "above"
    """How values become decisions; engine/decisions/policies.toml describes the choices."""
    signal: str = ""
    """Name of the signal; empty for the only one that decides."""

    def __post_init__(self) -> None:
        """Check the threshold."""
        if not math.isfinite(self.threshold):
            raise ValueError(f"the threshold must be a finite number; got {self.threshold:g}")


def describe_signals(
    systems: Sequence[tuple[SystemOutput, ResultForm]], rule: SignalRule | None = None
) -> list[SignalSpec]:
    """Return the signals of results, each with the range of its values, at least from 0 to 1.

    Those that a form decides from have no threshold, unless a rule gives one. With a rule, its signal alone decides.
    Raises ``ValueError`` if the results do not have that signal.
    """
    specs: dict[str, SignalSpec] = {}
    for system_output, form in systems:
        for values in system_output.signals.values():
            for name, value in values.items():
                spec = specs.setdefault(name, SignalSpec(name=name, decides="speak" if name in form.deciding else None))
                if not math.isnan(value) and not spec.low <= value <= spec.high:
                    specs[name] = replace(spec, low=min(spec.low, value), high=max(spec.high, value))
    return list(specs.values()) if rule is None else _apply(rule, specs)


def _apply(rule: SignalRule, specs: Mapping[str, SignalSpec]) -> list[SignalSpec]:
    if not specs:
        raise ValueError("the results hold no signals, so that no rule decides; import them without one")
    deciding = [name for name, spec in specs.items() if spec.decides is not None]
    if not rule.signal and len(deciding) != 1:
        raise ValueError(f"the rule names no signal; choose one of {', '.join(deciding or specs)}")
    chosen = rule.signal or deciding[0]
    if chosen not in specs:
        raise ValueError(f"the results hold no signal {chosen!r}; choose one of {', '.join(specs)}")
    return [
        replace(spec, decides="speak", policy=rule.policy, threshold=rule.threshold)
        if name == chosen
        else replace(spec, decides=None)
        for name, spec in specs.items()
    ]
