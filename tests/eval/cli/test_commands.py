"""The settings of ``--config`` reach the runs of ``eval`` and ``sweep``."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.data.batches import SHORT, copies, load_letters, no_java, write_split
from tests.support.streams.hub import write_hub
from tests.support.streams.published import write_online


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of settings; texts are embedded by their letters, and there is no Java."""
    monkeypatch.setattr("stepscope.eval.cli.run_command.import_encoder", load_letters)
    monkeypatch.setattr("stepscope.eval.cli.run_command.TextScorer", no_java)
    monkeypatch.setattr("stepscope.eval.cli.sweep_command.import_encoder", load_letters)
    path = tmp_path / "settings.yaml"
    path.write_text(
        f"speak_threshold: 0.9\nupdate_threshold: 0.8\nmax_new_tokens: {SHORT.max_new_tokens}\nseed: 7\nfps: 5\n"
    )
    return path


@pytest.fixture
def split(demo_manifest: Path, tmp_path: Path) -> Path:
    return write_split(tmp_path, *copies(demo_manifest, tmp_path, 1))


def test_a_run_has_the_settings_of_the_file_and_the_thresholds_of_the_command(
    config: Path, split: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    (own := tmp_path / "own.yaml").write_text("frame_text: at {start:g}\nspeak_threshold: 0.1\nseed: 1\n")
    options = ["--checkpoint", str(tiny_folder), "--config", str(config), "--preset", str(own), "--devices", "cpu:1"]
    out = tmp_path / "run"
    assert main(["eval", str(split), "--out", str(out), *options, "--speak-threshold", "0.4"]) == 0
    written = json.loads((out / "run.json").read_text())["config"]
    wanted = {
        "speak_threshold": 0.4,
        "update_threshold": 0.8,
        "max_new_tokens": 8,
        "seed": 7,
        "fps": 2,
        "frame_text": "at {start:g}",
    }
    assert written["lookahead"] == 64
    assert {name: written[name] for name in wanted} == wanted


def test_scores_are_sent_to_trackio_if_it_is_installed(
    config: Path,
    split: Path,
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["eval", str(split), "--checkpoint", str(tiny_folder), "--config", str(config), "--devices", "cpu:1"]
    words += ["--out", str(tmp_path / "run"), "--trackio", "steps"]
    monkeypatch.setitem(sys.modules, "trackio", None)
    assert main(words) == 2
    assert "error: --trackio needs trackio, which is not installed" in capsys.readouterr().err
    assert not (tmp_path / "run").exists(), "refused before hours of work"
    calls = dict[str, Any]()
    fake = SimpleNamespace(
        init=lambda **options: calls.update(init=options),
        log=lambda values, step: calls.update(log=values),
        finish=lambda: calls.update(finish=True),
    )
    monkeypatch.setitem(sys.modules, "trackio", fake)
    assert main(words) == 0
    assert (calls["init"]["project"], calls["init"]["name"], calls["finish"]) == ("steps", "run", True)
    assert calls["init"]["config"]["config"]["seed"] == 7
    scores = json.loads((tmp_path / "run" / "metrics.json").read_text())["scores"]
    assert calls["log"] == {name: value for name, value in scores.items() if value is not None}


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's
def test_a_published_assistant_streams_live_with_its_own_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", iter(()))
    write_h264(tmp_path / "a.mp4", moving_square(10, shade=90), fps=10)
    options = [str(tmp_path / "a.mp4"), "--checkpoint", str(write_online(tmp_path / "online")), "--device", "cpu"]
    assert main(["live", *options, "--out", str(tmp_path / "no"), "--quantize", "4bit"]) == 2
    assert "--quantize 4bit needs bitsandbytes; install it with" in capsys.readouterr().err
    assert main(["live", *options, "--out", str(tmp_path / "live"), "--max-new-tokens", "4"]) == 0
    settings = json.loads((tmp_path / "live" / "run.json").read_text("utf-8"))
    assert settings["config"]["decision_policy"] == "streaming-eos"
    assert "is_untrained" not in settings
    options[2] = str(write_hub(tmp_path / "qwen", "qwen2_vl"))
    options += ["--out", str(tmp_path / "hub"), "--max-new-tokens", "4", "--frame-pixels", "9408"]
    assert main(["live", *options]) == 0
    settings = json.loads((tmp_path / "hub" / "run.json").read_text("utf-8"))
    assert settings["config"]["decision_policy"] == "answer"
    assert (settings["frame_pixels"], settings["is_untrained"]) == (9408, True)
