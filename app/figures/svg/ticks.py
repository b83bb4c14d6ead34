"""Ticks of axes and colour bars: round steps, and numbers in formats of d3."""

import math
from typing import Final

_STEPS: Final = (1.0, 2.0, 5.0, 10.0)
_MAX_TICKS: Final = 7
_PREFIXES: Final = ("", "k", "M", "G")


def round_step(span: float, most: float) -> float:
    """Return a step of 1, 2 or 5 times a power of ten, so that a span has at most about ``most`` steps."""
    rough = span / max(1, min(_MAX_TICKS, most))
    unit = 10 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next(unit * factor for factor in _STEPS if unit * factor >= rough * (1 - 1e-9))


def multiples(low: float, high: float, step: float) -> list[float]:
    """Return the multiples of a step from ``low`` to ``high``, borders included, at most about 100."""
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, min(last, first + 100) + 1)]


def format_number(value: float, form: str = "") -> str:
    """Return a number in a format of d3, as far as Python has the same; else with six digits."""
    if form.endswith("s"):
        thousands = min(3, max(0, math.floor(math.log10(abs(value)) / 3))) if value else 0
        text = f"{value / 1000**thousands:.3g}{_PREFIXES[thousands]}"
    else:
        try:
            text = format(round(value) if form.endswith("d") else value, form.replace("~", "") or ".6g")
        except ValueError:
            text = f"{value:.6g}"
    return text.replace("-", "\N{MINUS SIGN}")
