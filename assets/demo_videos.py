"""Draw the bundled videos: H.264 files and a manifest with their references.

The manifest is one JSON object per split: ``videos`` is a list of ``video_id``, ``video_path`` (relative to the
manifest), ``fps``, ``num_frames``, ``goal``, ``steps`` (``[{id, name}]``), ``turns`` (``[{time_s, role, text,
cause}]``, where ``cause`` is the difficulty of the turn), ``initial_state``, and ``scene``, from which the video can be
redrawn. ``eval.data.loading`` reads it. The training split has no video files: its manifest holds only the scenes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from assets.annotate import annotate
from assets.build import goal
from assets.draw import draw_frame
from assets.recipes import HELD_OUT_FAMILY
from assets.scene import FPS, Difficulty, Scene, make_scene
from engine.io import atomic_write
from engine.video.writer import write_h264

Kind = Literal["easy", "easy-permuted", "hard", "hard-permuted"]
KINDS: tuple[Kind, ...] = ("easy", "easy-permuted", "hard", "hard-permuted")
VAL_SEED, TEST_SEED = 6_000_000, 5_000_000
SIZE = (360, 480)
VIDEO_FPS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoVideo:
    """One video to draw."""

    video_id: str
    """Id and file name: the family, followed by ``hard`` and ``permuted`` where they apply."""
    seed: int
    """Seed of the scene."""
    difficulty: Difficulty
    family: str
    """Recipe name."""
    permute_ids: bool = False
    """Whether step ids are out of recipe order."""


def _videos(seed: int, families: Mapping[Kind, Sequence[str]]) -> tuple[DemoVideo, ...]:
    named = [(kind, family) for kind, group in families.items() for family in group]
    return tuple(
        DemoVideo(
            video_id="-".join([family.replace(" ", "-"), *(word for word in kind.split("-") if word != "easy")]),
            seed=seed + number,
            difficulty=Difficulty.hard() if kind.startswith("hard") else Difficulty.easy(),
            family=family,
            permute_ids=kind.endswith("permuted"),
        )
        for number, (kind, family) in enumerate(named)
    )


TEST_VIDEOS = _videos(
    TEST_SEED,
    {
        "easy": ("toy truck", "sandwich", "desk lamp", "boat"),
        "easy-permuted": ("house", "flower pot", "robot", HELD_OUT_FAMILY),
        "hard": ("robot", "house", "flower pot", HELD_OUT_FAMILY),
        "hard-permuted": ("toy truck", "sandwich", "desk lamp", "boat"),
    },
)
"""The test split: four videos of each kind, two of the held-out family."""
VAL_VIDEOS = _videos(
    VAL_SEED,
    {
        "easy": ("robot", "house"),
        "easy-permuted": ("sandwich", "boat"),
        "hard": ("toy truck", "desk lamp"),
        "hard-permuted": ("flower pot", "house"),
    },
)
"""The validation split, for choosing thresholds."""


def draw_split(videos: Sequence[DemoVideo], manifest: Path) -> None:
    """Draw the videos next to the manifest, and write it."""
    records = []
    for video in tqdm(videos, desc="drawing", unit="video"):
        scene = scene_of(video)
        path = manifest.parent / f"{video.video_id}.mp4"
        write_h264(path, _images(scene), fps=VIDEO_FPS, crf=30)
        records.append(_record(video, scene, path.name))
    with atomic_write(manifest) as file:
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
        "scene": {
            "seed": video.seed,
            **asdict(video.difficulty),
            "family": video.family,
            "permuted": video.permute_ids,
        },
    }
