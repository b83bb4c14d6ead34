"""``stepscope train``, on real files."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from stepscope.app.cli.stepscope import main
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.model.heads import save_heads
from stepscope.engine.records import read_outputs
from stepscope.engine.streamer import Streamer
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import build_task
from stepscope.eval.matching.turns import TextEncoder
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from tests.support.data.batches import copies, write_split
from tests.support.paths import ROOT
from tests.support.streams.fakes import count_letters, tiny_model
from tests.support.streams.hub import write_hub


@pytest.fixture
def split(demo_manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a split of two videos; texts are embedded by their letters."""
    monkeypatch.setattr(
        "stepscope.eval.training.job.load_encoder", lambda: TextEncoder(name="letters", encode=count_letters)
    )
    (tmp_path / "data").mkdir()
    return write_split(tmp_path / "data", *copies(demo_manifest, tmp_path / "data", 2))


def train(split: Path, checkpoint: Path, out: Path, *more: str) -> int:
    options = ["--checkpoint", str(checkpoint), "--device", "cpu", "--num-steps", "4", "--batch-size", "2"]
    return main(["train", str(split), "--out", str(out), *options, *more])


def test_a_split_becomes_a_checkpoint_that_runs_with_a_card_and_curves(
    split: Path, tiny_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert train(split, tiny_folder, out, "--val", str(split), "--interval", "2") == 0
    shown = capfd.readouterr()
    assert "2 of 2 clips, 30 frames" in shown.out
    assert re.search(r"step 2 written to \S+: validation score 0.\d{3}, before training 0.\d{3}\n", shown.out)
    assert "warning: training did not raise the validation score" in shown.err
    video, steps = split.parent / "v0.mp4", tmp_path / "o.jsonl"
    assert main(["run", str(video), "--out", str(steps), "--checkpoint", str(out), "--device", "cpu"]) == 0
    assert len(read_outputs(steps)) == 12
    with (out / "training" / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["0", "2", "4"]
    card = (out / "README.md").read_text()
    assert "| F1 |" in card
    assert "contents judged by cosine bands 0.5/0.8, text encoder all-MiniLM-L6-v2, match window" in card
    assert "| learning_rate | 0.0001 |" in card
    with (out / "training" / "clips.csv").open() as file:
        clips = list(csv.DictReader(file))
    assert [row["video_id"] for row in clips] == ["v0", "v1"]
    assert [int(row["frames"]) for row in clips] == [12, 18]
    assert train(split, tiny_folder, out, "--num-steps", "0") == 2
    assert "--num-steps must be at least 1; got 0" in capfd.readouterr().err
    assert train(split, tiny_folder, out) == 2
    assert "holds a training run already; continue it with --resume" in capfd.readouterr().err


def test_an_adapter_is_written_and_scored(split: Path, tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert train(split, tiny_folder, out, "--method", "lora", "--val", str(split)) == 0
    assert (out / "adapter_model.safetensors").is_file()
    assert not (out / "model.safetensors").exists()
    assert load_model(out, device="cpu").base == tiny_folder.resolve()


def test_a_malformed_clip_is_named_and_refused_or_skipped(
    split: Path, tiny_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(split.read_text())
    content["videos"][1]["turns"][0]["time_s"] = 999
    content["videos"].append({**content["videos"][0], "video_id": "absent", "video_path": "absent.mp4"})
    split.write_text(json.dumps(content))
    assert train(split, tiny_folder, tmp_path / "out") == 2
    refused = capfd.readouterr().err
    assert "2 clips cannot be used: v1: " in refused
    assert "use --on-invalid skip" in refused
    assert train(split, tiny_folder, tmp_path / "out", "--on-invalid", "skip") == 0
    shown = capfd.readouterr()
    assert "1 of 3 clips" in shown.out
    assert "warning: v1: " in shown.err
    assert "absent.mp4 does not exist" in shown.err


def test_a_dry_run_predicts_time_and_memory_and_writes_no_checkpoint(
    split: Path, tiny_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert train(split, tiny_folder, out, "--dry-run") == 0
    assert "4 steps took" in (printed := capfd.readouterr().out)
    assert "peak memory" in printed
    assert [path.name for path in out.iterdir()] == ["training"]
    assert train(split, tiny_folder, out) == 0, "the run follows into the same folder"


def test_features_stand_in_for_videos_and_a_new_projector_takes_their_width(
    split: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    content = json.loads(split.read_text())
    for video in content["videos"]:
        del video["video_path"]
        np.save(tmp_path / f"{video['video_id']}.npy", np.ones((video["num_frames"], 48), np.float16))
    split.write_text(json.dumps(content))
    options = ["--features", str(tmp_path), "--feature-dim", "48", "--pooling", "first"]
    assert train(split, tiny_folder, tmp_path / "out", *options) == 0
    model = load_model(tmp_path / "out", device="cpu").smolvlm
    assert (model.feature_dim, model.pooling) == (48, "first")


def test_the_silent_token_is_trained_without_updates(split: Path, tiny_folder: Path, tmp_path: Path) -> None:
    options = ["--decisions", "silent-token", "--silent-token", "#", "--val", str(split)]
    assert train(split, tiny_folder, tmp_path / "out", *options) == 0
    trained = load_model(tmp_path / "out", device="cpu")
    assert trained.silent_id == trained.prompt.tokenizer.convert_tokens_to_ids("#")
    assert trained.fit_config(StreamConfig()).decision_policy == "streaming-eos", "its heads are not trained"


@pytest.mark.parametrize(
    ("model_type", "method", "decisions"),
    [("qwen3_vl", "lora", "state-token"), ("llava", "lora", "answer"), ("qwen2_vl", "full", "state-token")],
)
def test_a_model_of_the_hub_is_trained_and_streams_by_what_it_learned(
    model_type: str, method: str, decisions: str, split: Path, tmp_path: Path
) -> None:
    base, out = write_hub(tmp_path / "base", model_type), tmp_path / "out"
    options = ["--method", method, "--decisions", decisions, "--num-steps", "24", "--learning-rate", "1e-2"]
    assert train(split, base, out, *options, "--autocast", "float32") == 0
    with (out / "training" / "losses.csv").open() as file:
        rows = [{name: float(value or "nan") for name, value in row.items()} for row in csv.DictReader(file)]
    for name in ("text", "speak", *(["update"] if decisions == "answer" else [])):
        assert rows[-1][name] < 0.9 * rows[0][name], name
    kept = "adapter_model.safetensors" if method == "lora" else "model.safetensors"
    weights = [path.name for path in out.iterdir() if path.suffix in (".safetensors", ".bin", ".pt")]
    assert weights == [kept]
    assert json.loads((out / "config.json").read_text())["model_type"] == model_type
    trained, untrained = load_model(out, device="cpu"), load_model(base, device="cpu")
    assert trained.encoder_digest == untrained.encoder_digest
    assert trained.digest != untrained.digest
    config = trained.fit_config(StreamConfig(max_new_tokens=8))
    assert config.decision_policy == decisions
    sample = read_split(split).samples[0]
    outputs = list(Streamer(trained, config).run(SampleFeatures(checkpoint=trained).embed(sample), build_task(sample)))
    assert len(outputs) == sample.num_frames


def test_a_model_of_the_hub_has_no_heads_to_train(
    split: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    base = write_hub(tmp_path / "base", "llava")
    assert train(split, base, tmp_path / "out") == 2
    assert "has no heads to train; use --decisions state-token or answer" in capfd.readouterr().err


def test_clips_with_feature_files_are_trained_on(
    split: Path, tiny_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    save_heads(tmp_path / "heads.safetensors", tiny_model(), silent_token="#")
    common = ["--checkpoint", str(tiny_folder), "--heads", str(tmp_path / "heads.safetensors"), "--device", "cpu"]
    features = tmp_path / "f.safetensors"
    assert main(["encode", str(split.parent / "v0.mp4"), "--out", str(features), *common]) == 0
    clip = {"features": "f.safetensors", "goal": "build", "steps": [], "turns": []}
    (tmp_path / "clips.jsonl").write_text(json.dumps(clip) + "\n")
    arguments = ["train", str(tmp_path / "clips.jsonl"), "--out", str(tmp_path / "new"), "--num-steps", "1", *common]
    assert main(arguments) == 0
    shown = capfd.readouterr().err
    assert "text=-, speak=" in shown, "no loss where nothing is taught"
    assert "nan" not in shown
    trained = load_model(tmp_path / "new", device="cpu")
    assert trained.silent_id == trained.prompt.tokenizer.convert_tokens_to_ids("#")
    run = ["run", str(split.parent / "v0.mp4"), "--out", str(tmp_path / "o"), "--checkpoint", str(tmp_path / "new")]
    assert main([*run, "--features", str(features)]) == 0, "it takes the features of its base"


def test_a_diverged_run_ends_with_a_sentence_and_exit_code_1(
    split: Path, tiny_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = ["--learning-rate", "50", "--num-steps", "60", "--interval", "5"]
    assert train(split, tiny_folder, tmp_path / "out", *options) == 1
    assert "training diverged; lower --learning-rate" in capfd.readouterr().err


COMMAND = "import sys; from stepscope.app.cli.entry import main; sys.exit(main())"


@pytest.mark.slow
def test_a_killed_run_that_continues_equals_one_that_was_not(split: Path, tiny_folder: Path, tmp_path: Path) -> None:
    options = ["--num-steps", "20", "--interval", "5"]
    assert train(split, tiny_folder, tmp_path / "whole", *options) == 0
    out = tmp_path / "killed"
    words = [str(split), "--out", str(out), "--checkpoint", str(tiny_folder), "--device", "cpu", "--batch-size", "2"]
    command = [sys.executable, "-c", COMMAND, "train", *words, *options]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE
    ) as process:
        while not (out / "training" / "state.safetensors").exists() and process.poll() is None:
            assert process.stderr is not None
            process.stderr.read1(64)  # type: ignore[attr-defined]
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert train(split, tiny_folder, out, *options, "--resume") == 0
    for name in ("model.safetensors", "heads.safetensors"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_a_clip_learned_by_heart_is_reproduced_word_for_word(demo_manifest: Path, tmp_path: Path) -> None:
    bundled = ROOT / "assets" / "demo"
    record = next(
        one for one in json.loads((bundled / "test.json").read_text())["videos"] if "tower" in one["video_id"]
    )
    shutil.copy(bundled / record["video_path"], tmp_path)
    (tmp_path / "one.json").write_text(json.dumps({"videos": [record]}))
    options = ["--num-steps", "60", "--batch-size", "1", "--learning-rate", "5e-4"]
    out = tmp_path / "out"
    words = ["--checkpoint", str(ROOT / "assets" / "checkpoint"), "--device", "cpu", "--out", str(out)]
    assert main(["train", str(tmp_path / "one.json"), *words, *options, "--interval", "60"]) == 0
    sample = read_split(tmp_path / "one.json").samples[0]
    checkpoint = load_model(out, device="cpu")
    frames = SampleFeatures(checkpoint=checkpoint).embed(sample)
    outputs = list(Streamer(checkpoint, StreamConfig(fps=sample.fps)).run(frames, build_task(sample)))
    spoken = [(output.frame_index, output.response) for output in outputs if output.response]
    updated = [(output.frame_index, text) for output in outputs for text in output.updates]
    for role, found in (("assistant", spoken), ("update", updated)):
        assert found == [(int(turn.time_s * sample.fps), turn.text) for turn in sample.turns if turn.role == role]


def test_losses_and_scores_are_sent_to_trackio_if_it_is_installed(
    split: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "trackio", None)
    assert train(split, tiny_folder, tmp_path / "out", "--trackio", "steps") == 2
    assert "--trackio needs trackio, which is not installed" in capfd.readouterr().err
    begun, sent, ended = dict[str, Any](), list[tuple[int, dict[str, float]]](), list[bool]()
    fake = SimpleNamespace(
        init=lambda **options: begun.update(options),
        log=lambda values, step: sent.append((step, values)),
        finish=lambda: ended.append(True),
    )
    monkeypatch.setitem(sys.modules, "trackio", fake)
    assert train(split, tiny_folder, tmp_path / "out", "--trackio", "steps") == 0
    assert (begun["project"], begun["name"], begun["config"]["num_steps"], ended) == ("steps", "out", 4, [True])
    assert [step for step, _ in sent] == [1, 2, 3, 4]
    assert set(sent[0][1]) == {"loss/text", "loss/speak", "loss/update"}


@pytest.mark.slow
@pytest.mark.parametrize("decisions", ["heads", "state-token"])
def test_two_processes_train_as_one_that_accumulates(
    decisions: str, split: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    if decisions == "state-token":
        tiny_folder = write_hub(tmp_path / "base", "qwen2_5_vl")
    options = ["--autocast", "float32", "--interval", "2", "--decisions", decisions]
    if decisions == "heads":  # validation of a model that writes states until its limit takes a minute
        options += ["--val", str(split)]
    assert train(split, tiny_folder, tmp_path / "one", *options, "--micro-batch-size", "1") == 0
    # the command of docs/training.md for two GPUs, with two CPU workers standing in; 0 is a free port
    launch = ["-m", "accelerate.commands.launch", "--multi-gpu", "--num-processes", "2", "--main_process_port", "0"]
    script = tmp_path / "train_program.py"
    script.write_text(f"import os; assert os.environ['WORLD_SIZE'] == '2'; {COMMAND}")
    words = [str(split), "--checkpoint", str(tiny_folder), "--device", "cpu", "--out", str(tmp_path / "two")]
    sizes = ["--num-steps", "4", "--batch-size", "2"]
    done = subprocess.run(
        [sys.executable, *launch, str(script), "train", *words, *sizes, *options],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("checkpoint of step") == 1, "the main process prints"
    one, two = (load_file(tmp_path / name / "training" / "state.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    assert all(torch.allclose(one[name], two[name], atol=1e-5) for name in one)
    for name in ("losses.csv", "log.csv"):
        tables = [(tmp_path / folder / "training" / name).read_text().splitlines()[1:] for folder in ("one", "two")]
        for first, second in zip(*tables, strict=True):
            values = [[float(cell or "nan") for cell in line.split(",")] for line in (first, second)]
            assert values[1] == pytest.approx(values[0], rel=1e-3, nan_ok=True)
