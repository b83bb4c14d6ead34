"""Losses and scores for trackio, an optional experiment tracker, which is imported only if it is asked for."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

Log = Callable[[Mapping[str, float], int | None], None]
"""Sends values by name, of a step if it is given; undefined ones are left out."""


@contextmanager
def open_tracker(project: str | None, folder: Path, settings: Mapping[str, Any]) -> Iterator[Log]:
    """Open a run of a project, named as a folder, while the block lasts; without a project nothing is sent.

    Raises ``ValueError`` if trackio is not installed.
    """
    if project is None:
        yield lambda values, step: None
        return
    module = import_trackio()

    def log(values: Mapping[str, float], step: int | None) -> None:
        if known := {name: value for name, value in values.items() if math.isfinite(value)}:
            module.log(known, step=step)

    module.init(project=project, name=folder.resolve().name, config=dict(settings), resume="allow")
    try:
        yield log
    finally:
        module.finish()


def import_trackio() -> Any:
    """Return the module. Raises ``ValueError`` if it is not installed."""
    try:
        return import_module("trackio")
    except ImportError:
        raise ValueError("--trackio needs trackio, which is not installed: pip install '.[trackio]'") from None
