"""Text scores, and the Java programs behind them."""

from stepscope.eval.metrics.text.scorer import TextCounts, TextPairs, TextScorer, score_text, undefined_texts

__all__ = ["TextCounts", "TextPairs", "TextScorer", "score_text", "undefined_texts"]
