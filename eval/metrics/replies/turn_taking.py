"""Turn-taking scores: responses that match the reference, that are redundant, and that are missed.

A *matched* pair has a semantic score above the threshold; a *mismatched* pair agrees only in time. **Source**:
ProAssist, ``compute_metrics`` in ``stream_evaluator.py`` (9d0b2b2), which returns 0 or divides by 0 instead of nan.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.turns import Encode, Match, Pair, ZeroCost, find_match, pair_inside_spans
from stepscope.eval.metrics.counts import Counts, ratio
from stepscope.eval.metrics.matched_video import Measure

MATCH_WINDOWS_S: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "narration": (-2.5, 2.5),
        "ego4d": (-4.0, 8.5),
        "epickitchens": (-1.5, 3.0),
        "holoassist": (-1.5, 2.5),
        "egoexolearn": (-2.0, 3.5),
        "assembly101": (-2.0, 4.0),
        "wtag": (-3.0, 6.0),
        "": (-2.5, 2.5),
    }
)
"""Match window in seconds relative to a prediction. The first name that the dataset's name contains is used, so
``ego4d/narration`` has the window of ``narration``; every name contains the last one."""
SEMANTIC_THRESHOLD = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCounts(Counts):
    """Counts of one video, or their sums over many."""

    num_matched: int = 0
    """Pairs with a semantic score above the threshold."""
    num_mismatched: int = 0
    """The other pairs."""
    num_missed: int = 0
    num_redundant: int = 0
    num_scored: int = 0
    """Pairs with a semantic score at the threshold or above, whose scores are averaged."""
    semantic_score_sum: float = 0.0
    time_diff_sum_s: float = 0.0
    """Sum of the absolute time differences of the matched pairs, in seconds."""


def find_match_window(dataset: str) -> tuple[float, float]:
    """Return the published window (left, right) of a dataset in seconds."""
    return next(window for name, window in MATCH_WINDOWS_S.items() if name in dataset.lower())


def match_window(dataset: str, *, fps: float) -> tuple[int, int]:
    """Return the published window (left, right) of a dataset in frames, ``int(seconds * fps)``.

    **Source**: ``get_match_time_window`` in ``mmassist/eval/eval_utils.py``.
    """
    left_s, right_s = find_match_window(dataset)
    return int(left_s * fps), int(right_s * fps)


def match_responses(
    sample: Sample, outputs: Sequence[FrameOutput], *, encode: Encode, dataset: str = "", zero_cost: ZeroCost = "keep"
) -> Match:
    """Match a video's responses with the reference's; of two reference turns at a frame only the last one counts.

    A response inside the reply span of a turn that is missed is paired with it, see ``eval.matching.turns``.
    ``dataset`` selects the window, see ``match_window``; see ``eval.matching.turns.find_match`` for the rest.
    """
    num_frames = max(sample.num_frames, len(outputs))
    responses, texts = spoken_texts(outputs), reference_texts(sample)
    match = find_match(
        [responses.get(frame, "") for frame in range(num_frames)],
        [texts.get(frame, "") for frame in range(num_frames)],
        encode=encode,
        match_window=match_window(dataset, fps=sample.fps),
        zero_cost=zero_cost,
    )
    return pair_inside_spans(match, sample, responses, encode=encode)


def spoken_texts(outputs: Sequence[FrameOutput]) -> dict[int, str]:
    """Return the responses by frame, without empty ones."""
    return {output.frame_index: output.response for output in outputs if output.response}


def reference_texts(sample: Sample) -> dict[int, str]:
    """Return the reference's responses by frame."""
    return {frame_at(turn.time_s, sample.fps): turn.text for turn in sample.turns if turn.role == "assistant"}


def matched_pairs(match: Match, *, semantic_threshold: float = SEMANTIC_THRESHOLD) -> tuple[Pair, ...]:
    """Return the pairs with a semantic score above the threshold."""
    return tuple(pair for pair in match.pairs if pair.semantic_score > semantic_threshold)


def count_turns(match: Match, *, fps: float, semantic_threshold: float = SEMANTIC_THRESHOLD) -> TurnCounts:
    """Count the turns of one video at ``fps`` frames per second. Add the counts of videos for a corpus."""
    if not (isinstance(fps, int | float) and math.isfinite(fps) and fps > 0):
        raise ValueError(f"fps must be a positive number; got {fps!r}")
    matched = matched_pairs(match, semantic_threshold=semantic_threshold)
    scores = [pair.semantic_score for pair in match.pairs if pair.semantic_score >= semantic_threshold]
    return TurnCounts(
        num_matched=len(matched),
        num_mismatched=len(match.pairs) - len(matched),
        num_missed=len(match.missed),
        num_redundant=len(match.redundant),
        num_scored=len(scores),
        semantic_score_sum=math.fsum(scores),
        time_diff_sum_s=sum(abs(pair.gen_frame - pair.ref_frame) for pair in matched) / fps,
    )


def turn_metrics(counts: TurnCounts) -> dict[str, float]:
    """Return the turn-taking scores of the pooled counts; ``eval.metrics.definitions`` defines them."""
    pairs = counts.num_matched + counts.num_mismatched
    predictions, references = pairs + counts.num_redundant, pairs + counts.num_missed
    return {
        "jaccard_index": ratio(counts.num_matched, predictions + counts.num_missed),
        "precision": ratio(counts.num_matched, predictions),
        "recall": ratio(counts.num_matched, references),
        "F1": ratio(2 * counts.num_matched, predictions + references),
        "missing_rate": ratio(counts.num_missed, references),
        "redundant_rate": ratio(counts.num_redundant, predictions),
        "semantic_score": ratio(counts.semantic_score_sum, counts.num_scored),
        "time_diff": ratio(counts.time_diff_sum_s, counts.num_matched),
        "num_matched": float(counts.num_matched),
        "num_mismatched": float(counts.num_mismatched),
        "num_missed": float(counts.num_missed),
        "num_redundant": float(counts.num_redundant),
    }


MEASURES = (
    Measure(
        name="turns",
        kind=TurnCounts,
        count=lambda video: count_turns(video.match, fps=video.sample.fps),
        summarize=turn_metrics,
    ),
)
