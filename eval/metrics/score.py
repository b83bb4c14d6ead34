"""All scores of a video and of a split, from one set of counts.

``analyze_video`` matches and counts a video once. The counts of many videos are added and divided once (micro average),
so a video's row and the corpus use the same functions. An undefined score is nan.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.grading import CosineBands, Grade, RememberedGrades
from stepscope.eval.matching.turns import Encode, ZeroCost, find_match
from stepscope.eval.matching.updates import pair_updates
from stepscope.eval.metrics import decisions, dialogue_state, failures, segments, system, videollm_online
from stepscope.eval.metrics.counts import Counts, Pool, mean
from stepscope.eval.metrics.decisions import DecisionCounts, count_signals
from stepscope.eval.metrics.dialogue_state import DstCounts, StepStates, count_step_states
from stepscope.eval.metrics.failures import FailureCounts, RootCounts, add_grades, judge
from stepscope.eval.metrics.matched_video import JudgedVideo, LiveCounts, MatchedVideo, Measure
from stepscope.eval.metrics.moments import VideoMoment
from stepscope.eval.metrics.replies import repetition, reply_spans, response_timing, turn_taking
from stepscope.eval.metrics.replies.repetition import RepetitionCounts
from stepscope.eval.metrics.replies.reply_spans import SpanCounts, grade_responses
from stepscope.eval.metrics.replies.response_timing import ResponseTimingCounts
from stepscope.eval.metrics.replies.turn_taking import (
    SEMANTIC_THRESHOLD,
    TurnCounts,
    count_turns,
    match_responses,
    matched_pairs,
    reference_texts,
    spoken_texts,
    turn_metrics,
)
from stepscope.eval.metrics.segments import CountedStep, SegmentCounts
from stepscope.eval.metrics.system import SystemCounts
from stepscope.eval.metrics.text import TextCounts, TextPairs, TextScorer, score_text, undefined_texts

ScoreTexts = Callable[[TextCounts], dict[str, float]]
MEASURES: Final[tuple[Measure[Any], ...]] = (
    *decisions.MEASURES,
    *dialogue_state.MEASURES,
    *failures.MEASURES,
    *repetition.MEASURES,
    *reply_spans.MEASURES,
    *response_timing.MEASURES,
    *segments.MEASURES,
    *system.MEASURES,
    *turn_taking.MEASURES,
    *videollm_online.MEASURES,
)
"""All measures. The counts of each are the field of ``VideoCounts`` that has its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoCounts(Counts):
    """All counts of one video, or their sums over many."""

    num_videos: int = 0
    texts: TextCounts = field(default_factory=TextCounts)
    """Texts of the matched pairs; empty before ``count_texts``."""
    speaking: DecisionCounts = field(default_factory=DecisionCounts)
    updating: DecisionCounts = field(default_factory=DecisionCounts)
    dst: DstCounts = field(default_factory=DstCounts)
    failures: FailureCounts = field(default_factory=FailureCounts)
    roots: RootCounts = field(default_factory=RootCounts)
    repetition: RepetitionCounts = field(default_factory=RepetitionCounts)
    spans: SpanCounts = field(default_factory=SpanCounts)
    response_timing: ResponseTimingCounts = field(default_factory=ResponseTimingCounts)
    segments: SegmentCounts = field(default_factory=SegmentCounts)
    system: SystemCounts = field(default_factory=SystemCounts)
    turns: TurnCounts = field(default_factory=TurnCounts)
    live: LiveCounts = field(default_factory=LiveCounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoAnalysis:
    """The analysis of one video: its counts, matched turns and failures."""

    counts: VideoCounts
    pairs: TextPairs
    """Texts of the matched pairs, which are scored together with the whole split."""
    judged: JudgedVideo
    steps: tuple[StepStates, ...]
    """Frames by the state of each step of the task, in order."""
    signals: Mapping[str, DecisionCounts] = field(default_factory=dict)
    """Counts of each named signal that decides."""
    moments: tuple[VideoMoment, ...] = ()
    """Its turns, failures and near misses, if they were listed."""
    step_counts: tuple[CountedStep, ...] = ()
    """The counts of each step, if they were counted."""
    stale_roots: str = ""
    """Why the roots that a diagnosis found are not counted; empty if they are, and without a diagnosis."""


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
    grade: Grade | None = None,
    specs: Sequence[SignalSpec] = (),
    num_roots: float = math.nan,
) -> VideoAnalysis:
    """Match the turns of one video, and count them and its states.

    A reference turn after the last output counts as missed.

    ``outputs`` has one record per frame. ``dataset`` and ``zero_cost`` are those of ``match_responses``. ``live`` are
    the counts of the teacher-forced pass, if it was run, and ``wall_s`` is the time of the whole run, if known. Without
    ``has_states`` the scores of updates and states are undefined. ``grade`` grades replies inside reply spans, by
    default by ``CosineBands``. ``specs`` describe the named signals. ``num_roots`` are those of a diagnosis, if known.

    Raises ``ValueError`` for a sample without a reference: its turns may be a copy of these outputs.
    """
    if not sample.has_reference:
        raise ValueError(f"{sample.video_id} has no reference, so it has no scores")
    match = match_responses(sample, outputs, encode=encode, dataset=dataset, zero_cost=zero_cost)
    updates = pair_updates(outputs, sample)
    graded = RememberedGrades(grade or CosineBands(encode))
    judged = add_grades(
        judge(sample, outputs, match, updates, has_states=has_states), grade_responses(sample, outputs, grade=graded)
    )
    video = MatchedVideo(
        sample=sample,
        outputs=outputs,
        match=match,
        updates=updates,
        judged=judged,
        live=live,
        wall_s=wall_s,
        has_states=has_states,
        encode=encode,
        grade=graded,
        num_roots=num_roots,
    )
    pairs, responses, texts = matched_pairs(match), spoken_texts(outputs), reference_texts(sample)
    return VideoAnalysis(
        counts=VideoCounts(num_videos=1, **{measure.name: measure.count(video) for measure in MEASURES}),
        pairs=TextPairs(
            references=[texts[pair.ref_frame] for pair in pairs],
            hypotheses=[responses[pair.gen_frame] for pair in pairs],
        ),
        judged=judged,
        steps=count_step_states(sample, outputs) if has_states else (),
        signals=count_signals(specs, sample, outputs),
    )


def list_references(samples: Iterable[Sample]) -> list[str]:
    """Return the references of the text scores of a split, which do not depend on a run."""
    return [text for sample in samples for text in reference_texts(sample).values()]


def count_texts(videos: Sequence[VideoAnalysis], scorer: TextScorer) -> list[VideoCounts]:
    """Return the counts of a split's videos, including those of their texts."""
    texts = scorer.count([video.pairs for video in videos])
    return [replace(video.counts, texts=counts) for video, counts in zip(videos, texts, strict=True)]


def score_counts(counts: VideoCounts, *, score_texts: ScoreTexts = undefined_texts) -> dict[str, float]:
    """Return all scores of one video, or of added counts; text scores are nan unless ``score_texts`` computes them."""
    scores: dict[str, float] = {}
    for measure in MEASURES:
        scores.update(measure.summarize(getattr(counts, measure.name)))
    return _add_texts(scores, score_texts(counts.texts)) | {"decision_f1_1s": decision_f1(scores)}


def decision_f1(scores: Mapping[str, float]) -> float:
    """Return the mean of the heads' event F1 at 1 s, over those that are defined; nan if none is."""
    of_heads = [scores.get(f"{head}_event_f1_1s", math.nan) for head in ("speaking", "dst_update")]
    return mean([score for score in of_heads if not math.isnan(score)])


def corpus_metrics(
    videos: Sequence[tuple[Sequence[str], Sequence[str]]],
    *,
    fps: float,
    encode: Encode,
    match_window: tuple[int, int],
    dist_func_factor: float = 0.3,
    dist_func_power: float = 1.5,
    semantic_threshold: float = SEMANTIC_THRESHOLD,
    zero_cost: ZeroCost = "keep",
    score_texts: Callable[[Sequence[str], Sequence[str]], dict[str, float]] = score_text,
) -> dict[str, float]:
    """Score a corpus of generated and reference texts, and return the scores under the published keys.

    Args:
        videos: Per video the generated and the reference text of each frame, ``""`` for silence.
        fps: Frames per second, positive.
        encode: Function from ``N`` texts to embeddings ``[N, D]``.
        match_window: (left, right) in frames; see ``eval.matching.turns.find_match``.
        dist_func_factor: Weight of the distance cost, from 0.
        dist_func_power: Its exponent, from 0.
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
    return _add_texts(turn_metrics(Pool(rows, TurnCounts).total()), score_texts(references, hypotheses))


def _add_texts(scores: dict[str, float], texts: Mapping[str, float]) -> dict[str, float]:
    return {**scores, **texts} | {f"{name}_w": scores["jaccard_index"] * value for name, value in texts.items()}
