"""VideoLLM-online's four scores of a teacher-forced conversation: LM-PPL, TimeDiff, Fluency, LM-Correctness.

In one turn there are F learned frames, T response tokens and C leading greedy-correct tokens. The first decision to
speak is d frames early (positive) or late (negative). **Source**: ``stream_evaluate`` of VideoLLM-online (arXiv
2406.11816; commit e2c78ec), which returns 1, 0, 1 and 1 without data instead of nan; golden/live_metrics.json.
"""

import math
from collections.abc import Sequence, Sized
from dataclasses import dataclass

from stepscope.engine.config import check_threshold
from stepscope.engine.io.arguments import check_list, check_type
from stepscope.engine.plurals import format_count
from stepscope.eval.metrics.counts import mean, ratio
from stepscope.eval.metrics.matched_video import LIVE_SCORES, LiveCounts, Measure


@dataclass(frozen=True, slots=True)  # not keyword-only: the public interface has positional fields
class LiveTurn:
    """The model's probabilities in one reference turn. Raises ``ValueError`` if lengths differ."""

    silent_prob: tuple[float, ...]
    """Per learned frame [F], probability of the silent token, in [0, 1]."""
    other_prob: tuple[float, ...]
    """Per learned frame [F], maximum probability of the tokens other than the silent token, in [0, 1]."""
    token_correct: tuple[bool, ...]
    """Per response token [T], whether the greedy token is the reference's."""
    token_nll: tuple[float, ...]
    """Per response token [T], negative log-likelihood of the reference's token, in nats."""
    late_silent_prob: tuple[float, ...]
    """``silent_prob`` at the frames after the turn, with the answer withheld from the context."""
    late_other_prob: tuple[float, ...]

    def __post_init__(self) -> None:
        pairs = (("silent_prob", "other_prob"), ("token_correct", "token_nll"), ("late_silent_prob", "late_other_prob"))
        for one, other in pairs:
            for name in (one, other):
                check_type(name, getattr(self, name), Sized, "a list of numbers")
            lengths = len(getattr(self, one)), len(getattr(self, other))
            if lengths[0] != lengths[1]:
                raise ValueError(f"{one} and {other} must have the same length; got {lengths[0]} and {lengths[1]}")

    @property
    def num_leading_correct(self) -> int:
        """C, the number of greedy-correct tokens before the first wrong one."""
        return next((index for index, correct in enumerate(self.token_correct) if not correct), len(self.token_correct))


def live_metrics(turns: Sequence[LiveTurn], *, threshold: float) -> dict[str, float]:
    """Score one conversation: means over its turns; nan if no turn has data.

    - ``lm_ppl`` (at least 1) and ``lm_correctness`` = C/T, over turns with tokens.
    - ``frame_diff`` = abs(d) in frames, over turns with frames; TimeDiff is this divided by fps.
    - ``fluency`` in [0, 1], over turns with both: (F+C)/(F+T) if d = 0, (F-d)/(F+T) if early, (F-1)/(F+T) if late.

    For example, F = 4 frames of which the last one speaks (d = 0), and T = 5 tokens of which C = 3 lead, have a fluency
    of (4+3)/(4+5) = 7/9.

    At ``threshold`` 0 a frame is silent if the silent token is the most likely one; above 0 its probability must also
    reach the threshold. Raises ``ValueError`` unless it is in [0, 1], or if a turn has too few late frames.
    """
    check_threshold(threshold, "threshold")
    turns = check_list("turns", turns, LiveTurn, "a list of LiveTurn")
    spoken = [turn for turn in turns if turn.token_nll]
    leads = [_lead(turns, index, threshold=threshold) for index in range(len(turns))]
    shown = [(turn, lead) for turn, lead in zip(turns, leads, strict=True) if turn.silent_prob]
    return {
        "lm_ppl": mean([math.exp(mean(turn.token_nll)) for turn in spoken]),
        "frame_diff": mean([abs(lead) for _, lead in shown]),
        "fluency": mean([_fluency(turn, lead) for turn, lead in shown if turn.token_correct]),
        "lm_correctness": mean([ratio(turn.num_leading_correct, len(turn.token_correct)) for turn in spoken]),
    }


def count_live(turns: Sequence[LiveTurn], *, fps: float, threshold: float) -> LiveCounts:
    """Return the scores of one conversation as counts: a split's score is the mean over its conversations."""
    scores = live_metrics(turns, threshold=threshold)
    scores["time_diff_s"] = scores["frame_diff"] / fps
    values = [scores[name] for name in LIVE_SCORES]
    return LiveCounts(
        sums=tuple(0.0 if math.isnan(value) else value for value in values),
        num_defined=tuple(float(not math.isnan(value)) for value in values),
    )


def summarize_live(counts: LiveCounts) -> dict[str, float]:
    """Return the mean of each score, ``live_*``, over the conversations in which it is defined; nan if in none."""
    return {
        f"live_{name}": ratio(*both) for name, *both in zip(LIVE_SCORES, counts.sums, counts.num_defined, strict=True)
    }


MEASURES = (
    Measure(name="live", kind=LiveCounts, count=lambda video: video.live or LiveCounts(), summarize=summarize_live),
)


def _lead(turns: Sequence[LiveTurn], index: int, *, threshold: float) -> int:
    turn, num_frames = turns[index], len(turns[index].silent_prob)
    first = _first_speak(turn.silent_prob, turn.other_prob, threshold=threshold)
    if first is not None:
        return num_frames - 1 - first
    if index == len(turns) - 1:
        return 0
    num_late = max(min(len(turns[index + 1].silent_prob), num_frames - 1), 0)
    if len(turn.late_silent_prob) < num_late:
        got = len(turn.late_silent_prob)
        raise ValueError(
            f"turn {index} never speaks and needs {format_count(num_late, 'frame')} after it in late_*_prob; got {got}"
        )
    late = _first_speak(turn.late_silent_prob[:num_late], turn.late_other_prob[:num_late], threshold=threshold)
    return -num_late if late is None else -(late + 1)


def _first_speak(silent_prob: Sequence[float], other_prob: Sequence[float], *, threshold: float) -> int | None:
    frames = enumerate(zip(silent_prob, other_prob, strict=True))
    return next((index for index, (silent, other) in frames if not (silent >= other and silent >= threshold)), None)


def _fluency(turn: LiveTurn, lead: int) -> float:
    num_frames, num_tokens = len(turn.silent_prob), len(turn.token_correct)
    right = turn.num_leading_correct if lead == 0 else -lead if lead > 0 else -1
    return (num_frames + right) / (num_frames + num_tokens)
