"""All scores of a video and of a split, from one set of counts.

``analyze_video`` matches and counts a video once; tables, charts, comparisons and the player read its analysis.
``summarize`` adds the counts of many videos and divides once (micro average), so a video's row and the corpus use the
same functions. ``eval.metrics.definitions`` defines every score; an undefined score is nan.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.records import FrameOutput, frame_at
from eval.data.samples import Sample
from eval.matching.turns import Encode, ZeroCost, find_match
from eval.matching.updates import pair_updates
from eval.metrics.counts import Counts, Pool, Values, mean, ratio
from eval.metrics.decisions import DecisionCounts, count_decisions, summarize_decisions
from eval.metrics.dialogue_state import DstCounts, StepStates, count_dst, count_step_states, summarize_dst
from eval.metrics.failures import FailureCounts, JudgedVideo, count_failures, judge, summarize_failures
from eval.metrics.text import TextCounts, TextPairs, TextScorer, score_text, undefined_texts
from eval.metrics.turn_taking import (
    TurnCounts,
    count_turns,
    match_responses,
    matched_pairs,
    reference_texts,
    spoken_texts,
    turn_metrics,
)
from eval.metrics.videollm_online import LiveCounts, summarize_live

ScoreTexts = Callable[[TextCounts], dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemCounts(Counts):
    """Latencies and wall time of one or many videos."""

    num_frames: int = 0
    """Frames."""
    num_in_time: int = 0
    """Frames done before the next was due."""
    latencies_ms: Values = field(default_factory=Values.of)
    """Per frame, the known time of its model passes."""
    first_token_ms: Values = field(default_factory=Values.of)
    """Per frame with a text, the time from its decision to its first token."""
    num_timed_frames: int = 0
    """Frames of the videos whose wall time is known."""
    wall_s: float = 0.0
    """Wall time of those videos: decoding, vision and model; with stored features only the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoCounts(Counts):
    """All counts of one video, or their sums over many."""

    num_videos: int = 0
    """Videos."""
    turns: TurnCounts = field(default_factory=TurnCounts)
    """Responses matched with references."""
    texts: TextCounts = field(default_factory=TextCounts)
    """Texts of the matched pairs; empty before ``count_texts``."""
    speaking: DecisionCounts = field(default_factory=DecisionCounts)
    """Speaking, per frame."""
    updating: DecisionCounts = field(default_factory=DecisionCounts)
    """Updating the state, per frame."""
    dst: DstCounts = field(default_factory=DstCounts)
    """Updates and states."""
    failures: FailureCounts = field(default_factory=FailureCounts)
    """The failures at which the player stops."""
    live: LiveCounts = field(default_factory=LiveCounts)
    """The teacher-forced scores; empty unless that pass was run."""
    system: SystemCounts = field(default_factory=SystemCounts)
    """Latencies and wall time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoAnalysis:
    """The analysis of one video: its counts, matched turns and failures."""

    counts: VideoCounts
    """All counts except those of texts."""
    pairs: TextPairs
    """Texts of the matched pairs, which are scored together with the whole split."""
    judged: JudgedVideo
    """Every turn with its outcome, and all failures."""
    steps: tuple[StepStates, ...]
    """Frames by the state of each step of the task, in order."""


def analyze_video(
    sample: Sample,
    outputs: Sequence[FrameOutput],
    *,
    encode: Encode,
    dataset: str = "",
    zero_cost: ZeroCost = "keep",
    live: LiveCounts | None = None,
    wall_s: float | None = None,
    has_states: bool = True,
) -> VideoAnalysis:
    """Match the turns of one video, and count them and its states.

    A reference turn after the last output counts as missed in turn-taking. It has no frame, so the decision scores
    leave it out.

    Args:
        sample: The reference.
        outputs: The assistant's outputs, one record per frame.
        encode: Function from ``N`` texts to embeddings ``[N, D]``.
        dataset: Name that selects the match window; see ``eval.metrics.turn_taking.MATCH_WINDOWS_S``.
        zero_cost: ``keep`` or ``drop`` edges of cost 0; see ``eval.matching.turns.find_match``.
        live: Counts of the teacher-forced pass, if it was run.
        wall_s: Wall time of the whole run of the video in seconds, if known.
        has_states: Whether the system has a dialogue state; if not, the scores of updates and states are undefined.
    """
    match = match_responses(sample, outputs, encode=encode, dataset=dataset, zero_cost=zero_cost)
    pairs, updates = matched_pairs(match), pair_updates(outputs, sample)
    judged = judge(sample, outputs, match, updates)
    counts = VideoCounts(
        num_videos=1,
        turns=count_turns(match, fps=sample.fps),
        speaking=_count_decisions(
            sample, "assistant", [(output.speak_prob, output.response is not None) for output in outputs]
        ),
        updating=_count_decisions(sample, "update", [(output.update_prob, bool(output.updates)) for output in outputs])
        if has_states
        else DecisionCounts(),
        dst=count_dst(outputs, sample, match=updates) if has_states else DstCounts(),
        failures=count_failures(judged),
        live=live or LiveCounts(),
        system=_count_times(sample, outputs, wall_s),
    )
    responses, texts = spoken_texts(outputs), reference_texts(sample)
    return VideoAnalysis(
        counts=counts,
        pairs=TextPairs(
            references=[texts[pair.ref_frame] for pair in pairs],
            hypotheses=[responses[pair.gen_frame] for pair in pairs],
        ),
        judged=judged,
        steps=count_step_states(sample, outputs),
    )


def count_texts(videos: Sequence[VideoAnalysis], scorer: TextScorer) -> list[VideoCounts]:
    """Return the counts of a split's videos, including those of their texts."""
    texts = scorer.count([video.pairs for video in videos])
    return [replace(video.counts, texts=counts) for video, counts in zip(videos, texts, strict=True)]


def reference_frames(sample: Sample, role: str) -> list[int]:
    """Return the frames at which the reference has a turn of a role."""
    return [frame_at(turn.time_s, sample.fps) for turn in sample.turns if turn.role == role]


def summarize(rows: Sequence[VideoCounts], *, score_texts: ScoreTexts = undefined_texts) -> dict[str, float]:
    """Return all scores of the pooled counts; text scores are nan unless ``score_texts`` computes them."""
    return score_counts(Pool(rows, VideoCounts).total(), score_texts=score_texts)


def score_counts(counts: VideoCounts, *, score_texts: ScoreTexts = undefined_texts) -> dict[str, float]:
    """Return all scores of counts that are already pooled; see ``summarize``."""
    scores = summarize_failures(counts.failures) | _turn_scores(counts.turns, score_texts(counts.texts))
    for prefix, decisions in (("speaking", counts.speaking), ("dst_update", counts.updating)):
        scores |= {f"{prefix}_{name}": value for name, value in summarize_decisions(decisions).items()}
    scores["decision_f1_1s"] = decision_f1(scores)
    return scores | summarize_dst(counts.dst) | summarize_live(counts.live) | _speed(counts.system)


def decision_f1(scores: Mapping[str, float]) -> float:
    """Return the mean of the heads' event F1 at 1 s, over those that are defined; nan if none is."""
    of_heads = [scores[f"{head}_event_f1_1s"] for head in ("speaking", "dst_update")]
    return mean([score for score in of_heads if not math.isnan(score)])


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
    score_texts: Callable[[Sequence[str], Sequence[str]], dict[str, float]] = score_text,
) -> dict[str, float]:
    """Score a corpus of generated and reference texts, and return the scores under the published keys.

    Args:
        videos: Per video the generated and the reference text of each frame, ``""`` for silence.
        fps: Frames per second, positive.
        encode: Function from ``N`` texts to embeddings ``[N, D]``.
        match_window: (left, right) in frames; see ``eval.matching.turns.find_match``.
        dist_func_factor: Weight of the distance cost.
        dist_func_power: Exponent of the distance cost.
        semantic_threshold: A pair matches if its semantic score exceeds this.
        zero_cost: ``keep`` or ``drop`` edges of cost 0; see ``find_match``.
        score_texts: Function that scores the texts; pass ``TextScorer.score`` to reuse a running process.

    **Source**: ProAssist, ``StreamEvaluator.compute_metrics``.
    """
    rows: list[TurnCounts] = []
    references: list[str] = []
    hypotheses: list[str] = []
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
        rows.append(count_turns(match, fps=fps, semantic_threshold=semantic_threshold))
        references += [ref[pair.ref_frame] for pair in pairs]
        hypotheses += [gen[pair.gen_frame] for pair in pairs]
    return _turn_scores(Pool(rows, TurnCounts).total(), score_texts(references, hypotheses))


def _turn_scores(counts: TurnCounts, texts: dict[str, float]) -> dict[str, float]:
    scores = turn_metrics(counts)
    return scores | texts | {f"{name}_w": scores["jaccard_index"] * value for name, value in texts.items()}


def _count_decisions(sample: Sample, role: str, decisions: Sequence[tuple[float, bool]]) -> DecisionCounts:
    return count_decisions(
        [prob for prob, _ in decisions],
        [decided for _, decided in decisions],
        expected_frames=[frame for frame in reference_frames(sample, role) if frame < len(decisions)],
        fps=sample.fps,
    )


def _count_times(sample: Sample, outputs: Sequence[FrameOutput], wall_s: float | None) -> SystemCounts:
    return SystemCounts(
        num_frames=len(outputs),
        num_in_time=sum(output.latency_ms <= 1000 / sample.fps for output in outputs),
        latencies_ms=Values.of(output.latency_ms for output in outputs if not math.isnan(output.latency_ms)),
        first_token_ms=Values.of(output.first_token_ms for output in outputs if output.first_token_ms is not None),
        num_timed_frames=0 if wall_s is None else len(outputs),
        wall_s=wall_s or 0.0,
    )


def _speed(counts: SystemCounts) -> dict[str, float]:
    return {
        "num_frames": float(counts.num_frames),
        "frames_per_s": ratio(counts.num_timed_frames, counts.wall_s),
        "latency_mean_ms": counts.latencies_ms.mean(),
        "latency_p50_ms": counts.latencies_ms.quantile(0.5),
        "latency_p95_ms": counts.latencies_ms.quantile(0.95),
        "first_token_p50_ms": counts.first_token_ms.quantile(0.5),
        "first_token_p95_ms": counts.first_token_ms.quantile(0.95),
        "in_time_share": ratio(counts.num_in_time, counts.latencies_ms.total),
    }
