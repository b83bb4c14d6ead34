"""A long video from a bundled one: its pictures are held after each moment of the reference, as in a task with waits.

The files of the project hold no long video, so this one is made at run time, from the features of the short one.
"""

from collections.abc import Sequence
from dataclasses import replace

from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import frame_at
from stepscope.eval.data.samples import Sample

AFTER_S = 1.0
"""Seconds from a moment of the reference to the picture that is held: the hand has left it then."""


def lengthen(features: Sequence[FrameFeatures], sample: Sample, *, wait_s: float) -> tuple[list[FrameFeatures], Sample]:
    """Return the features and the sample of a video with a wait of ``wait_s`` seconds after each reference moment.

    With waits of 2 s at 2 frames/s, a moment at frame 5 holds frame 7 for 4 further frames: frame 8 becomes frame 12.
    """
    fps, moments = sample.fps, sorted({turn.time_s for turn in sample.turns})
    held = {min(frame_at(time_s + AFTER_S, fps), len(features) - 1) for time_s in moments}
    num_waits, places, sources = round(wait_s * fps), list[int](), list[int]()
    for frame in range(len(features)):
        places.append(len(sources))
        sources += [frame] * (1 + num_waits * (frame in held))
    longer = [replace(features[source], index=index, time_s=index / fps) for index, source in enumerate(sources)]
    turns = tuple(replace(turn, time_s=places[frame_at(turn.time_s, fps)] / fps) for turn in sample.turns)
    return longer, replace(sample, num_frames=len(longer), turns=turns)
