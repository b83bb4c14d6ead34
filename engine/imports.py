"""Imports without garbage collection, which takes a quarter of the time that torch and transformers need."""

import gc
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
    with collection_paused():
        module = import_module(name)
        gc.freeze()
    return module
