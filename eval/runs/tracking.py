"""Losses and scores for trackio, an optional experiment tracker, which is imported only if it is asked for."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any


class Tracker:
    """A run of a project of trackio."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def log(self, values: Mapping[str, float], *, step: int | None = None) -> None:
        """Send values by name; undefined ones are left out."""
        known = {name: value for name, value in values.items() if math.isfinite(value)}
        if known:
            self._module.log(known, step=step)


@contextmanager
def open_tracker(project: str | None, folder: Path, settings: Mapping[str, Any]) -> Iterator[Tracker | None]:
    """Open a run of a project, named as a folder, while the block lasts; None without a project.

    Raises ``ValueError`` if trackio is not installed.
    """
    if project is None:
        yield None
        return
    module = import_trackio()
    module.init(project=project, name=folder.resolve().name, config=dict(settings), resume="allow")
    try:
        yield Tracker(module)
    finally:
        module.finish()


def import_trackio() -> Any:
    """Return the module. Raises ``ValueError`` if it is not installed."""
    try:
        return import_module("trackio")
    except ImportError:
        raise ValueError("--trackio needs trackio, which is not installed: pip install '.[trackio]'") from None
