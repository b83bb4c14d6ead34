"""The failures of one video, turn by turn, at which a researcher stops in the player.

Responses are matched as in ``eval.metrics.replies.turn_taking`` and updates as in ``eval.matching.updates``, so the
failures agree with the scores. A correct pair that is more than ``LATE_S`` apart is early or late.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stepscope.engine.dialogue import parse_update
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.data.samples import ROLE_ORDER, Sample
from stepscope.eval.matching.turns import Match, Pair, delay_from_span
from stepscope.eval.matching.updates import UpdateMatch
from stepscope.eval.metrics.counts import Counts
from stepscope.eval.metrics.dialogue_state import reference_states
from stepscope.eval.metrics.matched_video import (
    FAILURE_KINDS,
    Failure,
    FailureKind,
    JudgedTurn,
    JudgedVideo,
    MatchedVideo,
    Measure,
)
from stepscope.eval.metrics.replies.repetition import normalize_text
from stepscope.eval.metrics.replies.turn_taking import SEMANTIC_THRESHOLD, spoken_texts

LATE_S = 1.0
WORST_S = 5.0


def judge(
    sample: Sample, outputs: Sequence[FrameOutput], match: Match, updates: UpdateMatch, *, has_states: bool = True
) -> JudgedVideo:
    """List the failures of one video up to its last output; later references are only counted, as missed.

    The outputs must have the states of the sample's steps. ``match`` are their responses, ``updates`` their updates. A
    system without states (``has_states``) has no failures of updates and states.
    """
    spoken = {  # of two reference turns at a frame the last, as in matching
        frame_at(turn.time_s, sample.fps): number
        for number, turn in enumerate(sample.turns)
        if turn.role == "assistant"
    }
    responses = _judge_responses(sample, spoken_texts(outputs), match.pairs, spoken)
    updated, missed_updates = _judge_updates(sample, updates)
    # At one frame the updates come first: the model writes them before its message.
    turns = tuple(sorted((*updated, *responses), key=lambda turn: (turn.frame_index, turn.role != "update")))
    last = outputs[-1].frame_index if outputs else -1
    repeated = find_repeats(turns)
    failures = [
        _fail(turn, number, repeated)
        for number, turn in enumerate(turns)
        if not is_correct(turn) and (has_states or turn.role != "update")
    ]
    missed = [_failure("missed", frame, reference=spoken[frame]) for frame in match.missed]
    if has_states:
        missed += [_failure("missed update", frame, reference=number) for frame, number in missed_updates]
        failures += _wrong_states(sample, outputs)
    reached = [failure for failure in missed if failure.frame_index <= last]
    ordered = _sort([*failures, *reached], turns, sample, outputs)
    return JudgedVideo(turns=turns, failures=ordered, num_later=len(missed) - len(reached))


def add_grades(judged: JudgedVideo, grades: Mapping[int, int]) -> JudgedVideo:
    """Return a judged video with the grades of its responses, given by frame."""
    if not grades:
        return judged
    turns = tuple(
        replace(turn, grade=grades.get(turn.frame_index)) if turn.role == "assistant" else turn for turn in judged.turns
    )
    return replace(judged, turns=turns)


def _sort(
    failures: Sequence[Failure], turns: Sequence[JudgedTurn], sample: Sample, outputs: Sequence[FrameOutput]
) -> tuple[Failure, ...]:
    """Sort failures by time; at one time updates, responses, states, and the model before the reference."""
    times = {output.frame_index: output.time_s for output in outputs}

    def key(failure: Failure) -> tuple[float, bool, int, bool]:
        if failure.turn is not None:
            return times[failure.frame_index], False, ROLE_ORDER[turns[failure.turn].role], False
        if failure.reference is not None:
            turn = sample.turns[failure.reference]
            return turn.time_s, False, ROLE_ORDER[turn.role], True
        return times[failure.frame_index], True, 0, False

    return tuple(sorted(failures, key=key))


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCounts(Counts):
    """The failures of one or many videos."""

    by_kind: tuple[float, ...] = (0.0,) * len(FAILURE_KINDS)


def _count(video: MatchedVideo) -> FailureCounts:
    found = Counter(failure.kind for failure in video.judged.failures)
    found["missed"] = len(video.match.missed)  # also after the last output, where there is nothing to stop at
    if video.has_states:
        found["missed update"] = len(video.updates.ref) - len(video.updates.links)
    return FailureCounts(by_kind=tuple(float(found[kind]) for kind in FAILURE_KINDS))


def failure_score(kind: FailureKind) -> str:
    """Return the name of the score that counts the failures of a kind."""
    return f"failures_{kind.replace(' ', '_')}"


def _summarize(counts: FailureCounts) -> dict[str, float]:
    by_kind = {failure_score(kind): number for kind, number in zip(FAILURE_KINDS, counts.by_kind, strict=True)}
    return {"num_failures": sum(by_kind.values()), **by_kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class RootCounts(Counts):
    """The roots of one or many videos; nan if those of one are unknown."""

    num_roots: float = math.nan


MEASURES: Final = (
    Measure(name="failures", kind=FailureCounts, count=_count, summarize=_summarize),
    Measure(
        name="roots",
        kind=RootCounts,
        count=lambda video: RootCounts(num_roots=video.num_roots),
        summarize=lambda counts: {"roots": counts.num_roots},
    ),
)


def worst_frame(runs: Sequence[JudgedVideo], *, fps: float) -> int | None:
    """Return the frame of the failure at the start of the ``WORST_S`` seconds with the most failures.

    The failures of several runs of the video are combined. Returns None if there are none.
    """
    frames = sorted(failure.frame_index for judged in runs for failure in judged.failures)
    if not frames:
        return None
    return max(frames, key=lambda first: bisect_left(frames, first + WORST_S * fps) - bisect_left(frames, first))


def _judge_responses(
    sample: Sample, responses: Mapping[int, str], pairs: Sequence[Pair], spoken: Mapping[int, int]
) -> Iterable[JudgedTurn]:
    turns = {
        frame: JudgedTurn(role="assistant", frame_index=frame, text=text, outcome="redundant")
        for frame, text in responses.items()
    }
    for pair in pairs:
        turns[pair.gen_frame] = replace(
            turns[pair.gen_frame],
            outcome="matched" if pair.semantic_score > SEMANTIC_THRESHOLD else "mismatched",
            reference=spoken[pair.ref_frame],
            delay_s=delay_from_span(pair.gen_frame, sample.turns[spoken[pair.ref_frame]], fps=sample.fps),
            semantic_score=pair.semantic_score,
            cost=pair.cost,
        )
    return turns.values()


def _judge_updates(sample: Sample, match: UpdateMatch) -> tuple[list[JudgedTurn], list[tuple[int, int]]]:
    """Return the judged updates, and (frame, position) of each reference update without a prediction."""
    turns = [
        JudgedTurn(role="update", frame_index=update.frame_index, text=update.text, outcome="redundant")
        for update in match.gen
    ]
    missed = dict(enumerate(number for number, turn in enumerate(sample.turns) if turn.role == "update"))
    for link in match.links:
        gen, ref = match.gen[link.gen_index], match.ref[link.ref_index]
        turns[link.gen_index] = replace(
            turns[link.gen_index],
            outcome="matched" if parse_update(gen.text) == parse_update(ref.text) else "mismatched",
            reference=missed.pop(link.ref_index),
            delay_s=(gen.frame_index - ref.frame_index) / sample.fps,
        )
    return turns, [(match.ref[number].frame_index, position) for number, position in missed.items()]


def is_correct(turn: JudgedTurn) -> bool:
    """Whether a turn matches its reference in content, at most ``LATE_S`` apart."""
    return turn.outcome == "matched" and abs(turn.delay_s or 0) <= LATE_S


def find_repeats(turns: Sequence[JudgedTurn]) -> frozenset[int]:
    """Return the positions of the responses whose text repeats an earlier one, apart from case, spaces and signs."""
    earlier, repeats = set[str](), set[int]()
    for number, turn in enumerate(turns):
        if turn.role != "assistant":
            continue
        text = normalize_text(turn.text)
        if text in earlier:
            repeats.add(number)
        earlier.add(text)
    return frozenset(repeats)


def _fail(turn: JudgedTurn, number: int, repeated: frozenset[int]) -> Failure:
    kind: FailureKind
    if turn.outcome == "matched":
        kind = "early or late"
    elif turn.role == "update":
        kind = "wrong update"
    else:
        redundant: FailureKind = "repeats itself" if number in repeated else "redundant"
        kind = redundant if turn.outcome == "redundant" else "wrong text"
    return _failure(kind, turn.frame_index, turn=number, reference=turn.reference)


def _failure(kind: FailureKind, frame: int, *, reference: int | None, turn: int | None = None) -> Failure:
    return Failure(kind=kind, frame_index=frame, end_frame=frame + 1, turn=turn, reference=reference)


def _wrong_states(sample: Sample, outputs: Sequence[FrameOutput]) -> list[Failure]:
    """Return one failure for each stretch of frames in which the same steps have a wrong state."""
    failures: list[Failure] = []
    for output, expected in zip(outputs, reference_states(sample), strict=False):
        wrong = tuple(step.id for step in sample.steps if output.dst_state[step.id] != expected[step.id])
        frame = output.frame_index
        if failures and failures[-1].end_frame == frame and failures[-1].step_ids == wrong:
            failures[-1] = replace(failures[-1], end_frame=frame + 1)
        elif wrong:
            failures.append(Failure(kind="wrong state", frame_index=frame, end_frame=frame + 1, step_ids=wrong))
    return failures
