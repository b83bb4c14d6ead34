"""The sample of a recorded video that brings its own task and reference."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from stepscope.engine.dialogue import parse_steps
from stepscope.engine.records import Step
from stepscope.eval.data.samples import Sample, Turn, turn_order


def make_own_sample(
    video_id: str,
    fps: float | None,
    video_path: str | Path | None,
    goal: str,
    steps: str | Sequence[Step],
    turns: Iterable[Turn] | None,
) -> Sample:
    """Return the sample of a recorded video, whose length is not known yet. Raises ``ValueError`` without a rate."""
    if fps is None or not 0 < fps < math.inf:
        raise ValueError(f"fps must be positive, since no split gives that of {video_id}; got {fps}")
    return Sample(
        video_id=video_id,
        video_path=None if video_path is None else Path(video_path).resolve(),
        fps=float(fps),
        num_frames=1,
        goal=goal,
        steps=parse_steps(steps) if isinstance(steps, str) else tuple(steps),
        turns=tuple(sorted(turns or (), key=turn_order)),
        initial_state={},
        has_reference=turns is not None,
    )
