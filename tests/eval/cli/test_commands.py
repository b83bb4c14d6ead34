"""The settings of ``--config`` reach the runs of ``eval`` and ``sweep``."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.video.writer import write_h264
from stepscope.eval.cli.options import SearchOptions
from stepscope.eval.cli.run_tables import search_runs
from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.folder import RunFolder
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
    assert main(["eval", str(split), "--out", str(out), *options, "--speak-threshold", "0,4"]) == 0
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


@pytest.mark.usefixtures("config")
def test_a_preset_of_states_is_run_and_swept(split: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_hub(tmp_path / "hub", "qwen2_5_vl")
    (short := tmp_path / "short.yaml").write_text("max_new_tokens: 4\n")
    options = ["--checkpoint", str(folder), "--preset", "streamo", "--config", str(short)]
    assert main(["eval", str(split), "--out", str(tmp_path / "run"), *options, "--devices", "cpu:1"]) == 0
    run = RunFolder(tmp_path / "run")
    (sample,) = read_split(split).samples
    assert [spec.name for spec in run.signals()] == ["silence", "standby", "response"]
    assert all(sum(output.signals.values()) == pytest.approx(1) for output in run.outputs(sample))
    sweep = ["sweep", str(split), "--out", str(tmp_path / "sweep"), *options, "--device", "cpu:1", "--speak", "0.1,0.9"]
    assert main(sweep) == 0
    assert main(["sweep", str(split), "--preview", str(tmp_path / "run"), "--speak", "0.1,0.9"]) == 0
    shown = capsys.readouterr()
    assert "best dst_update" not in shown.out
    assert shown.err.count("the videos run at the 2 frames/s of the split, not at 1 as set\n") == 2


@pytest.mark.parametrize("command", ["eval", "sweep"])
@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--config", "none.yaml", "none.yaml cannot be read as YAML"),
        ("--hardware-decoding", "cuda", "--hardware-decoding cuda needs a build of PyAV"),
        ("--quantize", "4bit", "--quantize 4bit is for Llama assistants and image-text models; "),
    ],
)
@pytest.mark.usefixtures("config")
def test_what_cannot_be_had_is_refused_before_anything_is_written(
    command: str,
    option: str,
    value: str,
    reason: str,
    split: Path,
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("stepscope.engine.video.hardware.hwdevices_available", list)
    out = tmp_path / "out"
    options = ["--checkpoint", str(tiny_folder), "--device", "cpu:1", option, value]
    assert main([command, str(split), "--out", str(out), *options]) == 2
    assert capfd.readouterr().err.splitlines()[-1].startswith(f"error: {reason}")
    assert not out.exists()


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


def test_a_search_without_a_run_or_with_the_run_first_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name at least one run folder after the query"):
        search_runs(SearchOptions(query="missed", runs=()))
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ValueError, match="is a run folder; name the query first: stepscope search QUERY RUN"):
        search_runs(SearchOptions(query=str(tmp_path), runs=(Path("missed"),)))
