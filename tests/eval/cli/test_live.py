"""The command ``live`` streams each checkpoint as ``run`` does: with the policy of its training, and its options."""

import json
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.streams.hub import write_hub
from tests.support.streams.published import write_online


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
