"""Checkpoints: what is saved comes back, and what does not fit is refused in one line."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoImageProcessor

from stepscope.engine.errors import CheckpointError
from stepscope.engine.loading import load_model
from stepscope.engine.model.saving import save_model
from tests.support.streams.fakes import tiny_model


def test_a_saved_model_comes_back_with_the_same_weights(folder: Path) -> None:
    made, loaded = tiny_model(), load_model(folder, device="cpu").smolvlm
    for name, tensor in made.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name]), name


@pytest.mark.parametrize("name", ["model.safetensors", "heads.safetensors"])
def test_damaged_weights_are_refused(folder: Path, name: str) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"cannot be (loaded|read)"):
        load_model(folder, device="cpu")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pkl"])
def test_pickles_are_refused_unopened(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(b"cos\nsystem\n(S'touch /tmp/opened'\ntR.")
    with pytest.raises(CheckpointError, match="pickles, which are never opened"):
        load_model(folder, device="cpu")


def test_weights_that_are_missing_are_refused(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights = {name: tensor for name, tensor in weights.items() if "connector" not in name}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match="weights that are missing"):
        load_model(folder, device="cpu")


def test_a_json_file_that_is_empty_damaged_or_nested_too_deep_is_one_line(folder: Path) -> None:
    for content in ("{", "[]", '{"a":' * 100_000):
        (folder / "config.json").write_text(content)
        with pytest.raises(CheckpointError, match=r"^[^\n]+$"):
            load_model(folder, device="cpu")


def untie(folder: Path) -> torch.Tensor:
    """Give a checkpoint output embeddings of its own, which its text config denies; return them."""
    config = json.loads((folder / "config.json").read_text())
    config["tie_word_embeddings"], config["text_config"]["tie_word_embeddings"] = False, True
    (folder / "config.json").write_text(json.dumps(config))
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = torch.randn_like(weights["model.text_model.embed_tokens.weight"])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return weights["lm_head.weight"]


def test_output_embeddings_are_saved_as_the_model_uses_them_whatever_its_configs_say(
    folder: Path, tmp_path: Path
) -> None:
    lm_head = untie(folder)
    loaded = load_model(folder, device="cpu")
    save_model(tmp_path / "new", loaded.smolvlm, loaded.prompt.tokenizer, dtype=torch.float32, base=folder)
    saved = load_model(tmp_path / "new", device="cpu").smolvlm.vlm
    assert torch.equal(saved.lm_head.weight, lm_head)
    assert (saved.config.tie_word_embeddings, saved.config.text_config.tie_word_embeddings) == (False, False)


def test_an_untied_checkpoint_without_output_embeddings_is_refused(folder: Path) -> None:
    untie(folder)
    weights = load_file(folder / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"lacks lm_head.weight, .* set tie_word_embeddings to true"):
        load_model(folder, device="cpu")


def test_a_fine_tuned_checkpoint_keeps_frozen_tensors_byte_for_byte_and_the_number_format(
    folder: Path, tmp_path: Path
) -> None:
    weights = {name: tensor.bfloat16() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    checkpoint = load_model(folder, device="cpu", dtype="float32")
    text = checkpoint.smolvlm.vlm.model.text_model.requires_grad_(True)
    with torch.no_grad():
        text.norm.weight += 0.5
    save_model(tmp_path / "new", checkpoint.smolvlm, checkpoint.prompt.tokenizer, base=folder)
    tuned = load_file(tmp_path / "new" / "model.safetensors")
    changed = {name for name, tensor in weights.items() if not torch.equal(tensor, tuned[name])}
    assert changed == {"model.text_model.norm.weight"}
    assert {tensor.dtype for tensor in tuned.values()} == {torch.bfloat16}
    assert load_model(tmp_path / "new", device="cpu").encoder_digest == checkpoint.encoder_digest
    assert json.loads((tmp_path / "new" / "config.json").read_text())["dtype"] == "bfloat16"


def test_the_generation_settings_of_a_model_with_heads_count_where_the_file_exists(folder: Path) -> None:
    assert load_model(folder, device="cpu").prompt.other_ends == ()
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9], "bad_words_ids": [[8]]}))
    prompt = load_model(folder, device="cpu").prompt
    assert {7, 9} >= {*prompt.other_ends} >= {7, 9} - {prompt.eos_id}
    assert 8 in prompt.suppress_tokens


@pytest.mark.parametrize("name", ["preprocessor_config.json", "chat_template.jinja", "heads.safetensors"])
def test_small_files_are_checked_before_the_weights(folder: Path, name: str) -> None:
    (folder / "model.safetensors").write_bytes(b"no weights")
    (folder / name).write_text("{{ 1 / 0 }}")
    with pytest.raises(CheckpointError, match=f"{name}|chat template"):
        load_model(folder, device="cpu")


def test_the_image_processor_of_transformers_reads_a_saved_model(folder: Path) -> None:
    model = load_model(folder, device="cpu").model
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    assert processor(np.zeros((60, 120, 3), np.uint8))["pixel_values"][0][0].shape[-2:] == (model.image_size,) * 2
