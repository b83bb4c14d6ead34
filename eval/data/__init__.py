"""Samples of a split: loading, writing and the published data formats.

``read_samples`` is the public interface. It loads on first use and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eval.data.loading import read_samples

__all__ = ["read_samples"]

if not TYPE_CHECKING:  # a type checker sees the import above, and reports unknown names

    def __getattr__(name: str) -> object:
        """Import a public name on first use. Raises ``AttributeError`` for an unknown name."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module("eval.data.loading"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
