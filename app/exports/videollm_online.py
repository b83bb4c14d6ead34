"""Write a run in the form of VideoLLM-online's ``demo.cli``, which ``eval.runs.imports.per_frame`` reads.

``conversation`` has one object per frame with ``time``, ``cost`` (seconds) and ``fps`` (frames so far divided by their
cost); user turns and messages add ``role`` and ``content``. **Source**: ``demo/cli.py`` and ``demo/inference.py``.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepscope.app.exports.rows import ReviewedVideo
from stepscope.engine.io.files import write_json
from stepscope.engine.records import frame_at


def write_videollm_online(path: Path, video: ReviewedVideo) -> None:
    """Write the outputs of one video; none give an empty conversation."""
    content = {
        "video_path": str(video.video_path or video.video_id),
        "frame_fps": _read_fps(video),
        "conversation": list(_list_steps(video)),
    }
    write_json(path, content)


def _read_fps(video: ReviewedVideo) -> float:
    """Return the frame rate, without a reference that of the outputs."""
    if video.sample is not None:
        return video.sample.fps
    times = [output.time_s for output in video.outputs]
    return (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else 1.0


def _list_steps(video: ReviewedVideo) -> Iterator[dict[str, Any]]:
    asked = defaultdict[int, list[str]](list)
    for turn in video.sample.user_turns if video.sample is not None else ():
        asked[frame_at(turn.time_s, _read_fps(video))].append(turn.text)
    total_s = 0.0
    for number, output in enumerate(video.outputs, start=1):
        cost_s = output.latency_ms / 1000 if output.latency_ms > 0 else 0.0  # nan is unknown
        total_s += cost_s
        step = {"time": output.time_s, "fps": number / total_s if total_s else 0.0, "cost": cost_s}
        place = f"(Video Time = {output.time_s}s)"
        turns = [("user", f"{place} User: {text}") for text in asked[output.frame_index]]
        if output.response:
            turns.append(("assistant", f"{place} Assistant: {output.response}"))
        for role, content in turns:
            yield {"role": role, "content": content, **step}
        if not turns:
            yield step
