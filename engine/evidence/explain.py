"""Explains one decision of a finished recording: on which pictures and texts of its context it rests.

Each experiment changes one thing and reads the log-odds again. A picture is replaced by the one before it, "it had not
happened yet": without it, all later tokens would move, and the effect of their positions would count.

**Source**: leave-one-out as the change of the log-likelihood, AttriBoT (2411.15102); random weights as the control,
Sanity checks for saliency maps (1810.03292).
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
from stepscope.engine.model.features.frame_encoder import FrameFeatures, FrameResizer, encode_images
from stepscope.engine.model.vision_language import VisionLanguageModel
from stepscope.engine.records import FrameOutput
from stepscope.engine.replay import Recording

_GRID = 8
"""Patches per side of a picture."""
Pictures = Mapping[int, NDArray[np.uint8]]
"""RGB pictures ``[H, W, 3]`` by frame."""
Pair = tuple[float, float]
"""Log-odds of the model, and of one with random weights."""


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
    output, target = recording.outputs[frame_index], target or _find_target(recording.outputs[frame_index])
    case = DecisionCase(recording, trace, frame_index=frame_index, target=target)
    random_model = random_model or randomize(recording.checkpoint.model, seed=seed)
    experiments = _Experiments(case, recording, frames, pictures, random_model)
    last_frames = experiments.try_last_frames()
    fewest = min(trial.num_frames for trial in last_frames if trial.is_kept)
    evidence = Evidence(
        frame_index=frame_index,
        time_s=output.time_s,
        target="text" if isinstance(target, Contrast) else target,
        contrast=target if isinstance(target, Contrast) else None,
        log_odds=experiments.plain[0],
        random_log_odds=experiments.plain[1],
        threshold=case.probe.threshold if math.isfinite(case.probe.threshold) else None,
        frames=experiments.replace_frames(fewest, max_tokens),
        difference_of="features" if pictures is None else "pixels",
        fewest_last_frames=fewest,
        last_frames=last_frames,
        texts=experiments.change_texts() if with_texts else (),
        seed=seed,
    )
    if patches_frame == "strongest":
        patches_frame = experiments.find_strongest(evidence.frames)
    if patches_frame is None:
        return evidence
    patches, noise = experiments.replace_patches(patches_frame)
    return replace(evidence, patches_frame=patches_frame, patches=patches, patches_noise=noise)


def _find_target(output: FrameOutput) -> Target:
    if output.updates:
        return "update"
    return "silence" if output.response is None else "speak"


class _Experiments:
    """The changes of one decision's context, as the model and one with random weights read them."""

    def __init__(
        self,
        case: DecisionCase,
        recording: Recording,
        frames: Sequence[FrameFeatures],
        pictures: Pictures | None,
        random_model: VisionLanguageModel,
    ) -> None:
        self._case, self._checkpoint, self._pictures = case, recording.checkpoint, pictures
        self._features = {number: frame.features for number, frame in enumerate(frames)}
        self._first_new = len(recording.features)
        self._trained, self._random = (
            ContextScorer(model, case.context, case.probe, self._features)
            for model in (recording.checkpoint.model, random_model)
        )
        (self.plain,) = self._score([case.context])

    def _score(self, contexts: Sequence[FedContext]) -> list[Pair]:
        own, other = (
            [reading.log_odds for reading in scorer.score(contexts)] for scorer in (self._trained, self._random)
        )
        return list(zip(own, other, strict=True))

    def try_last_frames(self) -> tuple[LastFrames, ...]:
        """Return the decision with the last frames alone, for the numbers that a bisection tries, for one and for all.

        All frames keep it.
        """
        (plain,) = self._trained.score([self._case.context])
        trials = dict[int, LastFrames]()

        def is_kept(count: int) -> bool:
            (reading,) = self._trained.score([self._case.keep_last(count)])
            kept = (reading.margin > 0) == (plain.margin > 0)
            trials[count] = LastFrames(num_frames=count, log_odds=reading.log_odds, is_kept=kept)
            return kept

        num_frames = len(self._case.frames)
        bisect_left(range(num_frames + 1), True, key=is_kept)
        for count in {min(1, num_frames), num_frames} - set(trials):
            is_kept(count)
        return tuple(trials[count] for count in sorted(trials))

    def replace_frames(self, fewest: int, max_tokens: int) -> tuple[FrameEvidence, ...]:
        """Return the evidence of the last frames within the limit of tokens, and in any case of the ``fewest`` last."""
        case, chosen, num_tokens = self._case, list[ContextFrame](), 0
        for number, frame in enumerate(reversed(case.frames), start=1):
            num_tokens += case.count_tokens_from(frame)
            if frame.index > 0 and (number <= fewest or num_tokens <= max_tokens):
                chosen.append(frame)
        changes = [case.show({frame: case.picture(frame.index - 1)}) for frame in chosen]
        by_frame = dict(zip(chosen, self._score(changes), strict=True))
        return tuple(
            FrameEvidence(
                frame_index=frame.index,
                log_odds=self.plain[0] - by_frame[frame][0] if frame in by_frame else None,
                random_log_odds=self.plain[1] - by_frame[frame][1] if frame in by_frame else None,
                recency=1 / (len(case.frames) - place),
                difference=self._find_difference(frame),
            )
            for place, frame in enumerate(case.frames)
        )

    def _find_difference(self, frame: ContextFrame) -> float | None:
        if frame.index == 0:
            return None
        shown, previous = self._case.picture(frame.index), self._case.picture(frame.index - 1)
        if self._pictures is None:
            return float((self._features[shown].float() - self._features[previous].float()).abs().mean())
        if shown not in self._pictures or previous not in self._pictures:
            return None
        return float(_compare(self._pictures[shown], self._pictures[previous]).mean())

    def change_texts(self) -> tuple[TextEvidence, ...]:
        """Return the evidence of the texts of the context."""
        texts = self._case.list_texts()
        pairs = self._score([text.context for text in texts])
        return tuple(
            TextEvidence(
                change=text.change, text=text.text, log_odds=self.plain[0] - own, random_log_odds=self.plain[1] - other
            )
            for text, (own, other) in zip(texts, pairs, strict=True)
        )

    def find_strongest(self, frames: Sequence[FrameEvidence]) -> int | None:
        """Return the frame with the largest evidence among those whose picture and previous picture are known."""
        known = [
            (abs(frame.log_odds), frame.frame_index)
            for frame in frames
            if frame.log_odds is not None
            and {self._case.picture(frame.frame_index - back) for back in (0, 1)} <= (self._pictures or {}).keys()
        ]
        return max(known, default=(0.0, None))[1]

    def replace_patches(self, frame_index: int) -> tuple[tuple[PatchEvidence, ...], float]:
        """Return the evidence of the patches of a picture, and how much the log-odds move if it is encoded again."""
        case, pictures = self._case, self._pictures or {}
        frame = next((frame for frame in case.frames if frame.index == frame_index), None)
        if frame is None or frame_index == 0:
            raise ValueError(f"frame {frame_index} has no patches: it is not in the context, or the first of the video")
        shown, previous = case.picture(frame_index), case.picture(frame_index - 1)
        if shown not in pictures or previous not in pictures:
            raise ValueError(f"the patches of frame {frame_index} need the pictures {previous} and {shown}")
        resizer = FrameResizer(self._checkpoint.model)
        picture, before = resizer.resize(pictures[shown]), resizer.resize(pictures[previous])
        bands = [np.array_split(np.arange(size), _GRID) for size in picture.shape[:2]]
        patches = [np.ix_(rows, columns) for rows, columns in product(*bands)]
        changed = [picture.copy() for _ in patches]
        for image, patch in zip(changed, patches, strict=True):
            image[patch] = before[patch]
        encoded = encode_images(self._checkpoint, [picture, *changed])
        self._features |= enumerate(encoded, start=self._first_new)
        numbers = range(self._first_new, self._first_new + len(encoded))
        again, *pairs = self._score([case.show({frame: number}) for number in numbers])
        difference = _compare(picture, before)
        found = tuple(
            PatchEvidence(
                row=number // _GRID,
                column=number % _GRID,
                log_odds=again[0] - own,
                random_log_odds=again[1] - other,
                difference=float(difference[patch].mean()),
            )
            for number, ((own, other), patch) in enumerate(zip(pairs, patches, strict=True))
        )
        return found, abs(again[0] - self.plain[0])


def _compare(picture: NDArray[np.uint8], other: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the absolute difference of two pictures of one size ``[H, W, 3]``, in [0, 1]."""
    return np.abs(picture.astype(np.float64) - other) / 255
