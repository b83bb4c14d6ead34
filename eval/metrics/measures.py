"""A measure: the counts of a video, and the scores that are computed from their sum over videos."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic

from stepscope.eval.metrics.counts import C
from stepscope.eval.metrics.matched_video import MatchedVideo


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(Generic[C]):
    """One kind of counts; ``eval.metrics.score`` lists those of all modules."""

    name: str
    """The field of ``VideoCounts`` that holds the counts."""
    kind: type[C]
    count: Callable[[MatchedVideo], C]
    summarize: Callable[[C], Mapping[str, float]]
    """Counts to scores under their names in ``metrics.toml``."""
