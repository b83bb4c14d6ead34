"""How far reviewers agree: raw, Cohen's kappa and Krippendorff's alpha, over all verdicts and per verdict.

A *rating* is what one reviewer said of one item; items that only one reviewer rated tell nothing and are left out. Per
verdict the question is yes or no: did they give this one or another? Undefined is nan: without items that two
reviewers rated, and for kappa and alpha where nobody ever said anything else, so that chance explains everything.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import krippendorff
import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """One reviewer's verdict on one item."""

    item: str
    """What was judged."""
    reviewer: str
    """Who judged; at most one rating per item."""
    verdict: str
    """What was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement on one verdict, or on all."""

    verdict: str
    """Which verdict against all others; empty for all verdicts told apart."""
    num_items: int
    """Items that at least two reviewers rated."""
    num_reviewers: int
    """Reviewers of those items."""
    raw: float
    """Share of pairs of ratings of one item that are equal, in [0, 1]; nan without pairs."""
    kappa: float
    """Cohen's kappa, at most 1; of more than two reviewers the mean over those pairs where it is defined."""
    alpha: float
    """Krippendorff's alpha for nominal values, at most 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """An item that reviewers do not agree on."""

    item: str
    """What was judged."""
    verdicts: Mapping[str, str]
    """Verdicts by reviewer."""


def measure_agreement(ratings: Iterable[Rating], *, verdicts: Sequence[str]) -> tuple[Agreement, ...]:
    """Return the agreement over all verdicts, then on each of ``verdicts``.

    Raises ``ValueError`` for two ratings of one item by one reviewer, or a verdict that is not among ``verdicts``.

    Source: Cohen, "A coefficient of agreement for nominal scales", 1960; Krippendorff, "Computing Krippendorff's
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
    """Return the items whose reviewers gave different verdicts, in the order in which they were first rated."""
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
    """Return Cohen's kappa of two reviewers' values, item by item."""
    if not pairs:
        return math.nan
    observed = sum(a == b for a, b in pairs) / len(pairs)
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    num_expected = sum(count * second[value] for value, count in first.items())
    if num_expected == len(pairs) ** 2:
        return math.nan
    expected = num_expected / len(pairs) ** 2
    return (observed - expected) / (1 - expected)


def _alpha(rows: Sequence[Mapping[str, int]], reviewers: Sequence[str]) -> float:
    if len({value for row in rows for value in row.values()}) < 2:
        return math.nan
    values = [[float(row.get(reviewer, math.nan)) for row in rows] for reviewer in reviewers]
    return float(krippendorff.alpha(reliability_data=np.array(values), level_of_measurement="nominal"))
