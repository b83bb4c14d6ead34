"""Scores over a grid of both thresholds.

A *point* is a pair of thresholds. The scores are *exact*, of a run at each point, or a *preview* from the probabilities
of one run. Not swept are scores that do not depend on thresholds (texts, ranking and calibration of the probabilities,
the teacher-forced pass), and times, which reused runs do not have. Choose thresholds on a validation split: on the
reported split they would make the scores too good.
"""

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from stepscope.engine.config import check_threshold, format_threshold, format_thresholds
from stepscope.engine.decisions.policies import POLICIES, DecisionPolicy
from stepscope.engine.decisions.signals import Decision, SignalSpec
from stepscope.eval.metrics.definitions import GROUPS, NUM_FAILURES, ROOTS

_UNSWEPT_GROUPS: Final = ("Text", "Teacher-forced", "System")
_OF_PROBABILITIES: Final = ("_average_precision", "_auroc", "_brier", "_ece")

SWEEP_METRICS: Final = tuple(
    metric.name
    for group in GROUPS
    if group.name not in _UNSWEPT_GROUPS
    for metric in group.metrics
    if metric.name != ROOTS and not metric.name.endswith(_OF_PROBABILITIES)
)
"""The scores of an exact sweep, in the order of the tables."""

DECISION_F1: Final = "decision_f1_1s"
"""The score that is recommended for a preview, which has no texts and no states; both heads have equal weight."""
RECOMMENDED_METRICS: Final = (NUM_FAILURES, DECISION_F1, "dst_f1")
"""The recommended scores, best first: of exact points, of a preview, and of sweeps that are older than the first."""

GRID_SIZES: Final = (5, 9, 19)
"""Offered numbers of thresholds per axis."""
DEFAULT_METRICS: Final = (DECISION_F1, "speaking_event_f1_1s", "dst_update_event_f1_1s")
"""The default scores to choose a preview's point by; for an exact sweep ``NUM_FAILURES`` comes first."""

_MAX_POINTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All pairs of two lists of thresholds, of probabilities or named signals; an empty list is one threshold, nan.

    Raises ``ValueError`` unless both ascend, those of probabilities within [0, 1].
    """

    speak: tuple[float, ...]
    """Speaking thresholds, ``S`` of them: the assistant speaks when ``speak_prob`` is greater."""
    update: tuple[float, ...]
    """Update thresholds, ``U`` of them: the assistant updates the state when ``update_prob`` is greater."""
    speak_spec: SignalSpec | None = None
    """The named signal of the speaking thresholds; None for ``speak_prob``."""
    update_spec: SignalSpec | None = None
    """The named signal of the update thresholds; None for ``update_prob``."""
    policy: DecisionPolicy = POLICIES["heads"]
    """The policy of the thresholds of ``speak_prob`` and ``update_prob``."""

    def __post_init__(self) -> None:
        if not self.speak and not self.update:
            raise ValueError("the grid has no threshold; give at least one")
        for name, values, spec in (("speak", self.speak, self.speak_spec), ("update", self.update, self.update_spec)):
            for value in values:
                if spec is None:
                    check_threshold(value, f"{name} thresholds")
                elif not math.isfinite(value):
                    raise ValueError(f"{name} thresholds must be finite; got {value}")
            if any(before >= after for before, after in pairwise(values)):
                raise ValueError(f"{name} thresholds must ascend; got {values}")
        if len(self) > _MAX_POINTS:
            raise ValueError(f"the grid has {len(self)} points; give at most {_MAX_POINTS}")

    def __len__(self) -> int:
        return max(1, len(self.speak)) * max(1, len(self.update))

    @property
    def titles(self) -> Mapping[Decision, str]:
        """Title of the signal of each decision that is swept."""
        swept: dict[Decision, tuple[float, ...]] = {"speak": self.speak, "update": self.update}
        return {name: self.specs[name].title if name in self.specs else name for name in swept if swept[name]}

    @property
    def specs(self) -> Mapping[Decision, SignalSpec]:
        """The named signals that are swept, by their decision."""
        found: dict[Decision, SignalSpec | None] = {"speak": self.speak_spec, "update": self.update_spec}
        return {decides: spec for decides, spec in found.items() if spec is not None}

    @property
    def of_rule(self) -> str:
        """Words behind the name of a score: with named signals it is not that of the run's messages; else empty."""
        return " of the rule's decisions" if self.specs else ""

    @property
    def has_theta(self) -> bool:
        """Whether the speaking thresholds are those of a rule with theta, so that update thresholds have no effect."""
        return self.policy.has_theta and bool(self.speak) and not self.specs

    def pairs(self) -> Iterator[tuple[float, float]]:
        """Yield the speak and update threshold of every point, row by row of equal update thresholds."""
        return ((speak, update) for update in self.update or (math.nan,) for speak in self.speak or (math.nan,))

    def find(self, thresholds: tuple[float, float]) -> int | None:
        """Return the index in ``pairs`` of a speak and an update threshold; None off the grid.

        A threshold that is not swept has any value.
        """
        is_swept = bool(self.speak), bool(self.update)
        for place, pair in enumerate(self.pairs()):
            near = map(math.isclose, pair, thresholds)
            if all(is_near or not swept for is_near, swept in zip(near, is_swept, strict=True)):
                return place
        return None

    def describe(self, speak: float, update: float) -> str:
        """Return the thresholds of a point as text, such as ``speak 0.5, update 0.725`` or ``theta 0.725``."""
        if self.has_theta:
            return format_thresholds(speak, update, self.policy)
        values = {"speak": format_threshold(speak), "update": format_threshold(update)}
        return ", ".join(f"{title} {values[name]}" for name, title in self.titles.items())

    def snake_order(self) -> Iterator[int]:
        """Yield the index in ``pairs`` of every point, such that consecutive points are neighbours in the grid.

        Columns are walked alternately down and up: with 2 speak and 3 update thresholds, 0 2 4 5 3 1. Neighbours with
        the same speak threshold share longer prefixes, which saves a third of the passes on the bundled videos.
        """
        width, height = max(1, len(self.speak)), max(1, len(self.update))
        for column in range(width):
            rows = range(height)
            for row in reversed(rows) if column % 2 else rows:
                yield row * width + column


@dataclass(frozen=True, slots=True, kw_only=True)
class GridScores:
    """The scores of a split at every point of a grid."""

    split: str
    """File of the split that the thresholds are tuned on."""
    is_exact: bool
    """Whether each point was run; otherwise its decisions are derived from a trace."""
    grid: Grid
    points: tuple[Mapping[str, float], ...]
    """Scores by name, in the order of ``Grid.pairs``; nan where undefined."""
    num_videos: int
    errors: Mapping[str, str]
    """Per video without scores, the reason."""
    scoring: str = ""
    """Basis of the scores of an exact sweep, as ``describe_scoring`` returns it."""

    @property
    def basis(self) -> str:
        """Basis of the scores in words."""
        return self.scoring or f"decisions{' of the rule' if self.grid.specs else ''} alone: no judge, no text encoder"

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the scores."""
        return tuple(self.points[0])

    @property
    def warning(self) -> str:
        """A warning against choosing thresholds on a test split; otherwise empty."""
        if "test" not in Path(self.split).stem.lower():
            return ""
        return f"{self.split} looks like a test split; choose thresholds on validation, or their scores are too good"

    def as_matrix(self, metric: str) -> tuple[tuple[float, ...], ...]:
        """Return one score ``[U][S]``, with a row per update threshold and a column per speak threshold.

        Raises ``ValueError`` for an unknown score.
        """
        check_known(metric, self.metrics)
        width = max(1, len(self.grid.speak))
        values = [point[metric] for point in self.points]
        return tuple(tuple(values[row : row + width]) for row in range(0, len(values), width))


def make_grid(size: int, policy: DecisionPolicy = POLICIES["heads"]) -> Grid:
    """Return ``size`` thresholds from 0.05 to 0.95 on each axis that a policy uses: without updates on one."""
    axis = make_axis(size)
    return Grid(speak=axis, update=axis if policy.has_updates else (), policy=policy)


def make_axis(size: int, *, low: float = 0.0, high: float = 1.0) -> tuple[float, ...]:
    """Return ``size`` thresholds from 5 % to 95 % of a range, rounded to thousandths of it."""
    digits = 3 - math.floor(math.log10(high - low))
    return tuple(np.linspace(low + 0.05 * (high - low), low + 0.95 * (high - low), size).round(digits).tolist())


def parse_axis(text: str) -> tuple[float, ...]:
    """Parse thresholds such as ``0.1:0.9:9`` (first, last, number) or ``0.3,0.5``; return them sorted, each once.

    Raises ``ValueError`` for invalid text; ``Grid`` checks the range.
    """
    try:
        if ":" in text:
            first, last, number = text.split(":")
            if int(number) < 1:
                raise ValueError("no thresholds")
            values = np.linspace(float(first), float(last), int(number)).round(6).tolist()
        else:
            values = [float(value) for value in text.split(",")]
    except ValueError as error:
        raise ValueError(
            f"thresholds must be given as FIRST:LAST:NUMBER, such as 0.1:0.9:9, or as 0.3,0.5; got {text!r}"
        ) from error
    return tuple(sorted(set(values)))


def check_known(name: str, known: Sequence[str]) -> None:
    """Raise ``ValueError`` for a score that is not in ``known``."""
    if name not in known:
        problem = "a preview has no score" if name in SWEEP_METRICS else "a sweep has no score"
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        raise ValueError(f"{problem} {name}; choose one such as {', '.join(near or DEFAULT_METRICS)}")
