"""Public names of a package that are imported on first use, so that its light modules stay light."""

import sys
from collections.abc import Callable
from importlib import import_module


def lazy_exports(package: str, **names: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package.

    The package states the same names once more under ``TYPE_CHECKING``, for type checkers and editors.

    Args:
        package: Name of the package.
        names: The module of each public name, such as ``Task="engine.control.controller"``.
    """
    namespace = vars(sys.modules[package])

    def get(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(names[name]), name)
        return value

    return list(names), get, lambda: sorted({*namespace, *names})
