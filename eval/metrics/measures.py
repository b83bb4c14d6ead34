"""The registry of metrics: a module of this package that defines ``MEASURES`` contributes counts and scores.

``eval.metrics.score`` counts, pools and summarises all of them; ``metrics.toml`` defines their scores.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Generic, TypeVar

from stepscope.eval.metrics.counts import C
from stepscope.eval.metrics.matched_video import MatchedVideo

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(Generic[C]):
    """Counts of one video, and the scores that are computed from their sum over videos."""

    name: str
    """The field of ``VideoCounts`` that holds the counts."""
    kind: type[C]
    count: Callable[[MatchedVideo], C]
    summarize: Callable[[C], Mapping[str, float]]
    """Counts to scores under their names in ``metrics.toml``."""


def find_measures() -> tuple[Measure[Any], ...]:
    """Return the ``MEASURES`` of all modules of this package and of its folders, ordered by the module's own name.

    Raises ``ValueError`` if two measures share a name.
    """
    package = import_module("stepscope.eval.metrics")
    found = (module.name for module in walk_packages(package.__path__, "stepscope.eval.metrics."))
    names = sorted(
        (name for name in found if name != "stepscope.eval.metrics.score"), key=lambda name: name.rsplit(".", 1)[-1]
    )
    measures = tuple(measure for name in names for measure in getattr(import_module(name), "MEASURES", ()))
    if len({measure.name for measure in measures}) < len(measures):
        raise ValueError(f"two measures share a name; the names are {', '.join(one.name for one in measures)}")
    return measures


def add_fields(measures: Sequence[Measure[Any]]) -> Callable[[type[T]], type[T]]:
    """Return a class decorator, below ``dataclass``, that adds a field per measure unless the class declares it."""

    def add(kind: type[T]) -> type[T]:
        for measure in measures:
            if measure.name not in kind.__annotations__:
                kind.__annotations__[measure.name] = measure.kind
                setattr(kind, measure.name, field(default_factory=measure.kind))
        return kind

    return add
