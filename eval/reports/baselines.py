"""Baselines: assistants that need no model, as rows beside runs of the same split.

Each repeats the text of the nearest reference, so that its contents are right and its scores rate timing alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from stepscope.engine.dialogue import initial_state
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.replies.turn_taking import spoken_texts

SHIFT_S: Final = 1.0
"""Delay of the replies of the shifted reference, in seconds."""
ABOUT: Final = "Baselines repeat the text of the nearest reference, so they rate timing alone; they are not compared."
Outputs = Callable[[Sample], Sequence[FrameOutput]]


def list_baselines(runs: Mapping[str, Outputs]) -> dict[str, Outputs]:
    """Return the baselines by name; one is random at the rate of each of the runs."""
    return {
        "always silent": partial(_speak_at, frames=lambda _: ()),
        "always speaking": partial(_speak_at, frames=lambda sample: range(sample.num_frames)),
        f"reference {SHIFT_S:g} s late": partial(_speak_at, frames=_shift_reference),
        **{
            f"random at the rate of {name}": partial(_speak_at, frames=partial(_draw_frames, outputs=outputs))
            for name, outputs in runs.items()
        },
    }


def _speak_at(sample: Sample, *, frames: Callable[[Sample], Iterable[int]]) -> list[FrameOutput]:
    """Return outputs that speak at some frames of a video."""
    spoken = set(frames(sample))
    turns = [turn for turn in sample.turns if turn.role == "assistant"]
    state = initial_state(sample.steps, sample.initial_state)
    outputs = []
    for index in range(sample.num_frames):
        nearest = min(turns, key=lambda turn: abs(turn.time_s - index / sample.fps), default=None)
        outputs.append(
            FrameOutput(
                frame_index=index,
                time_s=index / sample.fps,
                speak_prob=float("nan"),
                update_prob=float("nan"),
                response=nearest.text if nearest is not None and index in spoken else None,
                updates=(),
                dst_state=state,
                cache_tokens=0,
                refreshed=False,
                latency_ms=float("nan"),
            )
        )
    return outputs


def _shift_reference(sample: Sample) -> list[int]:
    return [frame_at(turn.time_s + SHIFT_S, sample.fps) for turn in sample.turns if turn.role == "assistant"]


def _draw_frames(sample: Sample, *, outputs: Outputs) -> list[int]:
    """Return as many random frames as a run speaks at; the same in each call."""
    rng = np.random.default_rng(list(sample.video_id.encode()))
    number = min(len(spoken_texts(outputs(sample))), sample.num_frames)
    drawn: list[int] = rng.choice(sample.num_frames, size=number, replace=False).tolist()
    return drawn
