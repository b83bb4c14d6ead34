"""The benchmark: every mode streams the same, and its figures can be read by a program."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.engine.bench.modes import Mode, measure, stream_in_float32
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.stream import StreamRequest
from stepscope.eval.__main__ import main
from tests.support.streams.fakes import random_frames
from tests.support.streams.streams import TASK


def bench(*arguments: str) -> int:
    return main(["bench", "--device", "cpu", "--repeats", "1", *arguments])


def test_a_split_is_streamed_in_five_modes_and_the_last_line_is_json(
    demo_manifest: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(str(demo_manifest), "--checkpoint", str(tiny_folder), "--batch-size", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8  # what is measured, the heading, five modes, JSON
    modes = json.loads(lines[-1])["modes"]
    assert [mode["frames"] for mode in modes] == [24] * 5
    assert all(mode["frames_per_s"] > 0 for mode in modes)
    assert [mode["mode"] for mode in modes if mode["step_p95_ms"] is not None] == [modes[0]["mode"], modes[4]["mode"]]
    assert 0 < modes[4]["step_p50_ms"] <= modes[4]["step_p95_ms"]
    passes = [mode["passes"] for mode in modes[:4]]
    assert passes == sorted(passes, reverse=True)
    assert passes[3] < passes[0]
    assert modes[4]["passes"] <= passes[0]


@pytest.fixture(scope="module")
def checkpoint(tiny_folder: Path) -> Checkpoint:
    return load_model(tiny_folder, device="cpu")


@pytest.fixture(scope="module")
def videos(checkpoint: Checkpoint) -> list[StreamRequest]:
    return [StreamRequest(video_id="a", features=list(random_frames(checkpoint, 12)), task=TASK)]


def test_decisions_that_differ_are_counted_and_the_close_ones_among_them(
    checkpoint: Checkpoint, videos: list[StreamRequest]
) -> None:
    config = StreamConfig(speak_threshold=0.975, update_threshold=1)
    reference = stream_in_float32(checkpoint, videos, config, rows=1)
    assert all(output.speak_prob < 0.97 for output in reference["a"])
    for frame, prob in ((3, 0.98), (5, 0.97), (8, 0.999)):  # spoke closely; silent, as now; spoke clearly
        reference["a"][frame] = replace(reference["a"][frame], speak_prob=prob)
    row = next(iter(measure(checkpoint, videos, [Mode(name="all", config=config)], reference=reference)))
    assert (row.decisions, row.differing, row.near) == (24, 2, 1)
    assert row.is_equal  # the texts of what is reference are those of a silent run


@pytest.mark.parametrize(
    ("content", "options", "reason"),
    [
        ('{"videos": []}', [], "split.json holds no videos to stream"),
        ("", ["--repeats", "-1"], "error: --repeats must be at least 1; got -1"),
    ],
)
def test_wrong_use_is_one_sentence(
    content: str, options: list[str], reason: str, tmp_path: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "split.json").write_text(content)
    assert bench(str(tmp_path / "split.json"), "--checkpoint", str(tiny_folder), *options) == 2
    assert reason in capsys.readouterr().err
