"""All scores of a video and of a split, from one set of counts.

``score_video`` counts one video; ``summarize`` adds the counts of many and divides once (micro average), so a video's
row and the corpus go through the same functions. An undefined score is nan.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from statistics import quantiles

import numpy as np

from engine.records import FrameOutput
from eval.counts import Counts, mean
from eval.decisions import DecisionCounts, count_decisions, summarize_decisions
from eval.dst import DstCounts, count_dst, summarize_dst
from eval.matching import ZeroCost, find_match
from eval.nlg import score_text
from eval.samples import Sample
from eval.turns import TurnCounts, count_turns, match_window, matched_pairs, turn_metrics

Encode = Callable[[list[str]], np.ndarray]
ScoreText = Callable[[Sequence[str], Sequence[str]], dict[str, float]]
EPSILON = 1e-6  # of a frame: 0.7 s * 10 fps is 6.999...


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoCounts(Counts):
    """Everything that is counted in one video, or, added up, in many."""

    num_videos: int = 0
    """Videos."""
    turns: TurnCounts = field(default_factory=TurnCounts)
    """Responses matched with references."""
    speaking: DecisionCounts = field(default_factory=DecisionCounts)
    """Speaking, per frame."""
    updating: DecisionCounts = field(default_factory=DecisionCounts)
    """Updating the state, per frame."""
    dst: DstCounts = field(default_factory=DstCounts)
    """Updates and states."""
    references: tuple[str, ...] = ()
    """References of the matched pairs."""
    hypotheses: tuple[str, ...] = ()
    """Their predictions."""
    latencies_ms: tuple[float, ...] = ()
    """Per frame, the time of its model passes."""
    num_in_time: int = 0
    """Frames done before the next was due."""


def score_video(
    sample: Sample,
    outputs: Sequence[FrameOutput],
    *,
    encode: Encode,
    dataset: str = "",
    zero_cost: ZeroCost = "keep",
) -> VideoCounts:
    """Count one video.

    Args:
        sample: The reference.
        outputs: What the assistant did, one record per frame.
        encode: Texts to embeddings ``[N, D]``.
        dataset: Name that chooses the match window; see ``eval.turns.MATCH_WINDOWS_S``.
        zero_cost: ``keep`` or ``drop`` matches that cost nothing; see ``eval.matching``.
    """
    num_frames = max(sample.num_frames, len(outputs))
    spoken, updated = reference_frames(sample, "assistant"), reference_frames(sample, "update")
    said = {output.frame_index: output.response for output in outputs if output.response}
    texts = {turn_frame(turn.time_s, sample.fps): turn.text for turn in sample.turns if turn.role == "assistant"}
    match = find_match(
        [said.get(frame, "") for frame in range(num_frames)],
        [texts.get(frame, "") for frame in range(num_frames)],
        encode=encode,
        match_window=match_window(dataset, fps=sample.fps),
        zero_cost=zero_cost,
    )
    pairs = matched_pairs(match)
    in_view = [output for output in outputs if output.frame_index < num_frames]
    return VideoCounts(
        num_videos=1,
        turns=count_turns(match, fps=sample.fps),
        speaking=count_decisions(
            [output.speak_prob for output in in_view],
            [output.response is not None for output in in_view],
            expected_frames=[frame for frame in spoken if frame < len(in_view)],
            fps=sample.fps,
        ),
        updating=count_decisions(
            [output.update_prob for output in in_view],
            [bool(output.updates) for output in in_view],
            expected_frames=[frame for frame in updated if frame < len(in_view)],
            fps=sample.fps,
        ),
        dst=count_dst(outputs, sample),
        references=tuple(texts[pair.ref_frame] for pair in pairs),
        hypotheses=tuple(said[pair.gen_frame] for pair in pairs),
        latencies_ms=tuple(output.latency_ms for output in outputs),
        num_in_time=sum(output.latency_ms <= 1000 / sample.fps for output in outputs),
    )


def turn_frame(time_s: float, fps: float) -> int:
    """Return the frame of a turn, ``floor(time_s * fps)``."""
    return int(time_s * fps + EPSILON)


def reference_frames(sample: Sample, role: str) -> list[int]:
    """Return the frames at which the reference has a turn of a role."""
    return [turn_frame(turn.time_s, sample.fps) for turn in sample.turns if turn.role == role]


def summarize(rows: Sequence[VideoCounts], *, text_scores: ScoreText | None = None) -> dict[str, float]:
    """Return the scores of the pooled counts; BLEU, CIDEr and METEOR only with ``text_scores``."""
    counts = reduce(add, rows, VideoCounts())
    scores = turn_metrics(counts.turns) if text_scores is None else _turn_scores(counts, text_scores)
    for prefix, decisions in (("speaking", counts.speaking), ("dst_update", counts.updating)):
        scores |= {f"{prefix}_{name}": value for name, value in summarize_decisions(decisions).items()}
    return scores | summarize_dst(counts.dst) | _speed(counts)


def corpus_metrics(
    videos: Sequence[tuple[Sequence[str], Sequence[str]]],
    *,
    fps: float,
    encode: Encode,
    match_window: tuple[int, int],
    dist_func_factor: float = 0.3,
    dist_func_power: float = 1.5,
    semantic_threshold: float = 0.5,
    zero_cost: ZeroCost = "keep",
) -> dict[str, float]:
    """Score videos given as generated and reference texts per frame, ``""`` = silent, with the published keys.

    ``match_window`` is in frames; see ``eval.matching.find_match`` for the other arguments.

    **Source**: ProAssist, ``StreamEvaluator.compute_metrics``.
    """
    counts = VideoCounts()
    for gen, ref in videos:
        match = find_match(
            gen,
            ref,
            encode=encode,
            match_window=match_window,
            dist_func_factor=dist_func_factor,
            dist_func_power=dist_func_power,
            zero_cost=zero_cost,
        )
        pairs = matched_pairs(match, semantic_threshold=semantic_threshold)
        counts += VideoCounts(
            turns=count_turns(match, fps=fps, semantic_threshold=semantic_threshold),
            references=tuple(ref[pair.ref_frame] for pair in pairs),
            hypotheses=tuple(gen[pair.gen_frame] for pair in pairs),
        )
    return _turn_scores(counts, score_text)


def _turn_scores(counts: VideoCounts, text_scores: ScoreText) -> dict[str, float]:
    scores, texts = turn_metrics(counts.turns), text_scores(counts.references, counts.hypotheses)
    return scores | texts | {f"{name}_w": scores["jaccard_index"] * value for name, value in texts.items()}


def _speed(counts: VideoCounts) -> dict[str, float]:
    latencies = counts.latencies_ms
    cuts = quantiles(latencies, n=20, method="inclusive") if len(latencies) > 1 else [float("nan")] * 19
    return {
        "latency_mean_ms": mean(latencies),
        "latency_p50_ms": cuts[9],
        "latency_p95_ms": cuts[18],
        "in_time_share": mean([1.0] * counts.num_in_time + [0.0] * (len(latencies) - counts.num_in_time)),
    }
