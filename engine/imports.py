"""Imports at first use, and without garbage collection, which takes a quarter of the time of torch and transformers."""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


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


def import_on_use(
    namespace: dict[str, Any], modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose public names load at their first use.

    ``namespace`` is ``globals()`` of the package, ``modules`` names the module of each public name.
    """

    def get_attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(modules[name]), name)
        return value

    return get_attribute, lambda: sorted({*namespace, *modules})
