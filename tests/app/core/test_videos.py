"""Clips of a long video: the page plays, streams and inspects the clip only."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.core import plan
from stepscope.app.core.display_copies import DisplayCopies
from stepscope.app.core.plan import StreamPlan
from stepscope.app.core.videos import read_moment, sample_clip
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.errors import VideoError
from stepscope.engine.video.reader import Frame, probe, read_frames
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample
from tests.engine.video.test_excerpts import number_of, write_numbered
from tests.eval.data.test_clips import SHORT_CLIP
from tests.support.data.published import write
from tests.support.streams.videos import write_at


@pytest.fixture(scope="module")
def long_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_numbered(tmp_path_factory.mktemp("videos") / "v.mp4")


def numbers(path: Path, *, fps: float) -> list[int]:
    return [number_of(frame.image) for frame in read_frames(path, fps=fps)]


def test_the_display_copy_of_a_clip_has_its_pictures_on_its_own_clock(long_video: Path, tmp_path: Path) -> None:
    copies = DisplayCopies(tmp_path)
    copy = copies.find_or_convert(long_video, start_s=10.0, duration_s=6.0)
    assert numbers(copy, fps=10) == list(range(100, 160))
    assert probe(copy).duration_s == pytest.approx(6.0, abs=0.02)
    # from the middle of picture 125 (12.5 s to 12.6 s) to the middle of picture 127
    inside = copies.find_or_convert(long_video, start_s=12.55, duration_s=0.2)
    assert [round(frame.time_s, 2) for frame in read_frames(inside, fps=50)] == [0.0] * 3 + [0.05] * 5 + [0.15] * 2
    assert numbers(inside, fps=50) == [125] * 3 + [126] * 5 + [127] * 2
    assert copies.find_or_convert(long_video, start_s=10.0, duration_s=6.0) == copy
    assert copies.find_or_convert(long_video).read_bytes() == long_video.read_bytes()
    with pytest.raises(VideoError, match=r"before the clip starts at 96\.5 s"):
        copies.find_or_convert(long_video, start_s=96.5, duration_s=6.0)


def test_the_picture_of_a_moment_has_square_pixels(samples: list[Sample], tmp_path: Path) -> None:
    path = write_at(tmp_path / "wide.mp4", [0, 1], pixel_aspect=4 / 3)
    image = read_moment(replace(samples[0], video_path=path, start_s=0.0), 0.0)
    assert image is not None
    assert image.shape == (64, 128, 3)


@pytest.fixture
def samples(long_video: Path, tmp_path: Path) -> list[Sample]:
    return read_samples(write(tmp_path, SHORT_CLIP), videos=long_video.parent)


def test_what_streams_and_what_is_inspected_is_the_clip_alone(
    long_video: Path, samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    (sample,) = samples
    clip = sample_clip(sample, long_video, is_bundled=False)
    planned = StreamPlan(clip=clip, task=Task(), config=StreamConfig(fps=sample.fps))
    seen: list[list[int]] = []

    def encode(_: object, frames: Iterator[Frame], **__: object) -> Iterator[int]:
        seen.append([number_of(frame.image) for frame in frames])
        yield from (0, 1)

    monkeypatch.setattr(plan, "encode", encode)
    checkpoint: Any = None
    found: list[Any] = list(plan.read_features(checkpoint, replace(planned, num_frames=1)))
    assert found == [0]
    assert seen == [list(range(100, 160, 5))]
