"""Repetition: the share of responses that repeat an earlier response of their video.

**Source**: the duplicate ratio of ProactiveVideoQA and MMDuet2.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stepscope.eval.matching.turns import Encode, unit_vectors
from stepscope.eval.metrics.counts import Counts, ratio
from stepscope.eval.metrics.matched_video import MatchedVideo, Measure
from stepscope.eval.metrics.replies.turn_taking import spoken_texts

SAME_COSINE: Final = 0.9
"""Cosine from which two responses count as the same."""
_SIGNS: Final = re.compile(r"[\W_]+")
_ROUNDING: Final = 1e-6


def normalize_text(text: str) -> str:
    """Return a text in lower case with single spaces in place of signs; a text of signs alone is unchanged."""
    return _SIGNS.sub(" ", text.casefold()).strip() or text


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionCounts(Counts):
    """Responses of one or many videos."""

    num_responses: int = 0
    num_equal: int = 0
    """Responses with the normalised text of an earlier one."""
    num_similar: int = 0
    """Responses with a cosine of at least ``SAME_COSINE`` to an earlier one."""


def count_repetition(texts: Sequence[str], *, encode: Encode) -> RepetitionCounts:
    """Count the responses of one video, in order of time."""
    return RepetitionCounts(
        num_responses=len(texts),
        num_equal=len(texts) - len({normalize_text(text) for text in texts}),
        num_similar=_count_similar(texts, encode) if len(texts) > 1 else 0,
    )


def _count_similar(texts: Sequence[str], encode: Encode) -> int:
    distinct = list(dict.fromkeys(texts))
    vectors = unit_vectors(encode(distinct), num_texts=len(distinct))
    is_similar = [
        bool((vectors[:number] @ vectors[number] >= SAME_COSINE - _ROUNDING).any()) for number in range(len(distinct))
    ]
    return len(texts) - len(distinct) + int(np.sum(is_similar))


def _summarize(counts: RepetitionCounts) -> dict[str, float]:
    return {
        "duplicate_ratio": ratio(counts.num_equal, counts.num_responses),
        "duplicate_ratio_cosine": ratio(counts.num_similar, counts.num_responses),
    }


def _count(video: MatchedVideo) -> RepetitionCounts:
    texts = spoken_texts(video.outputs)
    return count_repetition([texts[frame] for frame in sorted(texts)], encode=video.encode)


MEASURES = (Measure(name="repetition", kind=RepetitionCounts, count=_count, summarize=_summarize),)
