"""The command line, on real files."""

import subprocess
import sys
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from stepscope.engine.__main__ import main
from stepscope.engine.config import StreamConfig
from stepscope.engine.records import read_outputs
from stepscope.engine.video.writer import write_h264
from tests.support.paths import ROOT
from tests.support.streams.fakes import nan_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tiny_folder: Path) -> Path:
    return tiny_folder


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("video") / "six seconds.mp4"
    random = np.random.default_rng(0)
    write_h264(path, (random.integers(0, 256, (48, 64, 3), dtype=np.uint8) for _ in range(60)), fps=10)
    return path


def test_a_bare_video_gives_a_line_per_frame_and_a_progress_bar(
    checkpoint: Path, video: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run.jsonl"
    assert main(["run", str(video), "--out", str(out), "--checkpoint", str(checkpoint), "--device", "cpu"]) == 0
    assert [output.frame_index for output in read_outputs(out)] == list(range(12))
    printed = capfd.readouterr()
    assert "frame/s" in printed.err
    assert "12 frames written" in printed.out


def test_goal_steps_and_user_turns_are_taken(checkpoint: Path, video: Path, tmp_path: Path) -> None:
    (tmp_path / "steps.txt").write_text("S2: attach the wheel\nS1: put on the roof\n")
    out = tmp_path / "run.jsonl"
    arguments = ["--goal", "build", "--steps", str(tmp_path / "steps.txt"), "--user", "2: What is next?"]
    options = ["--checkpoint", str(checkpoint), "--lookahead", "4", "--speak-threshold", "1", "--update-threshold", "1"]
    assert main(["run", str(video), "--out", str(out), *arguments, *options]) == 0
    outputs = read_outputs(out)
    assert outputs[0].dst_state == {"S2": "not_started", "S1": "not_started"}
    tokens = [output.cache_tokens for output in outputs]
    grown = [after - before for before, after in pairwise(tokens)]
    assert grown[3] > 1  # the user turn enters at frame 4
    assert {g for at, g in enumerate(grown) if at != 3} == {1}


def test_a_question_is_answered_at_its_frame(checkpoint: Path, video: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    silent = ["--speak-threshold", "1", "--update-threshold", "1"]
    ask = ["--ask", "2: What is next?"]
    assert main(["run", str(video), "--out", str(out), "--checkpoint", str(checkpoint), *silent, *ask]) == 0
    assert [output.frame_index for output in read_outputs(out) if output.response is not None] == [4]


def test_features_stand_in_for_the_video(checkpoint: Path, video: Path, tmp_path: Path) -> None:
    common = ["--checkpoint", str(checkpoint), "--device", "cpu"]
    assert main(["encode", str(video), "--out", str(tmp_path / "f.safetensors"), *common]) == 0
    for name, more in (("a", []), ("b", ["--features", str(tmp_path / "f.safetensors")])):
        assert main(["run", str(video), "--out", str(tmp_path / name), *common, *more]) == 0
    a, b = read_outputs(tmp_path / "a"), read_outputs(tmp_path / "b")
    assert [output.time_s for output in a] == [output.time_s for output in b]
    assert [output.speak_prob for output in a] == pytest.approx([output.speak_prob for output in b], abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["run", "missing.mp4"], "missing.mp4"),
        (["encode", "VIDEO"], "must name a .safetensors file"),
        (["run", "VIDEO", "--checkpoint", "/nowhere"], "there is no folder /nowhere"),
        (["run", "VIDEO", "--user", "soon"], "TIME: WORDS"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    checkpoint: Path, video: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    given = [str(video) if argument == "VIDEO" else argument for argument in arguments]
    checkpoint_given = [] if "--checkpoint" in given else ["--checkpoint", str(checkpoint)]
    assert main([*given, "--out", str(tmp_path / "run.jsonl"), *checkpoint_given]) == 2
    line = next(line for line in capfd.readouterr().err.splitlines() if line.startswith("error: "))
    assert reason in line
    assert not (tmp_path / "run.jsonl").exists()


def test_a_model_whose_probabilities_are_nan_writes_nothing(
    video: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out, broken = tmp_path / "run.jsonl", nan_checkpoint(tmp_path / "broken").folder
    assert main(["run", str(video), "--out", str(out), "--checkpoint", str(broken), "--device", "cpu"]) == 2
    assert "error: frame 0 has the probability nan: the weights are damaged" in capfd.readouterr().err
    assert not out.exists()


def test_a_full_device_is_one_line_and_exit_code_2(
    video: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nSee the documentation")

    monkeypatch.setattr("stepscope.engine.cli.commands.load_as", fail)
    assert main(["run", str(video), "--out", str(tmp_path / "run.jsonl")]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: the memory of the device is full; ")
    assert line.endswith(": CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_every_setting_of_a_stream_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    assert [field.name for field in fields(StreamConfig) if f"--{field.name.replace('_', '-')}" not in shown] == []


def test_the_video_itself_is_never_overwritten(
    checkpoint: Path, video: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = video.read_bytes()
    assert main(["run", str(video), "--out", str(video), "--checkpoint", str(checkpoint)]) == 2
    assert "is the input video" in capfd.readouterr().err
    assert video.read_bytes() == before


def test_a_killed_run_leaves_no_half_file(checkpoint: Path, video: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    command = [sys.executable, "-m", "stepscope.engine", "run", str(video), "--out", str(out)]
    with subprocess.Popen([*command, "--checkpoint", str(checkpoint)], stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stderr is not None
        seen = b""
        while b"frame" not in seen and process.poll() is None:
            seen += process.stderr.read1(64)  # type: ignore[attr-defined]
        process.kill()
    assert not out.exists() or len(read_outputs(out)) == 12
