"""Adapters are saved as adapters and merged when they load."""

import errno
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

from stepscope.engine.errors import CheckpointError
from stepscope.engine.loading import load_model
from stepscope.engine.model import saving
from stepscope.engine.training import adaptation
from stepscope.engine.training.adaptation import choose_method, prepare
from stepscope.engine.training.config import Method, TrainConfig
from stepscope.engine.training.objective import StreamObjective
from stepscope.engine.training.sequences import TrainingClip, TrainingTurn, build_sequence
from stepscope.engine.training.trainer import Trainer
from tests.support.streams.fakes import STEPS, tiny_checkpoint
from tests.support.streams.hub import write_hub

CLIP = TrainingClip(
    goal="g", steps=STEPS, num_frames=6, turns=(TrainingTurn(frame_index=2, role="update", text="S1->start"),)
)


def test_a_merged_adapter_equals_the_unmerged_one(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path / "base")
    prepared = prepare(checkpoint, "lora", rank=4)
    before = {
        name: one.detach().clone() for name, one in checkpoint.smolvlm.named_parameters() if not one.requires_grad
    }
    config = TrainConfig(num_steps=5, learning_rate=5e-2, autocast="float32")
    trainer = Trainer(StreamObjective(checkpoint.smolvlm, config))
    for _ in range(5):
        trainer.step(([build_sequence(CLIP, checkpoint.smolvlm_prompt)], torch.ones(6, 32)))
    assert all(torch.equal(one, dict(checkpoint.smolvlm.named_parameters())[name]) for name, one in before.items())
    prepared.save(tmp_path / "tuned")
    assert not (tmp_path / "tuned" / "model.safetensors").exists()
    merged = load_model(tmp_path / "tuned", device="cpu")
    inputs = torch.randn(1, 9, 32, generator=torch.Generator().manual_seed(0))
    checkpoint.smolvlm.eval()
    with torch.no_grad():
        unmerged, found = checkpoint.smolvlm(inputs), merged.model(inputs)
        base = load_model(tmp_path / "base", device="cpu").model(inputs)
    assert torch.allclose(found, unmerged, atol=1e-4)
    assert not torch.allclose(base, unmerged, atol=1e-2)
    assert merged.digest != checkpoint.digest
    assert merged.encoder_digest == checkpoint.encoder_digest


def test_a_model_of_the_hub_keeps_image_settings_that_transformers_5_saved(tmp_path: Path) -> None:
    folder = write_hub(tmp_path / "base", "qwen2_vl")
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": settings}))
    (folder / "preprocessor_config.json").unlink()
    base = load_model(folder, device="cpu")
    prepare(base, "lora", rank=2).save(tmp_path / "tuned")
    tuned = load_model(tmp_path / "tuned", device="cpu")
    assert tuned.normalization == base.normalization
    assert tuned.model.frame_size(20, 30) == base.model.frame_size(20, 30)


def test_an_adapter_without_its_base_is_refused(tmp_path: Path) -> None:
    prepared = prepare(tiny_checkpoint(tmp_path / "base"), "lora")
    prepared.save(tmp_path / "tuned")
    (tmp_path / "base").rename(tmp_path / "moved")
    with pytest.raises(CheckpointError, match=r"the base of the adapter .*tuned is missing"):
        load_model(tmp_path / "tuned", device="cpu")


def test_heads_alone_leave_the_text_model(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path)
    prepare(checkpoint, "heads")
    trained = {name.split(".")[0] for name, one in checkpoint.smolvlm.named_parameters() if one.requires_grad}
    assert trained == {"speaking_decision_head", "dst_update_head"}
    assert choose_method(checkpoint, "auto") == "full"


@pytest.mark.parametrize(("method", "module"), [("full", saving), ("lora", adaptation)])
def test_a_full_disk_between_two_files_keeps_the_earlier_checkpoint_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: Method, module: ModuleType
) -> None:
    checkpoint = tiny_checkpoint(tmp_path / "base")
    prepared = prepare(checkpoint, method)
    prepared.save(tmp_path / "tuned")
    names = sorted(path.name for path in (tmp_path / "tuned").iterdir())
    before = load_model(tmp_path / "tuned", device="cpu").digest
    with torch.no_grad():
        for parameter in checkpoint.smolvlm.parameters():
            parameter.add_(float(parameter.requires_grad))
    last = "save_inputs"  # of both methods, after weights or heads were written

    def fill_disk(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(module, last, fill_disk)
        with pytest.raises(OSError, match="No space left"):
            prepared.save(tmp_path / "tuned")
    assert load_model(tmp_path / "tuned", device="cpu").digest == before
    assert sorted(path.name for path in (tmp_path / "tuned").iterdir()) == names
    prepared.save(tmp_path / "tuned")
    assert load_model(tmp_path / "tuned", device="cpu").digest != before
