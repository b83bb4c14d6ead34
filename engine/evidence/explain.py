"""Explains one decision of a finished recording: on which pictures and texts of its context it rests.

Each experiment changes one thing and reads the log-odds again. A picture is replaced by the one before it, "it had not
happened yet": without it, all later tokens would move, and the effect of their positions would count.

**Source**: leave-one-out as the change of the log-likelihood, AttriBoT (2411.15102); random weights as the control,
Sanity checks for saliency maps (1810.03292).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from stepscope.engine.evidence.case import ContextFrame, DecisionCase
from stepscope.engine.evidence.records import (
    Contrast,
    Evidence,
    FrameEvidence,
    LastFrames,
    PatchEvidence,
    Target,
    TextEvidence,
)
from stepscope.engine.evidence.scoring import ContextScorer, randomize
from stepscope.engine.inference.fed_context import FedContext
from stepscope.engine.io.arguments import check_type
from stepscope.engine.model.features.frame_encoder import FrameResizer, encode_images
from stepscope.engine.model.vision_language import VisionLanguageModel
from stepscope.engine.records import FrameOutput
from stepscope.engine.replay import Recording

_GRID = 8
"""Patches per side of a picture."""
Pictures = Mapping[int, NDArray[np.uint8]]
"""RGB pictures ``[H, W, 3]`` by frame."""
Pair = tuple[float, float]
"""Log-odds of the model, and of one with random weights."""
Score = Callable[[Sequence[FedContext]], list[Pair]]


def explain_decision(
    recording: Recording,
    frame_index: int,
    *,
    target: Target | Contrast | None = None,
    pictures: Pictures | None = None,
    patches_frame: int | Literal["strongest"] | None = None,
    with_texts: bool = True,
    max_tokens: int = 200_000,
    random_model: VisionLanguageModel | None = None,
    seed: int = 0,
) -> Evidence:
    """Return the evidence for one decision of a finished recording. All values are natural log-odds.

    Args:
        recording: A run, or a branch of one, whose turns are its own: not probed.
        frame_index: The frame of the decision.
        target: ``speak``, ``update``, ``silence`` or a ``Contrast`` of two texts of the turn; by default what the run
            did at the frame.
        pictures: The pictures of the run by frame, in any size. Without them, features give the differences.
        patches_frame: The frame of the context whose picture is examined patch by patch; it needs its picture and the
            one before it. ``strongest`` is that with the largest evidence, of those that have both.
        with_texts: Whether lines of the prompt, turns and swaps of steps are tried.
        max_tokens: Most tokens to feed for the frames one by one. The last ones come first, and those that keep the
            decision in any case.
        random_model: The model of ``randomize`` for this checkpoint, if several decisions are explained.
        seed: Seed of the random weights.

    Raises ``ValueError`` for a frame, target or picture that does not exist.
    """
    check_type("recording", recording, Recording, "a Recording")
    if recording.intervention.is_probed:
        raise ValueError("a probed run keeps other turns than its outputs; explain a branch without is_probed")
    trace, frames = recording.trace(frame_index)
    output, model = recording.outputs[frame_index], recording.checkpoint.model
    target = target or _find_target(output)
    case = DecisionCase(recording, trace, frame_index=frame_index, target=target)
    features = {number: frame.features for number, frame in enumerate(frames)}
    trained = ContextScorer(model, case.context, case.probe, features)
    random = ContextScorer(random_model or randomize(model, seed=seed), case.context, case.probe, features)

    def score(contexts: Sequence[FedContext]) -> list[Pair]:
        own, other = ([reading.log_odds for reading in scorer.score(contexts)] for scorer in (trained, random))
        return list(zip(own, other, strict=True))

    (plain,) = score([case.context])
    last_frames = _find_last_frames(case, trained)
    fewest = min(trial.num_frames for trial in last_frames if trial.is_kept)
    threshold = case.probe.threshold
    evidence = Evidence(
        frame_index=frame_index,
        time_s=output.time_s,
        target="text" if isinstance(target, Contrast) else target,
        contrast=target if isinstance(target, Contrast) else None,
        log_odds=plain[0],
        random_log_odds=plain[1],
        threshold=threshold if math.isfinite(threshold) else None,
        frames=_explain_frames(case, score, plain, _choose_frames(case, fewest, max_tokens), pictures, features),
        difference_of="features" if pictures is None else "pixels",
        fewest_last_frames=fewest,
        last_frames=last_frames,
        texts=_explain_texts(case, score, plain) if with_texts else (),
        seed=seed,
    )
    if patches_frame == "strongest":
        patches_frame = _find_strongest(case, evidence, pictures or {})
    if patches_frame is None:
        return evidence
    patched = _Patches(recording, case, pictures or {}, patches_frame)
    features |= patched.features
    again, *pairs = score(patched.contexts)
    patches = tuple(
        PatchEvidence(
            row=number // _GRID,
            column=number % _GRID,
            log_odds=again[0] - own,
            random_log_odds=again[1] - other,
            difference=difference,
        )
        for number, ((own, other), difference) in enumerate(zip(pairs, patched.differences, strict=True))
    )
    noise = abs(again[0] - plain[0])
    return replace(evidence, patches_frame=patches_frame, patches=patches, patches_noise=noise)


def _find_target(output: FrameOutput) -> Target:
    if output.updates:
        return "update"
    return "silence" if output.response is None else "speak"


def _find_last_frames(case: DecisionCase, scorer: ContextScorer) -> tuple[LastFrames, ...]:
    """Return how the decision fares with the last frames alone, for the numbers that a bisection tries, and for one."""
    (plain,) = scorer.score([case.context])
    trials = dict[int, LastFrames]()

    def is_kept(count: int) -> bool:
        (reading,) = scorer.score([case.keep_last(count)])
        kept = (reading.margin > 0) == (plain.margin > 0)
        trials[count] = LastFrames(num_frames=count, log_odds=reading.log_odds, is_kept=kept)
        return kept

    numbers = range(len(case.frames) + 1)
    bisect_left(numbers, True, key=is_kept)
    for count in {min(1, len(case.frames)), len(case.frames)} - set(trials):
        is_kept(count)
    return tuple(trials[count] for count in sorted(trials))


def _choose_frames(case: DecisionCase, fewest: int, max_tokens: int) -> list[ContextFrame]:
    """Return the frames to replace one by one: those that have a previous picture, the last ones within the limit."""
    chosen, num_tokens = list[ContextFrame](), 0
    for number, frame in enumerate(reversed(case.frames), start=1):
        num_tokens += case.count_tokens_from(frame)
        if frame.index > 0 and (number <= fewest or num_tokens <= max_tokens):
            chosen.append(frame)
    return chosen


def _explain_frames(
    case: DecisionCase,
    score: Score,
    plain: Pair,
    chosen: Sequence[ContextFrame],
    pictures: Pictures | None,
    features: Mapping[int, Tensor],
) -> tuple[FrameEvidence, ...]:
    changes = [case.show({frame: case.picture(frame.index - 1)}) for frame in chosen]
    by_frame = dict(zip(chosen, score(changes), strict=True))

    def describe(frame: ContextFrame, num_later: int) -> FrameEvidence:
        changed = by_frame.get(frame)
        return FrameEvidence(
            frame_index=frame.index,
            log_odds=None if changed is None else plain[0] - changed[0],
            random_log_odds=None if changed is None else plain[1] - changed[1],
            recency=1 / (num_later + 1),
            difference=_find_difference(case, frame, pictures, features),
        )

    return tuple(describe(frame, len(case.frames) - number) for number, frame in enumerate(case.frames, start=1))


def _find_difference(
    case: DecisionCase, frame: ContextFrame, pictures: Pictures | None, features: Mapping[int, Tensor]
) -> float | None:
    if frame.index == 0:
        return None
    shown, previous = case.picture(frame.index), case.picture(frame.index - 1)
    if pictures is None:
        return float((features[shown].float() - features[previous].float()).abs().mean())
    if shown not in pictures or previous not in pictures:
        return None
    return float(_compare(pictures[shown], pictures[previous]).mean())


def _compare(picture: NDArray[np.uint8], other: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the absolute difference of two pictures of one size ``[H, W, 3]``, in [0, 1]."""
    return np.abs(picture.astype(np.float64) - other) / 255


def _find_strongest(case: DecisionCase, evidence: Evidence, pictures: Pictures) -> int | None:
    """Return the frame with the largest evidence among those whose picture and previous picture are known."""
    known = [
        (abs(frame.log_odds), frame.frame_index)
        for frame in evidence.frames
        if frame.log_odds is not None
        and {case.picture(frame.frame_index), case.picture(frame.frame_index - 1)} <= pictures.keys()
    ]
    return max(known, default=(0.0, None))[1]


def _explain_texts(case: DecisionCase, score: Score, plain: Pair) -> tuple[TextEvidence, ...]:
    texts = case.list_texts()
    return tuple(
        TextEvidence(change=text.change, text=text.text, log_odds=plain[0] - own, random_log_odds=plain[1] - other)
        for text, (own, other) in zip(texts, score([text.context for text in texts]), strict=True)
    )


class _Patches:
    """A picture of the context encoded again: unchanged, and with each patch of the previous picture."""

    def __init__(self, recording: Recording, case: DecisionCase, pictures: Pictures, frame_index: int) -> None:
        frame = next((frame for frame in case.frames if frame.index == frame_index), None)
        if frame is None or frame_index == 0:
            raise ValueError(f"frame {frame_index} has no patches: it is not in the context, or the first of the video")
        shown, previous = case.picture(frame_index), case.picture(frame_index - 1)
        if shown not in pictures or previous not in pictures:
            raise ValueError(f"the patches of frame {frame_index} need the pictures {previous} and {shown}")
        resizer = FrameResizer(recording.checkpoint.model)
        picture, before = resizer.resize(pictures[shown]), resizer.resize(pictures[previous])
        changed = [picture.copy() for _ in range(_GRID * _GRID)]
        difference = _compare(picture, before)
        self.differences = list[float]()
        bands = [np.array_split(np.arange(size), _GRID) for size in picture.shape[:2]]
        for number, (rows, columns) in enumerate(product(*bands)):
            patch = np.ix_(rows, columns)
            changed[number][patch] = before[patch]
            self.differences.append(float(difference[patch].mean()))
        first = len(recording.features)
        encoded = encode_images(recording.checkpoint, [picture, *changed])
        self.features = dict(enumerate(encoded, start=first))
        self.contexts = [case.show({frame: number}) for number in self.features]
