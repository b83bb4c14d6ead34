"""Draw the bundled videos: H.264 files and a manifest with their references.

``eval.data.loading`` reads the manifest. In it, ``cause`` is the difficulty of a turn, and ``scene`` has all values to
redraw a video. The training split has no video files: its manifest holds only the scenes. The worked example of
training has videos of the held-out family, and of the others so that they are kept. Its seeds begin at ``LESSON_SEED``
and are disjoint from those of the bundled and the scored videos.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from tqdm import tqdm

from stepscope.assets.scenes.annotate import annotate
from stepscope.assets.scenes.draw import draw_frame
from stepscope.assets.scenes.recipes import HELD_OUT_FAMILY, TRAINED_FAMILIES
from stepscope.assets.scenes.scene import FPS, Difficulty, Scene, make_scene
from stepscope.engine.io.files import atomic_write
from stepscope.engine.video.writer import write_h264

Kind = Literal["easy", "easy-permuted", "hard", "hard-permuted"]
KINDS: tuple[Kind, ...] = get_args(Kind)
VAL_SEED, TEST_SEED = 6_000_000, 5_000_000
SIZE = (360, 480)
VIDEO_FPS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoVideo:
    """One video to draw."""

    seed: int
    kind: Kind
    family: str
    name: str = ""
    """Id and file name, if it is not made of the family and the kind."""

    @property
    def video_id(self) -> str:
        """Id and file name: the family, followed by ``hard`` and ``permuted`` where they apply."""
        if self.name:
            return self.name
        return "-".join([self.family.replace(" ", "-"), *(word for word in self.kind.split("-") if word != "easy")])


def _videos(seed: int, families: Mapping[Kind, Sequence[str]]) -> tuple[DemoVideo, ...]:
    named = [(kind, family) for kind, group in families.items() for family in group]
    return tuple(DemoVideo(seed=seed + i, kind=kind, family=family) for i, (kind, family) in enumerate(named))


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


def draw_split(videos: Sequence[DemoVideo], manifest: Path, *, video_fps: int = VIDEO_FPS) -> None:
    """Draw the videos next to the manifest, at ``video_fps`` pictures per second, and write it."""
    records = []
    for video in tqdm(videos, desc="drawing", unit="video"):
        scene = make_kind(video.kind, video.seed, family=video.family)
        times = (index / video_fps for index in range(round(scene.num_frames / FPS * video_fps)))
        images = (draw_frame(scene, time_s, height=SIZE[0], width=SIZE[1]) for time_s in times)
        write_h264(manifest.parent / f"{video.video_id}.mp4", images, fps=video_fps, crf=30)
        records.append(_record(video, scene))
    with atomic_write(manifest) as file:
        json.dump({"split": manifest.stem, "videos": records}, file, indent=1)


def make_kind(kind: Kind, seed: int, *, family: str | None = None) -> Scene:
    """Return a random scene of one kind, of any trained family by default."""
    return make_scene(seed, difficulty=_difficulty(kind), family=family, permute_ids=kind.endswith("permuted"))


def _difficulty(kind: Kind) -> Difficulty:
    return Difficulty.hard() if kind.startswith("hard") else Difficulty.easy()


def _record(video: DemoVideo, scene: Scene) -> dict[str, Any]:
    knobs = {"seed": video.seed, **asdict(_difficulty(video.kind)), "family": video.family}
    return {
        "video_id": video.video_id,
        "video_path": f"{video.video_id}.mp4",
        "fps": FPS,
        "num_frames": scene.num_frames,
        "goal": scene.goal,
        "steps": [asdict(step) for step in scene.steps],
        "turns": [asdict(turn) for turn in annotate(scene)],
        "initial_state": {},
        "scene": {**knobs, "permuted": video.kind.endswith("permuted")},
    }


LESSON_SEED: Final = 8_000_000
NUM_LESSON_VAL: Final = 16


def draw_lesson(out: Path, *, num_new: int, num_kept: int) -> None:
    """Draw ``train.json`` and ``val.json``, each in a folder with its videos.

    It has ``num_new`` training videos of the held-out family, and ``num_kept`` of the others.
    """
    half, new, kept = NUM_LESSON_VAL // 2, (HELD_OUT_FAMILY,), TRAINED_FAMILIES
    splits = {
        "train": [*_lesson_videos(0, num_new, new), *_lesson_videos(10_000, num_kept, kept)],
        "val": [*_lesson_videos(20_000, half, new), *_lesson_videos(30_000, half, kept)],
    }
    for name, videos in splits.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        draw_split(videos, out / name / f"{name}.json", video_fps=2)


def _lesson_videos(first: int, number: int, families: tuple[str, ...]) -> Iterator[DemoVideo]:
    """Yield videos of all kinds and of some families in turn."""
    for index in range(number):
        kind, family = KINDS[index % len(KINDS)], families[index % len(families)]
        yield DemoVideo(
            seed=LESSON_SEED + first + index, kind=kind, family=family, name=f"{family.replace(' ', '-')}-{index}"
        )
