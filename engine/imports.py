"""Imports without garbage collection, which takes a quarter of the time that torch and transformers need."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause garbage collection."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def import_uncollected(name: str) -> ModuleType:
    """Import a module without garbage collection, and exempt all objects that exist then from later collections.

    Processes that are forked afterwards share the memory of these objects.
    """
    if name in sys.modules:
        return import_module(name)  # freezing again would keep garbage of the program
    with collection_paused():
        module = import_module(name)
        gc.freeze()
    return module
