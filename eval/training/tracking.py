"""Losses and scores of a training run for trackio, an optional experiment tracker."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from stepscope.engine.training.session import Validated
from stepscope.engine.training.trainer import StepLosses


class Tracker:
    """Sends each step and each validation to a project of trackio."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def add(self, event: StepLosses | Validated, *, step: int) -> None:
        """Send the losses of a step, or the score of a validation; undefined values are left out."""
        if isinstance(event, StepLosses):
            values = {f"loss/{name}": loss for name, loss in event.parts.items()}
        else:
            values = {"validation/score": event.score}
        known = {name: value for name, value in values.items() if math.isfinite(value)}
        if known:
            self._module.log(known, step=step)


@contextmanager
def open_tracker(project: str | None, *, name: str, settings: Mapping[str, Any]) -> Iterator[Tracker | None]:
    """Open a run of a project while the block lasts; None without a project.

    Raises ``ValueError`` if trackio is not installed.
    """
    if project is None:
        yield None
        return
    module = import_trackio()
    module.init(project=project, name=name, config=dict(settings), resume="allow")
    try:
        yield Tracker(module)
    finally:
        module.finish()


def import_trackio() -> Any:
    """Return the module. Raises ``ValueError`` if it is not installed."""
    try:
        return import_module("trackio")
    except ImportError:
        raise ValueError("--trackio needs the package trackio: pip install trackio") from None
