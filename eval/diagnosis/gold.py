"""The gold pass: the model's own turn at every frame, with the reference dialogue as its history.

Each reference turn is *right* if the model, with all earlier reference turns as its history, writes it at its frame: an
update with the same text, or a message whose similarity exceeds ``SEMANTIC_THRESHOLD``. A *false trigger* is a frame at
which the model writes a message and the reference none, or more updates than the reference. Nothing else counts: with
the reference as history there are no consequences, and a turn that comes a frame later is wrong at its own frame.

Worked example. The reference completes S1 at frame 8 and says "Good." there. The model completes S1 at frame 8, says
nothing, and says "Good." at frame 9: one turn is right, one is wrong, and frame 9 is a false trigger.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stepscope.engine.control.intervention import SILENCE, ForcedTurn, Intervention
from stepscope.engine.io.json_records import Count
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.turns import Encode, compare_texts
from stepscope.eval.metrics.replies.turn_taking import SEMANTIC_THRESHOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldResult:
    """The reference turns of one video, judged one by one with the reference as history."""

    right: tuple[Count, ...] = ()
    """Positions in ``Sample.turns`` of the turns that the model writes."""
    wrong: tuple[Count, ...] = ()
    """Positions of the turns that it does not write, or writes differently."""
    false_triggers: tuple[Count, ...] = ()
    """Frames at which it writes more than the reference."""
    num_tokens: Count = 0
    """Tokens that were fed for it; see ``PassCounts``."""


def make_gold_history(sample: Sample, *, num_frames: int) -> Intervention:
    """Return the intervention that forces the reference in a whole video and probes the model's own turns."""
    turns = {frame: turn for frame, turn in list_reference_turns(sample).items() if frame < num_frames}
    return Intervention(turns=turns, until=num_frames, is_probed=True)


def judge_probes(
    sample: Sample, outputs: Sequence[FrameOutput], encode: Encode, *, has_updates: bool = True
) -> GoldResult:
    """Judge the reference turns of a sample by the outputs of its gold pass; those after the last output are left out.

    Without ``has_updates``, updates are no turns of the model and are not judged.
    """
    reference, right, wrong = list_reference_turns(sample), list[int](), list[int]()
    last_messages = {
        frame_at(turn.time_s, sample.fps): number
        for number, turn in enumerate(sample.turns)
        if turn.role == "assistant"
    }
    for number, turn in enumerate(sample.turns):
        frame = frame_at(turn.time_s, sample.fps)
        is_judged = turn.role == "assistant" and last_messages[frame] == number
        if frame >= len(outputs) or not (is_judged or (turn.role == "update" and has_updates)):
            continue
        if turn.role == "update":
            is_right = turn.text in outputs[frame].updates
        else:
            is_right = _is_similar(outputs[frame].response, turn.text, encode)
        (right if is_right else wrong).append(number)
    false_triggers = tuple(
        output.frame_index
        for output in outputs
        if (output.response is not None and reference.get(output.frame_index, SILENCE).response is None)
        or (has_updates and len(output.updates) > len(reference.get(output.frame_index, SILENCE).updates))
    )
    return GoldResult(right=tuple(right), wrong=tuple(wrong), false_triggers=false_triggers)


def _is_similar(response: str | None, reference: str, encode: Encode) -> bool:
    if response is None or response == reference:
        return response is not None
    return float(compare_texts([(response, reference)], encode)[0]) > SEMANTIC_THRESHOLD


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
