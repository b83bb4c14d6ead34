"""Draws the bundled videos: H.264 files and a manifest of their references.

The manifest is one JSON object per split: ``videos`` is a list of ``video_id``, ``video_path`` (relative to the
manifest), ``fps``, ``num_frames``, ``goal``, ``steps`` (``[{id, name}]``), ``turns``
(``[{time_s, role, text, cause}]``) and ``initial_state``. ``eval.samples`` reads it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from assets.annotate import annotate
from assets.build import goal
from assets.draw import draw_frame
from assets.scene import FPS, Difficulty, Scene, make_scene
from engine.h264 import write_h264
from engine.records import write_whole

TEST_SEED = 5_000_000
SIZE = (360, 480)
VIDEO_FPS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoVideo:
    """One video to draw."""

    video_id: str
    """Its name, and its file's."""
    seed: int
    """Seed of the scene."""
    difficulty: Difficulty
    """How hard it is."""
    family: str
    """What is built."""
    permute_ids: bool = False
    """Whether step ids are out of recipe order."""


def _bundled(number: int, name: str, family: str, *, is_hard: bool = False) -> DemoVideo:
    difficulty = Difficulty.hard() if is_hard else Difficulty.easy()
    return DemoVideo(video_id=name, seed=TEST_SEED + number, difficulty=difficulty, family=family)


BUNDLED_VIDEOS = (
    _bundled(0, "toy-truck", "toy truck"),
    _bundled(1, "sandwich", "sandwich"),
    _bundled(2, "desk-lamp", "desk lamp"),
    _bundled(3, "house", "house"),
    _bundled(4, "boat", "boat"),
    _bundled(5, "flower-pot", "flower pot"),
    _bundled(6, "robot-hard", "robot", is_hard=True),
    _bundled(7, "tower-hard", "tower", is_hard=True),
)
"""The test split: six easy videos and two hard ones. No training scene has their seeds."""


def draw_split(videos: Sequence[DemoVideo], manifest: Path) -> None:
    """Draw the videos beside the manifest and write it."""
    records = []
    for video in tqdm(videos, desc="drawing", unit="video"):
        scene = scene_of(video)
        path = manifest.parent / f"{video.video_id}.mp4"
        write_h264(path, _images(scene), fps=VIDEO_FPS, crf=30)
        records.append(_record(video, scene, path.name))
    with write_whole(manifest) as file:
        json.dump({"split": manifest.stem, "videos": records}, file, indent=1)


def scene_of(video: DemoVideo) -> Scene:
    """Return the scene of a video."""
    return make_scene(video.seed, difficulty=video.difficulty, family=video.family, permute_ids=video.permute_ids)


def _images(scene: Scene) -> Iterator[NDArray[np.uint8]]:
    for index in range(round(scene.num_frames / FPS * VIDEO_FPS)):
        yield draw_frame(scene, index / VIDEO_FPS, height=SIZE[0], width=SIZE[1])


def _record(video: DemoVideo, scene: Scene, file_name: str) -> dict[str, Any]:
    return {
        "video_id": video.video_id,
        "video_path": file_name,
        "fps": FPS,
        "num_frames": scene.num_frames,
        "goal": goal(scene),
        "steps": [asdict(step) for step in scene.steps],
        "turns": [asdict(turn) for turn in annotate(scene)],
        "initial_state": {},
    }
