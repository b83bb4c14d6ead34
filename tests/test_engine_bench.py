"""The benchmark: every mode streams the same, and its figures can be read by a program."""

import json
from pathlib import Path

import pytest

from engine.__main__ import main


def bench(*arguments: str) -> int:
    return main(["bench", *arguments, "--device", "cpu", "--repeats", "1", "--threads", "1"])


def test_a_split_is_streamed_in_four_modes_and_the_last_line_is_json(
    demo_manifest: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(str(demo_manifest), "--checkpoint", str(tiny_folder), "--rows", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7  # what is measured, the heading, four modes, JSON
    modes = json.loads(lines[-1])["modes"]
    assert [mode["frames"] for mode in modes] == [24] * 4
    assert all(mode["frames_per_s"] > 0 for mode in modes)
    passes = [mode["passes"] for mode in modes]
    assert passes == sorted(passes, reverse=True)
    assert passes[3] < passes[0]


def test_a_random_model_of_a_shape_speaks_on_some_frames_at_full_length(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--arch", "tiny", "--frames", "60", "--videos", "2", "--rows", "2") == 0
    modes = json.loads(capsys.readouterr().out.splitlines()[-1])["modes"]
    assert all(mode["is_equal"] for mode in modes)
    assert max(mode["prob_difference"] for mode in modes) < 1e-4
    # about 5 % of 120 frames speak, each with 50 tokens
    assert 120 + 2 * 50 < modes[0]["passes"] < 120 + 20 * 50


def test_another_file_is_no_split(tmp_path: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"clips": []}')
    assert bench(str(wrong), "--checkpoint", str(tiny_folder)) == 2
    assert "not the manifest of a split" in capsys.readouterr().err
