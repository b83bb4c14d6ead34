"""The definition of every score: the single source of CSV columns, ``docs/metrics.md`` and the page's tooltips.

``metrics.toml`` holds the entries in the order of the tables. An entry of a decision score is expanded to two metrics,
``speaking_*`` and ``dst_update_*``.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from numpy.typing import NDArray

from stepscope.eval.metrics.decisions import TOLERANCES_S

Better = Literal["higher", "lower", "near 0", "near 1", "neither"]
Scope = Literal["both", "split", "video"]
Value = TypeVar("Value", float, NDArray[Any])

_WORDS: Final = {
    "speaking_": {"verb": "speak", "decision": "Speak decision"},
    "dst_update_": {"verb": "update", "decision": "Update decision"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One score; ``name`` is its key in every table."""

    name: str
    definition: str
    range: str
    """Possible values, such as ``0 to 1``."""
    better: Better
    source: str
    label: str
    """Name on the page; in ``metrics.toml`` by default ``name``."""
    caveat: str = ""
    """How the score can mislead; empty if it does not."""
    scope: Scope = "both"
    """Whether it is a score of a video, of a split, or of both."""
    is_count: bool = False
    """Whether it is a count, which grows with the split and has no interval."""
    is_detail: bool = False
    """Whether only files list it, not the table in the terminal."""

    @property
    def digits(self) -> int:
        """Decimal places of a shown value."""
        return 0 if self.is_count else 3

    def is_shown_zero(self, difference: float) -> bool:
        """Return whether a difference of two values shows as 0."""
        return round(difference, self.digits) == 0

    @property
    def hint(self) -> str:
        """The definition with range, direction and caveat, as one line of text."""
        hint = f"{self.name}: {self.definition} Range: {self.range}; better: {self.better}. Source: {self.source}."
        return f"{hint} Beware: {self.caveat}" if self.caveat else hint


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGroup:
    """A group of related scores, under one heading, in the order of the tables."""

    name: str
    about: str
    metrics: tuple[Metric, ...]


def _read_groups() -> Iterator[MetricGroup]:
    text = (Path(__file__).parent / "metrics.toml").read_text(encoding="utf-8")
    for group in tomllib.loads(text)["groups"]:
        heads: Mapping[str, Mapping[str, str]] = _WORDS if "{verb}" in group["name"] else {"": {}}
        for prefix, words in heads.items():
            entries = [
                _filled(
                    {"source": group["source"], "name": prefix + name, "label": prefix + name, **entry},
                    **words,
                    t=f"{tolerance:g}",
                )
                for name, entry, tolerance in _entries(group["metrics"])
            ]
            heading = _filled({"name": group["name"], "about": group["about"].strip()}, **words)
            yield MetricGroup(**heading, metrics=tuple(Metric(**entry) for entry in entries))


def _entries(metrics: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], float]]:
    """Yield name, entry and tolerance in table order.

    Entries of event scores, with ``{t}`` in their names, are yielded once per tolerance, grouped by tolerance; all
    other entries once, with tolerance 0.
    """
    of_events = {name: entry for name, entry in metrics.items() if "{t}" in name}
    for name, entry in metrics.items():
        if name not in of_events:
            yield name, entry, 0.0
        elif name == next(iter(of_events)):
            yield from ((name, entry, t) for t in TOLERANCES_S for name, entry in of_events.items())


def _filled(entry: Mapping[str, Any], **words: str) -> dict[str, Any]:
    return {key: value.format(**words) if isinstance(value, str) else value for key, value in entry.items()}


GROUPS: Final = tuple(_read_groups())
METRICS: Final = tuple(metric for group in GROUPS for metric in group.metrics)
"""All scores, in the order of the tables."""
NAMES_BY_GROUP: Final = {group.name: frozenset(metric.name for metric in group.metrics) for group in GROUPS}
MACHINE_SCORES: Final = NAMES_BY_GROUP["System"]
"""Times and memory. All videos of a run share the load of its machine, so that no paired test applies."""
NUM_FAILURES: Final = "num_failures"
"""Name of the recommended score if texts and states are known: the number of stops for a reviewer."""
ROOTS: Final = "roots"
"""Name of the score that counts the roots of a diagnosis."""
BEST_VALUES: Final[Mapping[str, float]] = {
    metric.name: float(metric.better.removeprefix("near ")) for metric in METRICS if metric.better.startswith("near ")
}
"""The best value of each score that is neither better higher nor better lower, such as 0 of a delay."""
_BY_NAME: Final = {metric.name: metric for metric in METRICS}


def find_metric(name: str) -> Metric:
    """Return a score's entry. Raises ``KeyError`` for a name that has none."""
    return _BY_NAME[name]


def has_direction(name: str) -> bool:
    """Return whether some values of a score are better than others."""
    return find_metric(name).better != "neither"


def compute_loss(score: str | Metric, value: Value) -> Value:
    """Return the loss of a value, or of an array of values; a lower loss is better.

    For a score whose best value is a number, it is the distance from it: a delay of -1 s and one of 1 s have loss 1.
    """
    metric = find_metric(score) if isinstance(score, str) else score
    if metric.better == "neither":
        return value * math.nan
    if metric.name in BEST_VALUES:
        return abs(value - BEST_VALUES[metric.name])
    return -value if metric.better == "higher" else value


_LISTED_WITH_ANOTHER: Final = re.compile(r"(_event_\w+|start_recall)_(0|0\.5|2|5)s$|_w$|^dst_update_")
"""Scores that the line of another score, or the text of their group, names too."""


def to_markdown() -> str:
    """Return ``docs/metrics.md``: ``python -m stepscope.eval metrics > docs/metrics.md``."""
    lines = [
        "# Metrics",
        "",
        "Generated from `eval/metrics/metrics.toml` by `python -m stepscope.eval metrics > docs/metrics.md`.",
        "",
        "A line has the name of a score, its range (of a count from 0, else 0 to 1 unless named), the better end",
        "(↑, ↓, →), the definition, and how it can mislead. Counts are added over videos and divided once, so long",
        "videos have more weight (micro average). Intervals are 95 %, by bootstrap over videos, and too narrow below",
        "about twenty videos.",
    ]
    for group in GROUPS:
        if listed := [one for one in group.metrics if not _LISTED_WITH_ANOTHER.search(one.name)]:
            lines += ["", f"## {group.name}", "", group.about, "", _list_sources(listed), ""]
            first_with = {one.caveat: one.name for one in reversed(listed)}
            lines += [_list_item(one, same_caveat=first_with[one.caveat]) for one in listed]
    return "\n".join(lines) + "\n"


def _list_sources(metrics: Sequence[Metric]) -> str:
    """Return the sources of a group: the most frequent one first, each other one with its scores."""
    (first, _), *others = Counter(metric.source for metric in metrics).most_common()
    named = [(source, [f"`{one.name}`" for one in metrics if one.source == source]) for source, _ in others]
    return "; ".join([f"Source: {first}", *(f"for {', '.join(names)}: {source}" for source, names in named)]) + "."


def _list_item(metric: Metric, *, same_caveat: str) -> str:
    better = {"higher": "↑", "lower": "↓", "near 0": "→ 0", "near 1": "→ 1", "neither": ""}[metric.better]
    value_range = "" if metric.is_count or metric.range == "0 to 1" else metric.range.replace("0 and up", "≥0")
    scope = "" if metric.scope == "both" else f"per {metric.scope}"
    notes = ", ".join(filter(None, [f"{value_range} {better}".strip(), scope]))
    item = f"- `{metric.name}` ({notes}): {metric.definition}"
    if metric.caveat:
        item += f" *{metric.caveat}*" if same_caveat == metric.name else f" *As `{same_caveat}`.*"
    return item
