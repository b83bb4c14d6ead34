"""Reads references of QEVD, workouts with the feedback of a coach; docs/data-formats.md describes them.

**Source**: varworkshop/ai_coach_fitness_2026 (281cd9e), ``data.py`` and ``utils.py``, which follow
Qualcomm-AI-research/FitCoach, ``src/fitness_datasets/fitcoach.py``.
"""

import math
import re
from itertools import pairwise
from pathlib import Path, PurePosixPath
from tokenize import TokenError
from typing import Final

import numpy as np

from stepscope.engine.io.files import replace_surrogates
from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.proactive_videoqa import FPS
from stepscope.eval.data.samples import Sample, Turn

_NS: Final = 1_000_000_000
_CLOCK_AHEAD_S: Final = 28_800.0
"""``load_video_timestamps`` adds 8 hours to the times of the frames, and so do the results of its users."""
_FIRST_NS: Final = 10**17
"""Times below, of 1973, are no nanoseconds on the clock."""
_AROUND_NAME: Final = re.compile("First up are |Moving on to |!")


def is_qevd(fields: Fields) -> bool:
    """Whether a record is a workout of QEVD."""
    return fields.has("long_range_video_file") and fields.has("video_timestamps")


def read_qevd(fields: Fields, folder: Path) -> tuple[Sample, ...]:
    """Read one workout of a split in ``folder``: a sample for each exercise with feedback, up to the next transition.

    Raises ``ValueError`` naming the field.
    """
    if not fields.has("feedbacks"):
        raise fields.error("feedbacks", "must have a text for each frame; the competition split has no references")
    path = fields.read_text("long_range_video_file")
    times_ns = _read_times(fields, folder)
    feedbacks = _read_feedbacks(fields, times_ns)
    texts = [text for _, text in feedbacks]
    transitions = _read_transitions(fields, len(feedbacks))
    samples = []
    for number, (first, last) in enumerate(pairwise(transitions)):
        start_ns, end_ns = feedbacks[first][0], feedbacks[last][0]
        turns = [
            Turn(time_s=(time_ns - start_ns) / _NS, role="assistant", text=text)
            for time_ns, text in feedbacks[first + 1 : last]
        ]
        if turns:
            samples.append(
                Sample(
                    video_id=f"{PurePosixPath(path).stem}_{number}",
                    video_path=Path(path),
                    fps=FPS,
                    num_frames=math.ceil((end_ns - start_ns) * FPS / _NS),
                    goal=_AROUND_NAME.sub("", texts[first]),
                    steps=(),
                    turns=tuple(turns),
                    initial_state={},
                    start_s=(start_ns - times_ns[0]) / _NS,
                    clock_s=start_ns / _NS + _CLOCK_AHEAD_S,
                )
            )
    if not samples:
        raise fields.error("is_transition", "must leave a feedback between two transitions")
    return tuple(samples)


def _read_times(fields: Fields, folder: Path) -> list[int]:
    """Return the times of the video's frames on the clock, in nanoseconds."""
    name = "video_timestamps"
    path = folder / fields.read_text(name)
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False) if path.is_file() else None  # a pipe would never end
    except (OSError, ValueError, SyntaxError, EOFError, TokenError) as error:  # of files and headers
        raise fields.error(name, "must name a .npy file that can be read") from error
    if found is None:
        raise fields.error(name, "must name a .npy file, relative to the split; there is none")
    if not isinstance(found, np.ndarray) or found.ndim != 1 or found.dtype.kind not in "iuf" or not found.size:
        raise fields.error(name, "must name a .npy file with the time of each frame")
    if not np.all((found >= _FIRST_NS) & (found < 2**63)):
        raise fields.error(name, "must have Unix times in nanoseconds")
    times_ns: list[int] = found.astype(np.int64).tolist()
    for frame, (before, after) in enumerate(pairwise(times_ns), start=1):
        if after < before:
            raise fields.error(
                name, f"must not fall back: frame {frame} is {(before - after) / _NS:g} s before the last"
            )
    fields.check_length(name, math.ceil((times_ns[-1] - times_ns[0]) * FPS / _NS), FPS)
    return times_ns


def _read_feedbacks(fields: Fields, times_ns: list[int]) -> list[tuple[int, str]]:
    """Return the time and text of each feedback: equal texts of frames in a row are one."""
    texts = fields.record.get("feedbacks")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise fields.error("feedbacks", "must be a list of texts, one for each frame")
    if len(texts) != len(times_ns):
        raise fields.error(
            "feedbacks", f"must have {len(times_ns)} texts, as video_timestamps has times, not {len(texts)}"
        )
    frames = zip(times_ns, ["", *texts], texts, strict=False)
    return [(time_ns, replace_surrogates(text)) for time_ns, before, text in frames if text.strip() and text != before]


def _read_transitions(fields: Fields, num_feedbacks: int) -> list[int]:
    """Return the numbers of the feedbacks that begin an exercise, or end the workout."""
    flags = fields.record.get("is_transition")
    if not isinstance(flags, list) or len(flags) != num_feedbacks or any(flag not in (0, 1) for flag in flags):
        raise fields.error(
            "is_transition", f"must be a list of true or false, one for each of {num_feedbacks} feedbacks"
        )
    transitions = [number for number, flag in enumerate(flags) if flag]
    if transitions[:1] != [0] or transitions[-1] != num_feedbacks - 1:
        raise fields.error("is_transition", "must be true for the first and the last feedback, the ends of the workout")
    return transitions
