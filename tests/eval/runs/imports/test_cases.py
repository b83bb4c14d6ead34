"""Result files that were read wrongly once, kept outside of the repository, with their right values."""

from pathlib import Path

import pytest

from stepscope.engine.records import FrameOutput
from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.imports.import_results import import_into, read_result
from tests.support.data.shared_data import shared


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
