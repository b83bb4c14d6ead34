"""Clips of a long video: the page plays, streams and inspects the clip only."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app import opening
from stepscope.app.core import plan
from stepscope.app.core.batch_context import SPLITS_FOLDER
from stepscope.app.core.display_copies import DisplayCopies
from stepscope.app.core.plan import StreamPlan
from stepscope.app.core.videos import read_moment, read_splits, sample_clip
from stepscope.app.tabs.batch.new_run import own_splits
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.errors import VideoError
from stepscope.engine.video.reader import Frame, probe, read_frames
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample
from stepscope.eval.data.writers import write_samples
from tests.engine.video.test_excerpts import number_of, write_numbered
from tests.eval.data.test_clips import SHORT_CLIP
from tests.support.data.batches import make_worker_config, run_to_end
from tests.support.data.published import write
from tests.support.pages.batch_tab import make_batches
from tests.support.pages.benches import make_context
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


def test_a_run_of_a_published_clip_plays_as_the_clip(long_video: Path, tiny_folder: Path, tmp_path: Path) -> None:
    split = write(tmp_path, {**SHORT_CLIP, "video_path": str(long_video)})
    run_to_end(split, make_worker_config(tiny_folder), tmp_path / "runs" / "a")
    batches = make_batches(split, checkpoint=tiny_folder, runs=tmp_path / "runs")
    context = make_context(tiny_folder, tmp_path / "none.json", tmp_path / "copies")
    event: Any = SimpleNamespace(row_value=["v_clip3"])
    page = opening.open_video(context, batches, None, "a", event)
    clip_view = page.clip
    assert clip_view.clip is not None
    assert (clip_view.clip.duration_s, clip_view.clip.start_s) == (6.0, 10.0)
    assert numbers(Path(clip_view.video), fps=2) == list(range(100, 160, 5))


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


def test_a_split_with_the_name_of_another_is_named_by_its_folder_too(long_video: Path, tmp_path: Path) -> None:
    paths = [tmp_path / folder / "val.json" for folder in ("bundled", "tower/val", "sandwich")]
    for path in paths:
        path.parent.mkdir(parents=True)
        write(path.parent, {**SHORT_CLIP, "video_path": str(long_video)}).rename(path)
    bundled, *own = paths
    assert {name: split.path for name, split in read_splits([bundled], [*own, bundled]).items()} == {
        "val": bundled,
        "tower-val": own[0],
        "sandwich-val": own[1],
    }
    (tmp_path / "again" / "tower").mkdir(parents=True)
    other = own[0].rename(tmp_path / "again" / "tower" / "val.json")
    own[0].write_bytes(other.read_bytes())
    with pytest.raises(ValueError, match="two splits are named tower-val; rename"):
        read_splits([bundled], [own[0], other])


def test_an_uploaded_split_takes_the_part_of_the_file_that_the_page_knows(
    long_video: Path, samples: list[Sample], tmp_path: Path
) -> None:
    known = {"page": read_splits([], [write(tmp_path, {**SHORT_CLIP, "video_path": str(long_video)})])["data"]}
    bare = replace(samples[0], video_path=None, start_s=None)
    other = replace(samples[0], video_id="other", video_path=Path("v.mp4"), start_s=20.0)
    (tmp_path / "uploads").mkdir()
    write_samples(tmp_path / "uploads" / "own.json", [bare, other], file_format="manifest")
    batches: Any = SimpleNamespace(splits=known, runs=tmp_path)
    own_splits.add_upload(batches, tmp_path / "uploads" / "own.json")
    found = [(sample.video_path, sample.start_s) for sample in known["own"].samples]
    assert found == [(long_video.resolve(), 10.0), (long_video.resolve(), 20.0)]
    assert [sample.start_s for sample in read_samples(tmp_path / SPLITS_FOLDER / "own.json")] == [10.0, 20.0]
