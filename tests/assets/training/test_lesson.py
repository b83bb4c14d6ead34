"""The splits of the worked example of training."""

from pathlib import Path

import pytest

from stepscope.assets.demo_videos import DemoVideo
from stepscope.assets.training.lesson import draw_lesson


def test_the_lesson_has_the_held_out_family_and_the_others_and_no_seed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, list[DemoVideo]] = {}
    monkeypatch.setattr(
        "stepscope.assets.training.lesson.draw_split",
        lambda videos, manifest, *, video_fps: drawn.update({manifest.stem: videos}),
    )
    draw_lesson(tmp_path, num_new=9, num_kept=7)
    assert sorted(drawn) == ["train", "val"]
    assert [video.family for video in drawn["train"]].count("tower") == 9
    assert len({video.family for video in drawn["train"]}) == 8
    assert all(len({video.video_id for video in videos}) == len(videos) for videos in drawn.values())
    seeds = [video.seed for videos in drawn.values() for video in videos]
    assert len(set(seeds)) == len(seeds)
