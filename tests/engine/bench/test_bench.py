"""The benchmark: every mode streams the same, and its figures can be read by a program."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaModel

from benchmarks.random_model import SHAPES, build_random_workload, random_checkpoint
from stepscope.engine.__main__ import main
from stepscope.engine.bench.modes import Mode, as_float32, list_modes, measure, stream_in_float32
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.stream import StreamRequest
from tests.support.streams.fakes import random_frames
from tests.support.streams.graphs import with_graphs
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


@pytest.mark.parametrize(
    ("shape", "num_millions"), [("SmolVLM2-256M", 134.5), ("SmolVLM2-500M", 361.8), ("SmolVLM2-2.2B", 1711.4)]
)
def test_the_text_model_of_a_shape_has_the_published_number_of_parameters(shape: str, num_millions: float) -> None:
    # those of SmolLM2-135M, -360M and -1.7B, whose vocabulary lacks the tokens of images
    with torch.device("meta"):
        model = LlamaModel(LlamaConfig(**SHAPES[shape]))
    num_params = sum(weight.numel() for weight in model.parameters())
    assert num_params / 1e6 == pytest.approx(num_millions, rel=1e-3)


@pytest.mark.slow
def test_a_random_model_of_a_shape_speaks_on_some_frames_at_full_length() -> None:
    work = build_random_workload(
        random_checkpoint("tiny-10", load_model("bundled", device="cpu")), num_videos=2, num_frames=60
    )
    rows = list(measure(work.checkpoint, work.videos, list_modes(work.config, rows=2)))
    assert all(row.is_equal for row in rows)
    assert max(row.prob_difference for row in rows) < 1e-4
    # about 5 % of 120 frames speak, each with 50 tokens
    assert 120 + 2 * 50 < rows[0].passes < 120 + 20 * 50


@pytest.mark.slow
def test_a_short_number_format_is_compared_with_float32(
    demo_manifest: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    split = (str(demo_manifest), "--checkpoint", str(tiny_folder))
    assert bench(*split, "--batch-size", "2", "--dtype", "bfloat16") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "compared with float32; a close decision is one within 0.01 of its threshold there"
    reference = json.loads(lines[-1])
    assert (reference["dtype"], reference["compared_with"], reference["near"]) == ("bfloat16", "float32", 0.01)
    for mode in reference["modes"]:
        assert mode["decisions"] == 2 * mode["frames"]
        assert mode["decisions"] >= mode["differing"] >= mode["near"]
        assert mode["prob_difference"] > 1e-4


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


def test_a_copy_in_float32_computes_with_the_weights_as_they_are(
    tiny_folder: Path, videos: list[StreamRequest]
) -> None:
    short = load_model(tiny_folder, device="cpu", dtype="bfloat16")
    exact = as_float32(short)
    assert exact.model.dtype == torch.float32 != short.model.dtype
    pairs = zip(short.model.parameters(), exact.model.parameters(), strict=True)
    assert all(ours.float().equal(theirs) for ours, theirs in pairs)


def test_where_graphs_can_be_had_three_modes_are_measured_with_them(
    checkpoint: Checkpoint, videos: list[StreamRequest]
) -> None:
    config = StreamConfig(speak_threshold=0.999, update_threshold=1)
    rows = list(measure(with_graphs(checkpoint), videos, list_modes(config, rows=2, graphs=True), repeats=2))
    assert [row.mode.endswith(", graphs") for row in rows] == [False] * 5 + [True] * 3
    assert all(row.is_equal for row in rows)
    assert [row.passes for row in rows[2:5]] == [row.passes for row in rows[5:]]


@pytest.mark.parametrize(
    ("content", "options", "reason"),
    [
        ('{"videos": []}', [], "split.json holds no videos to stream"),
        ('{"clips": []}', [], "not the manifest of a split"),
        ("", ["--batch-size", "-1"], "error: --batch-size must be at least 1; got -1"),
        ("", ["--repeats", "-1"], "error: --repeats must be at least 1; got -1"),
    ],
)
def test_wrong_use_is_one_sentence(
    content: str, options: list[str], reason: str, tmp_path: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "split.json").write_text(content)
    assert bench(str(tmp_path / "split.json"), "--checkpoint", str(tiny_folder), *options) == 2
    assert reason in capsys.readouterr().err
