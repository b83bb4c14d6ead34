"""All scores: definitions, counts and their computation.

The names in ``__all__`` are the public interface. They load on first use and need no torch.
"""

from typing import TYPE_CHECKING

from engine.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from eval.matching.turns import find_match as find_match
    from eval.metrics.score import corpus_metrics as corpus_metrics
    from eval.metrics.text import score_text as score_text
    from eval.metrics.videollm_online import LiveTurn as LiveTurn
    from eval.metrics.videollm_online import live_metrics as live_metrics
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        LiveTurn="eval.metrics.videollm_online",
        corpus_metrics="eval.metrics.score",
        find_match="eval.matching.turns",
        live_metrics="eval.metrics.videollm_online",
        score_text="eval.metrics.text",
    )
