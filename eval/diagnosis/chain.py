"""The chain of corrections of one video: which failures are roots, and which are consequences.

At the first failing frame the reference is written in place of the model's turn, and the model continues freely. What
fails then is corrected in the same way, until nothing fails. Each corrected frame is a *root*; the failures that
vanish with its correction, apart from its own, are its *consequences*.

Worked example. A run has failures at 10, 12 and 20 s. With the reference at 10 s, only the one at 20 s remains: 10 s is
a root with one consequence (12 s), and 20 s is a root without any.

The number of roots is an upper bound of the corrections that are needed, since the first failure is always corrected
first. **Source**: the decisive error of Who&When (2505.00212), for streams and with a reference.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace

from stepscope.engine.control.intervention import SILENCE, Intervention, force_outputs
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.engine.replay import Recording
from stepscope.eval.data.samples import Sample
from stepscope.eval.diagnosis.gold import list_reference_turns
from stepscope.eval.metrics.matched_video import Failure, JudgedVideo

Judge = Callable[[Sequence[FrameOutput]], JudgedVideo]
"""Judges the outputs of the video; see ``analyze_video``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedFrame:
    """One root: a frame whose turn was replaced by that of the reference."""

    frame: int
    kept: Intervention
    """Forces the turns up to its frame, with the model's own there."""
    corrected: Intervention
    """The same with the turn of the reference at its frame."""
    failures: tuple[Failure, ...]
    vanished: tuple[Failure, ...]
    """The failures after it that are absent once it is corrected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The corrections of one video, in order, until nothing fails."""

    failures: tuple[Failure, ...]
    """Of the run."""
    num_failures: tuple[int, ...]
    """Of the run, and after each correction; the last one is 0."""
    corrections: tuple[CorrectedFrame, ...]
    num_tokens: int
    """Tokens that were fed for it; see ``PassCounts``."""


def correct(recording: Recording, sample: Sample, judge: Judge) -> Generator[str, None, Chain]:
    """Correct a finished run of a video at one failure after another; yield what is done next.

    Raises ``ValueError`` if a correction does not remove the failures of its frame: the reference contradicts itself.
    """
    reference, corrections, num_tokens = list_reference_turns(sample), list[CorrectedFrame](), 0
    failures = judge(recording.outputs).failures
    first, counts = failures, [len(failures)]
    while failures:
        frame = min(_find_anchor(failure, sample) for failure in failures)
        at_s = frame / sample.fps
        if corrections and frame <= corrections[-1].frame:
            raise ValueError(
                f"video {sample.video_id}: the reference at {at_s:g} s fails by its own scores; correct it"
            )
        yield f"correction at {at_s:g} s"
        own = force_outputs(recording.outputs, until=frame)
        change = replace(own, turns={**own.turns, frame: reference.get(frame, SILENCE)}, until=frame + 1)
        kept = force_outputs(recording.outputs, until=frame + 1)
        recording = recording.branch(change)
        remaining = judge(list(recording.run())).failures
        num_tokens += recording.counts.tokens
        known = {identify(failure) for failure in remaining}
        here = tuple(failure for failure in failures if _find_anchor(failure, sample) == frame)
        vanished = (failure for failure in failures if failure not in here and identify(failure) not in known)
        corrections.append(
            CorrectedFrame(frame=frame, kept=kept, corrected=change, failures=here, vanished=tuple(vanished))
        )
        failures = remaining
        counts.append(len(failures))
    return Chain(
        failures=tuple(first), num_failures=tuple(counts), corrections=tuple(corrections), num_tokens=num_tokens
    )


def identify(failure: Failure) -> tuple[object, ...]:
    """Return what a failure has in common in several runs of a video; positions of turns differ between runs."""
    return failure.kind, failure.frame_index, failure.reference, failure.step_ids


def _find_anchor(failure: Failure, sample: Sample) -> int:
    """Return the frame at which a failure began: that of the prediction or of the reference, whichever is earlier."""
    if failure.reference is None:
        return failure.frame_index
    return min(failure.frame_index, frame_at(sample.turns[failure.reference].time_s, sample.fps))
