"""The worked example of training: splits with videos of the held-out family, and of the others so that they are kept.

Seeds begin at ``LESSON_SEED`` and are disjoint from those of the bundled and the scored videos.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stepscope.assets.demo_videos import KINDS, DemoVideo, draw_split
from stepscope.assets.scenes.recipes import HELD_OUT_FAMILY, TRAINED_FAMILIES

LESSON_SEED: Final = 8_000_000
VAL_VIDEOS: Final = 16


def draw_lesson(out: Path, *, num_new: int, num_kept: int) -> None:
    """Draw ``train.json`` and ``val.json``, each in a folder with its videos.

    It has ``num_new`` training videos of the held-out family, and ``num_kept`` of the others.
    """
    half, new, kept = VAL_VIDEOS // 2, (HELD_OUT_FAMILY,), TRAINED_FAMILIES
    splits = {
        "train": [*_videos(0, num_new, new), *_videos(10_000, num_kept, kept)],
        "val": [*_videos(20_000, half, new), *_videos(30_000, half, kept)],
    }
    for name, videos in splits.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        draw_split(videos, out / name / f"{name}.json", video_fps=2)


def _videos(first: int, number: int, families: tuple[str, ...]) -> Iterator[DemoVideo]:
    """Yield videos of all kinds and of some families in turn."""
    for index in range(number):
        kind, family = KINDS[index % len(KINDS)], families[index % len(families)]
        yield DemoVideo(
            seed=LESSON_SEED + first + index, kind=kind, family=family, name=f"{family.replace(' ', '-')}-{index}"
        )
