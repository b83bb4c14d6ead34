"""Records with the fields that a test is about; the others have plain values."""

from typing import Any

from stepscope.engine.records import FrameOutput
from stepscope.eval.data.samples import Sample


def make_output(index: int, *, fps: float = 2.0, **changes: Any) -> FrameOutput:
    """Return the output of a silent frame at its time."""
    silent: dict[str, Any] = {"frame_index": index, "time_s": index / fps, "speak_prob": 0.1, "update_prob": 0.1}
    silent |= {"response": None, "updates": (), "dst_state": {}, "cache_tokens": 0, "refreshed": False}
    return FrameOutput(**{**silent, "latency_ms": 1.0, **changes})


def make_sample(**changes: Any) -> Sample:
    """Return a video of 10 s without a file, steps and turns."""
    plain: dict[str, Any] = {"video_id": "a", "video_path": None, "fps": 2.0, "num_frames": 20, "goal": "build"}
    return Sample(**{**plain, "steps": (), "turns": (), "initial_state": {}, **changes})
