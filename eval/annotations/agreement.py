"""Inter-rater agreement: raw, Cohen's kappa and Krippendorff's alpha, over all verdicts and per verdict.

A *rating* is the verdict of one reviewer on one item; items with a single rating are left out. An undefined value is
nan: without shared items and, for kappa and alpha, if all ratings are equal, so that chance explains the agreement.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import krippendorff
import numpy as np
from sklearn.metrics import cohen_kappa_score


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """One reviewer's verdict on one item; at most one per reviewer and item."""

    item: str
    reviewer: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement on one verdict, or over all verdicts."""

    verdict: str
    """The verdict, against all the rest; empty for all verdicts as separate categories."""
    num_items: int
    """Items that at least two reviewers rated."""
    num_reviewers: int
    raw: float
    """Ratio of equal pairs to all pairs of ratings of the same item, in [0, 1]; nan without pairs."""
    kappa: float
    """Cohen's kappa, at most 1; the mean over pairs of reviewers for which it is defined."""
    alpha: float
    """Krippendorff's alpha for nominal values, at most 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """An item with different verdicts."""

    item: str
    verdicts: Mapping[str, str]


def measure_agreement(ratings: Iterable[Rating], *, verdicts: Sequence[str]) -> tuple[Agreement, ...]:
    """Return the agreement over all verdicts, then on each of ``verdicts``.

    Raises ``ValueError`` if a reviewer rated an item twice, or if a verdict is not among ``verdicts``.

    **Source**: Cohen, "A coefficient of agreement for nominal scales", 1960; Krippendorff, "Computing Krippendorff's
    Alpha-Reliability", 2011, by the ``krippendorff`` package.
    """
    table = _tabulate(ratings)
    known = {verdict for row in table.values() for verdict in row.values()}
    if not known <= set(verdicts):
        raise ValueError(f"the verdicts {sorted(known - set(verdicts))} are not among {', '.join(verdicts)}")
    shared = [row for row in table.values() if len(row) > 1]
    codes = {verdict: number for number, verdict in enumerate(verdicts)}
    overall = [{reviewer: codes[verdict] for reviewer, verdict in row.items()} for row in shared]
    measured = [_measure("", overall)]
    for verdict, code in codes.items():
        rows = [{reviewer: int(value == code) for reviewer, value in row.items()} for row in overall]
        measured.append(_measure(verdict, rows))
    return tuple(measured)


def list_disagreements(ratings: Iterable[Rating]) -> tuple[Disagreement, ...]:
    """Return the items with different verdicts, in the order of their first rating."""
    return tuple(
        Disagreement(item=item, verdicts=dict(sorted(row.items())))
        for item, row in _tabulate(ratings).items()
        if len(set(row.values())) > 1
    )


def _tabulate(ratings: Iterable[Rating]) -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = defaultdict(dict)
    for rating in ratings:
        if rating.reviewer in table[rating.item]:
            raise ValueError(f"{rating.reviewer} rated {rating.item} twice; give the verdict that counts")
        table[rating.item][rating.reviewer] = rating.verdict
    return dict(table)


def _measure(verdict: str, rows: Sequence[Mapping[str, int]]) -> Agreement:
    reviewers = sorted({reviewer for row in rows for reviewer in row})
    pairs = [a == b for row in rows for a, b in combinations(row.values(), 2)]
    kappas = [
        _kappa([(row[a], row[b]) for row in rows if a in row and b in row]) for a, b in combinations(reviewers, 2)
    ]
    defined = [kappa for kappa in kappas if not math.isnan(kappa)]
    return Agreement(
        verdict=verdict,
        num_items=len(rows),
        num_reviewers=len(reviewers),
        raw=sum(pairs) / len(pairs) if pairs else math.nan,
        kappa=sum(defined) / len(defined) if defined else math.nan,
        alpha=_alpha(rows, reviewers),
    )


def _kappa(pairs: Sequence[tuple[int, int]]) -> float:
    """Return Cohen's kappa from the values of two reviewers per item; nan if both always give one same value."""
    if len({value for pair in pairs for value in pair}) < 2:
        return math.nan
    first, second = zip(*pairs, strict=True)
    return float(cohen_kappa_score(first, second))


def _alpha(rows: Sequence[Mapping[str, int]], reviewers: Sequence[str]) -> float:
    if len({value for row in rows for value in row.values()}) < 2:
        return math.nan
    values = [[float(row.get(reviewer, math.nan)) for row in rows] for reviewer in reviewers]
    return float(krippendorff.alpha(reliability_data=np.array(values), level_of_measurement="nominal"))
