"""Files that were read wrongly once, kept outside of the repository, with their right values."""

from pathlib import Path

import numpy as np
import pytest

from stepscope.engine.cli.commands import read_steps
from stepscope.engine.records import FrameOutput
from stepscope.engine.video.reader import probe, read_frames
from stepscope.engine.video.writer import convert_for_browser
from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.imports.import_results import import_into, read_result
from tests.support.data.shared_data import shared


def images(name: str) -> list[np.ndarray]:
    return [frame.image for frame in read_frames(shared(f"cases/{name}"), fps=2)]


def test_a_mirrored_and_a_turned_file_show_the_plain_one() -> None:
    plain = images("plain5.mp4")
    np.testing.assert_array_equal(images("hflip.mp4"), [image[:, ::-1] for image in plain])
    np.testing.assert_array_equal(images("rot90.mp4"), [np.rot90(image, -1) for image in plain])


def test_a_recorder_that_began_again_gives_its_second_half() -> None:
    joined = images("joined.ts")
    assert len(joined) == 40
    np.testing.assert_array_equal(joined[20], images("joined-fixed.mp4")[20])
    assert probe(shared("cases/joined.ts")).duration_s == pytest.approx(20.0)


def test_red_and_grey_of_a_phone_are_not_washed_out(tmp_path: Path) -> None:
    convert_for_browser(shared("cases/pq.mp4"), tmp_path / "copy.mp4")
    for image in (images("pq.mp4")[0], next(read_frames(tmp_path / "copy.mp4", fps=2)).image):
        assert image[180, 40].tolist() == pytest.approx([255, 0, 0], abs=8)
        assert image[180, 600].tolist() == pytest.approx([128, 128, 128], abs=4)


def test_five_seconds_at_100_000_s_are_ten_frames() -> None:
    assert len(images("late100000.webm")) == 10
    assert probe(shared("cases/late100000.webm")).duration_s == pytest.approx(5.0)


def test_the_display_copy_has_square_pixels(tmp_path: Path) -> None:
    convert_for_browser(shared("cases/sar.mpg"), tmp_path / "copy.mp4")
    copy = probe(tmp_path / "copy.mp4")
    assert (copy.width, copy.height) == (1024, 576)  # 720 pixels of 64:45, as MPEG-2's 16:9 means


def test_steps_with_a_byte_order_mark_are_those_without() -> None:
    steps = read_steps(shared("cases/steps-bom.txt"))
    assert steps == read_steps(shared("cases/steps-crlf.txt"))
    assert steps[0].name == "lay down the board"


def imported(tmp_path: Path, name: str, split: str) -> tuple[FrameOutput, ...]:
    found = read_split(shared(f"cases/{split}"))
    import_into(tmp_path / "run", [shared(f"cases/{name}")], found, {})
    (sample,) = found.samples
    return RunFolder(tmp_path / "run").outputs(sample)


def messages(outputs: tuple[FrameOutput, ...]) -> dict[int, str]:
    return {output.frame_index: output.response for output in outputs if output.response is not None}


@pytest.mark.parametrize(
    ("name", "split", "num_frames", "texts"),
    [
        ("streamo.jsonl", "split1.json", 10, {4: "The kettle boils."}),
        ("mmduet3.jsonl", "split3.json", 30, {12: "The kettle boils."}),
        ("mmduet2-pred.jsonl", "gold.json", 21, {8: "The kettle boils.", 20: "Steam rises."}),
    ],
)
def test_a_case_has_its_frames_and_messages(
    tmp_path: Path, name: str, split: str, num_frames: int, texts: dict[int, str]
) -> None:
    outputs = imported(tmp_path, name, split)
    assert (len(outputs), messages(outputs)) == (num_frames, texts)
    if name.startswith("streamo"):
        assert {output.state for output in outputs[2:4]} == {"standby"}


@pytest.mark.parametrize("name", ["minicpm-stream.jsonl", "omni-duplex-kettle.json"])
def test_a_case_without_a_video_of_its_own_is_read(name: str) -> None:
    (sample,) = read_split(shared("cases/split1.json")).samples
    assert messages(read_result(shared(f"cases/{name}"), sample).outputs) == {4: "The kettle boils."}
