"""States of the steps over time, as the player and the figures draw them.

A band is the list of changes of one step: the frame, and the index of the new state in ``STATES``; frame -1 is the
state before the video. A step that starts at frame 2 and is completed at frame 7 has ``[(-1, 0), (2, 1), (7, 2)]``.
"""

from collections.abc import Mapping, Sequence

from stepscope.engine.dialogue import STATES, initial_state
from stepscope.engine.records import FrameOutput, Step, frame_at
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.dialogue_state import reference_states

Band = list[tuple[int, int]]


def model_bands(
    steps: Sequence[Step], outputs: Sequence[FrameOutput], given: Mapping[str, str] | None = None
) -> list[Band]:
    """Return the model's band of each step; ``given`` are its states before the video."""
    states = [(-1, initial_state(steps, given)), *((output.frame_index, output.dst_state) for output in outputs)]
    return [_band(states, step.id) for step in steps]


def reference_bands(sample: Sample) -> list[Band]:
    """Return the reference's band of each step."""
    states = [(-1, initial_state(sample.steps, sample.initial_state)), *enumerate(reference_states(sample))]
    return [_band(states, step.id) for step in sample.steps]


def expected_frames(sample: Sample) -> dict[str, list[int]]:
    """Return the sorted frames at which the reference speaks and updates."""
    return {
        name: sorted({frame_at(turn.time_s, sample.fps) for turn in sample.turns if turn.role == role})
        for name, role in (("speak", "assistant"), ("update", "update"))
    }


def _band(states: Sequence[tuple[int, Mapping[str, str]]], step_id: str) -> Band:
    band: Band = []
    for frame, state in states:
        number = STATES.index(state[step_id])
        if not band or band[-1][1] != number:
            band.append((frame, number))
    return band
