"""All scores: definitions, counts and their computation, without torch; ``__all__`` is the public interface."""

from stepscope.eval.matching.turns import find_match
from stepscope.eval.metrics.score import corpus_metrics
from stepscope.eval.metrics.text import score_text
from stepscope.eval.metrics.videollm_online import LiveTurn, live_metrics

__all__ = ["LiveTurn", "corpus_metrics", "find_match", "live_metrics", "score_text"]
