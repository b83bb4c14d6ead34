"""All scores: definitions, counts and their computation.

The names in ``__all__`` are the public interface. They load on first use and need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eval.matching.turns import find_match
    from eval.metrics.score import corpus_metrics
    from eval.metrics.text import score_text
    from eval.metrics.videollm_online import LiveTurn, live_metrics

__all__ = ["LiveTurn", "corpus_metrics", "find_match", "live_metrics", "score_text"]

_MODULES = {
    "LiveTurn": "eval.metrics.videollm_online",
    "corpus_metrics": "eval.metrics.score",
    "find_match": "eval.matching.turns",
    "live_metrics": "eval.metrics.videollm_online",
    "score_text": "eval.metrics.text",
}

if not TYPE_CHECKING:  # a type checker sees the imports above, and reports unknown names

    def __getattr__(name: str) -> object:
        """Import a public name on first use. Raises ``AttributeError`` for an unknown name."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
