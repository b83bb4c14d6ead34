"""``stepscope train``, on real files."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from stepscope.app.cli.stepscope import main
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.records import read_outputs
from stepscope.engine.stream import Streamer
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import build_task
from stepscope.eval.matching.turns import TextEncoder
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from stepscope.eval.training.validation import check_metrics
from tests.support.data.batches import copies, write_split
from tests.support.paths import ROOT
from tests.support.streams.fakes import count_letters
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
    val = tmp_path / "data" / "val.json"
    val.write_text(json.dumps({**content, "videos": content["videos"][:2]}))
    assert train(split, tiny_folder, tmp_path / "b", "--on-invalid", "skip", "--val", str(val)) == 0
    assert "warning: v1 of --val: " in capfd.readouterr().err


def test_a_training_clip_that_is_too_long_is_named_and_refused_or_skipped(
    tiny_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    width = load_model(tiny_folder, device="cpu").smolvlm.feature_dim
    np.save(tmp_path / "a.npy", np.ones((8, width), np.float16))
    clips = [
        {
            "features": "a.npy",
            "goal": goal,
            "steps": [],
            "turns": [{"frame_index": 2, "role": "assistant", "text": "Now."}],
        }
        for goal in ("build the boat", "boat " * 20_000)
    ]
    path = tmp_path / "clips.jsonl"
    path.write_text("".join(json.dumps(clip) + "\n" for clip in clips))
    assert train(path, tiny_folder, tmp_path / "out", "--pooling", "first") == 2
    assert "1 clip cannot be used: line 2: " in capfd.readouterr().err
    assert train(path, tiny_folder, tmp_path / "out", "--pooling", "first", "--on-invalid", "skip") == 0
    assert "1 of 2 clips" in capfd.readouterr().out
    assert train(path, tiny_folder, tmp_path / "b", "--fps", "0") == 2
    assert "--fps must be a number from 0.001 to 1000; got 0" in capfd.readouterr().err


def test_written_dialogues_are_trained_as_they_are(split: Path, tiny_folder: Path, tmp_path: Path) -> None:
    written = split.parent / "dialogues.json"
    assert main(["dialogues", str(split), "--out", str(written), "--questions", "1"]) == 0
    assert train(written, tiny_folder, tmp_path / "out", "--num-steps", "1", "--val", str(written)) == 0
    assert "references generated by templates, not by people" in (tmp_path / "out" / "README.md").read_text()
    with (tmp_path / "out" / "training" / "clips.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["video_id"], row["user_turns"], row["updates"]) for row in rows] == [
        ("v0", "2", "3"),
        ("v1", "2", "3"),
    ]
    assert all(int(row["responses"]) >= 3 for row in rows), "opening, praise with the next step, and an answer"


@pytest.mark.parametrize("name", ["METEOR", "CIDEr_split_df", "live_fluency", "frames_per_s", "speaking_brier", "x"])
def test_scores_that_do_not_tell_the_better_step_are_refused(name: str) -> None:
    check_metrics(("F1", "dst_f1"))
    with pytest.raises(ValueError, match=f"--metric must name scores of a split .* got {name}"):
        check_metrics(("F1", name))


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


def test_a_model_of_the_hub_is_trained_and_streams_by_what_it_learned(split: Path, tmp_path: Path) -> None:
    base, out = write_hub(tmp_path / "base", "qwen3_vl"), tmp_path / "out"
    options = ["--method", "lora", "--decisions", "state-token", "--num-steps", "24", "--learning-rate", "1e-2"]
    assert train(split, base, out, *options, "--autocast", "float32") == 0
    with (out / "training" / "losses.csv").open() as file:
        rows = [{name: float(value or "nan") for name, value in row.items()} for row in csv.DictReader(file)]
    for name in ("text", "speak"):
        assert rows[-1][name] < 0.9 * rows[0][name], name
    weights = [path.name for path in out.iterdir() if path.suffix in (".safetensors", ".bin", ".pt")]
    assert weights == ["adapter_model.safetensors"]
    assert json.loads((out / "config.json").read_text())["model_type"] == "qwen3_vl"
    trained, untrained = load_model(out, device="cpu"), load_model(base, device="cpu")
    assert trained.encoder_digest == untrained.encoder_digest
    assert trained.digest != untrained.digest
    config = trained.fit_config(StreamConfig(max_new_tokens=8))
    assert config.decision_policy == "state-token"
    sample = read_split(split).samples[0]
    outputs = list(Streamer(trained, config).run(SampleFeatures(checkpoint=trained).embed(sample), build_task(sample)))
    assert len(outputs) == sample.num_frames


COMMAND = "import sys; from stepscope.app.cli.entry import main; sys.exit(main())"


@pytest.mark.slow
def test_two_processes_train_as_one_that_accumulates(split: Path, tiny_folder: Path, tmp_path: Path) -> None:
    options = ["--autocast", "float32", "--interval", "2"]
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
