"""What every score means: the one source of CSV columns, ``docs/metrics.md`` and the page's tooltips.

The entries stand in ``metrics.toml``, in the order of the tables. Those of decisions stand there once and exist twice,
``speaking_*`` and ``dst_update_*``.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from eval.metrics.decisions import TOLERANCES_S

Better = Literal["higher", "lower", "near 0", "near 1", "neither"]
Scope = Literal["both", "split", "video"]

_WORDS: Final = {
    "speaking": {"verb": "speak", "doing": "Speaking"},
    "dst_update": {"verb": "update", "doing": "Updating"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One score."""

    name: str
    """Its key in every table."""
    definition: str
    """One sentence."""
    range: str
    """The values it can take, such as ``0 to 1``."""
    better: Better
    """Which way is better."""
    source: str
    """Who defined it."""
    label: str = ""
    """What the page calls it, everywhere; its name where it has no other."""
    caveat: str = ""
    """How it misleads; empty when it does not."""
    scope: Scope = "both"
    """Whether a video, a split or both have it."""
    is_count: bool = False
    """Whether it is a number of things, which grows with the split; such a one has no interval."""
    is_detail: bool = False
    """Whether the table in the terminal leaves it to the files."""

    def __post_init__(self) -> None:
        """Call it by its name where it has no label."""
        if not self.label:
            object.__setattr__(self, "label", self.name)

    @property
    def hint(self) -> str:
        """The definition with range, direction and trap, as one line of text."""
        hint = f"{self.name}: {self.definition} Range: {self.range}; better: {self.better}. Source: {self.source}."
        return f"{hint} Beware: {self.caveat}" if self.caveat else hint


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGroup:
    """Scores that belong together."""

    name: str
    """Its heading."""
    about: str
    """What holds for all of them."""
    metrics: tuple[Metric, ...]
    """In the order of the tables."""


def _read_groups() -> Iterator[MetricGroup]:
    text = (Path(__file__).parent / "metrics.toml").read_text(encoding="utf-8")
    for group in tomllib.loads(text)["groups"]:
        if "{verb}" in group["name"]:
            for prefix, words in _WORDS.items():
                yield _group(group, prefix=f"{prefix}_", **words)
        else:
            yield _group(group)


def _group(group: Mapping[str, Any], *, prefix: str = "", **words: str) -> MetricGroup:
    metrics = [
        Metric(**{"source": group["source"], **_filled({"name": prefix + name, **entry}, **words, t=f"{tolerance:g}")})
        for name, entry, tolerance in _entries(group["metrics"])
    ]
    return MetricGroup(
        **_filled({"name": group["name"], "about": group["about"].strip()}, **words), metrics=tuple(metrics)
    )


def _entries(metrics: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], float]]:
    """Yield names with entries and a tolerance; those of events once per tolerance, which runs slowest."""
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
NUM_FAILURES: Final = "num_failures"
"""Name of the recommended score where texts and states are known: everything that a reviewer steps through."""
_BY_NAME: Final = {metric.name: metric for metric in METRICS}


def find_metric(name: str) -> Metric:
    """Return a score's entry. Raises ``KeyError`` for a name that has none."""
    return _BY_NAME[name]


def to_markdown() -> str:
    """Return ``docs/metrics.md``: ``python -m eval metrics > docs/metrics.md``."""
    lines = [
        "# What the scores mean",
        "",
        "Made from `eval/metrics/metrics.toml` by `python -m eval metrics > docs/metrics.md`.",
        "",
        "Counts are added over videos and divided once, so long videos weigh more (micro average). An undefined",
        "score is an empty cell in CSV and null in JSON; `metrics.json` says in how many videos it is undefined.",
        "Intervals are 95 %, by bootstrap over videos; of fewer than about twenty videos they are too narrow.",
    ]
    for group in GROUPS:
        lines += ["", f"## {group.name}", "", group.about, ""]
        lines += ["| score | on the page | definition | range | better | beware | source |", f"|{' --- |' * 7}"]
        for metric in group.metrics:
            scope = "" if metric.scope == "both" else f" (per {metric.scope})"
            cells = (
                f"`{metric.name}`{scope}",
                metric.label,
                metric.definition,
                metric.range,
                metric.better,
                metric.caveat,
                metric.source,
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
