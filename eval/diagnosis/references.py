"""The reference dialogue as forced turns, and the frame at which a failure began."""

from dataclasses import replace

from stepscope.engine.control.intervention import SILENCE, ForcedTurn
from stepscope.engine.records import frame_at
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.matched_video import Failure


def list_reference_turns(sample: Sample) -> dict[int, ForcedTurn]:
    """Return what the reference writes at each frame that has turns of the assistant.

    Of two messages at one frame the last counts, as in matching.
    """
    turns: dict[int, ForcedTurn] = {}
    for turn in sample.turns:
        frame = frame_at(turn.time_s, sample.fps)
        written = turns.get(frame, SILENCE)
        if turn.role == "update":
            turns[frame] = replace(written, updates=(*written.updates, turn.text))
        elif turn.role == "assistant":
            turns[frame] = replace(written, response=turn.text)
    return turns


def find_anchor(failure: Failure, sample: Sample) -> int:
    """Return the frame at which a failure began: that of the prediction or of the reference, whichever is earlier."""
    if failure.reference is None:
        return failure.frame_index
    return min(failure.frame_index, frame_at(sample.turns[failure.reference].time_s, sample.fps))
