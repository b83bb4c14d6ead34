"""Records in the published formats and in a manifest, and a file of them."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.eval.data.samples import Sample

CLIP: dict[str, Any] = {
    "video_uid": "v",
    "clip_idx": 3,
    "inferred_goal": "build the boat",
    "fps": 2,
    "start_frame_idx": 193,
    "end_frame_idx": 213,  # 96.5 s to 106.5 s
    "dst": [
        {"type": "step", "id": "S2", "name": "hang the sail", "start_ts": 99.0, "end_ts": 106.0},
        {"type": "step", "id": "S1", "name": "set down the hull", "start_ts": 97.2, "end_ts": 99.0},
    ],
    "conversation": [
        {"role": "system", "content": "Current step states - Step S2: completed, Step S1: completed"},
        {"role": "assistant", "content": "Now the sail.", "time": 99.0, "start_frame": 7},
        {"role": "user", "content": "What now?", "time": 99.0},
        {"role": "DST_UPDATE", "content": [{"id": "S1", "transition": "complete"}], "time": 99.0},
        {"role": "DST_UPDATE", "content": [{"id": "S2", "transition": "start"}], "time": 99.0},
        {"role": "DST_UPDATE", "content": [{"id": "S1", "transition": "start"}], "time": 97.2},
    ],
}
DIALOGUE: dict[str, Any] = {
    "video_uid": "v",
    "clip_idx": 0,
    "fps": 2,
    "start_frame_idx": 11,
    "end_frame_idx": 21,
    "metadata": {
        "user_id": "talk_1",
        "task_goal": "make tea",
        "knowledge": "Making tea\n1. Boil water\n2) Pour\n it in",
    },
    "conversation": [
        {"role": "system", "content": "You help."},
        {"role": "frames", "start": 11, "end": 15},
        {"role": "user", "content": "Hello", "time": 7.8},
        {"role": "frames", "start": 15, "end": 16},
        {"role": "assistant", "content": "Boil water.", "time": 7.9},
        {"role": "frames", "start": 16, "end": 21},
        {"role": "user", "content": "Done?", "time": 10.4},
        {"role": "assistant", "content": "Done.", "time": 10.5},
    ],
}


MANIFEST: dict[str, Any] = {
    "videos": [
        {
            "video_id": "v",
            "fps": 2,
            "num_frames": 20,
            "goal": "x",
            "steps": [{"id": "S1", "name": "x"}],
            "initial_state": {"S1": "completed"},
            "turns": [{"time_s": time_s, "role": "user", "text": text} for time_s, text in ((9.9, "in"), (10, "late"))],
        }
    ]
}


EGOPROACTIVE: dict[str, Any] = {
    "video_path": "sticker.mp4",
    "duration_in_sec": 23.5,
    "video_intervals": [[0.0, 8.0], [8.0, 16.0], [16.0, 23.5]],
    "query": "How do I decorate a cover?",
    "domain": "Arts and Crafts",
    "task": "Decorating a cover with stickers",
    "answers": ["$silent$", "$interrupt$Peel the sticker off.", "$interrupt$"],
    "dialog": [[], [], []],
}
"""A record of the form that the data set of EgoProactive documents."""
COOKING: dict[str, Any] = {
    "video_id": "1_7",
    "activity_name": "Microwave Egg Sandwich",
    "output_texts": ["Crack an egg.", "Well done.", "Microwave it."],
    "output_timestamps": [0.0, 12.5, 13.0],
    "output_types": ["instruction", "feedback", "instruction"],
    "output_actions": ["", "cracks an egg", ""],
    "remaining_plan": [["Microwave it."], ["Microwave it."], []],
}
OMNIPRO: dict[str, Any] = {
    "id": "en_1",
    "task": "event_narration",
    "video_id": "x",
    "video_path": "raw_videos/x.mp4",
    "duration": 90,
    "question": "Narrate.",
    "question_time": "00:02",
    "ground_truth": [
        {"trigger_time": "01:05", "response": "A goal."},
        {"trigger_time_sec": 20.5, "count": 3},
        {"trigger_time_sec": 30},
    ],
}
"""A record of the form that OmniPro's programs read."""
QEVD: dict[str, Any] = {
    "long_range_video_file": "./long_range_videos/0003.mp4",
    "video_timestamps": "./long_range_videos/0003_timestamps.npy",
    "feedbacks": [
        *(["", "First up are squats!"] + ["First up are squats!"] + [""] * 3),
        *(["Lower."] * 3 + ["Good."] + [""] * 2),
        *(["Moving on to lunges!"] + [""] * 2 + ["Moving on to planks!"] + [""] * 2),
        *(["Hold it.", "", "Hold it.", "", "That's it!", "That's it!"]),
    ],
    "is_transition": [True, False, False, True, True, False, False, True],
    "feedback_timestamps": [],
}
"""A record of QEVD with 24 frames, whose times ``write_qevd`` writes."""
QEVD_TIMES_NS = [1_700_000_000_250_000_000 + frame * 500_000_000 + frame % 2 * 10_000_000 for frame in range(24)]


def write_qevd(folder: Path, record: dict[str, Any] = QEVD, times_ns: Any = QEVD_TIMES_NS) -> Path:
    """Write a split of one record, and the times of its frames beside it."""
    (folder / "long_range_videos").mkdir(exist_ok=True)
    np.save(folder / "long_range_videos" / "0003_timestamps.npy", np.asarray(times_ns), allow_pickle=True)
    return write(folder, [record])


def write(folder: Path, content: object) -> Path:
    (folder / "data.txt").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / "data.txt"


def changed(record: dict[str, Any], *path: str | int, to: object) -> dict[str, Any]:
    """Return a copy in which one place holds another value; ... removes it."""
    record = copy.deepcopy(record)
    place: Any = record
    for key in path[:-1]:
        place = place[key]
    if to is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return record


def frames_of(sample: Sample, role: str) -> list[int]:
    return [math.floor(turn.time_s * sample.fps) for turn in sample.turns if turn.role == role]
