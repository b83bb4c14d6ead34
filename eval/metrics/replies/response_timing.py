"""Times of responses, without their texts: OVO-Timing's F1, false alarms in quiet time, and the first decision.

**Source**: ``ovo_timing.py`` in VideoChat3 (189754e) for the profile OVO-Timing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from stepscope.engine.records import frame_at
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.turns import span_frames
from stepscope.eval.metrics.counts import Counts, ratio
from stepscope.eval.metrics.matched_video import MatchedVideo, Measure
from stepscope.eval.metrics.replies.turn_taking import spoken_texts
from stepscope.eval.metrics.values import Values

OVO_TOLERANCE_S: Final = 2.0
OVO_CLUE_DELAY_S: Final = 2.0
"""Time from the start of a reply span to the ground truth of OVO-Timing."""
QUIET_TOLERANCE_S: Final = 2.0
"""Distance from a reference turn or span beyond which a frame is quiet."""
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseTimingCounts(Counts):
    """Times of the responses of one or many videos."""

    num_ovo_videos: int = 0
    ovo_recall_sum: float = 0.0
    ovo_precision_sum: float = 0.0
    num_false_alarms: int = 0
    quiet_s: float = 0.0
    first_decisions_s: Values = field(default_factory=Values.of)
    """Per video with a decision, the time of its first response or update."""


def match_ovo(
    truth_s: Sequence[float], detected_s: Sequence[float], *, tolerance_s: float = OVO_TOLERANCE_S
) -> list[bool]:
    """Return whether each true time is hit: in order of time, each uses up the first listed detection in reach."""
    left = list(detected_s)
    is_hit = [False] * len(truth_s)
    for number in sorted(range(len(truth_s)), key=lambda one: truth_s[one]):
        found = next((one for one in left if abs(one - truth_s[number]) <= tolerance_s + _ROUNDING), None)
        if found is not None:
            left.remove(found)
            is_hit[number] = True
    return is_hit


def _count(video: MatchedVideo) -> ResponseTimingCounts:
    sample = video.sample
    frames = sorted(spoken_texts(video.outputs))
    turns = [turn for turn in sample.turns if turn.role == "assistant"]
    truth_s = [turn.time_s + (0.0 if turn.end_s is None else OVO_CLUE_DELAY_S) for turn in turns]
    hits = sum(match_ovo(truth_s, [frame / sample.fps for frame in frames]))
    is_quiet = _quiet_frames(sample, video.outputs[-1].frame_index + 1 if video.outputs else 0)
    decisions = [output.frame_index for output in video.outputs if output.response or output.updates]
    return ResponseTimingCounts(
        num_ovo_videos=int(bool(turns)),
        ovo_recall_sum=hits / len(turns) if turns else 0.0,
        ovo_precision_sum=hits / len(frames) if turns and frames else 0.0,
        num_false_alarms=sum(is_quiet[frame] for frame in frames),
        quiet_s=sum(is_quiet) / sample.fps,
        first_decisions_s=Values.of([decisions[0] / sample.fps] if decisions else []),
    )


def _quiet_frames(sample: Sample, num_frames: int) -> list[bool]:
    """Return per frame whether it is quiet.

    Its time is farther than ``QUIET_TOLERANCE_S`` from every reference turn and span, and it is the frame of none.
    """
    is_quiet = [True] * num_frames
    for turn in sample.turns:
        if turn.role == "assistant":
            start, end = span_frames(turn, fps=sample.fps)
            # The first frame whose time is at most the tolerance before the turn, which may lie between two frames.
            first = -frame_at(QUIET_TOLERANCE_S - turn.time_s, sample.fps)
            last = frame_at((turn.time_s if turn.end_s is None else turn.end_s) + QUIET_TOLERANCE_S, sample.fps)
            # Below 0.5 frames/s a turn's own frame may begin more than the tolerance before it.
            for frame in range(max(min(first, start), 0), min(max(last, end) + 1, num_frames)):
                is_quiet[frame] = False
    return is_quiet


def _summarize(counts: ResponseTimingCounts) -> dict[str, float]:
    recall = ratio(counts.ovo_recall_sum, counts.num_ovo_videos)
    precision = ratio(counts.ovo_precision_sum, counts.num_ovo_videos)
    f1 = 0.0 if recall + precision == 0 else ratio(2 * recall * precision, recall + precision)
    return {
        "OVO_timing_F1_2s": f1,
        "OVO_timing_recall_2s": recall,
        "OVO_timing_precision_2s": precision,
        "false_alarms_per_quiet_hour": ratio(3600 * counts.num_false_alarms, counts.quiet_s),
        "first_decision_s": counts.first_decisions_s.mean(),
    }


MEASURES = (Measure(name="response_timing", kind=ResponseTimingCounts, count=_count, summarize=_summarize),)
