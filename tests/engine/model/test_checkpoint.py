"""Checkpoints: what is saved comes back, and what does not fit is refused in one line."""

import json
from pathlib import Path

import pytest
import torch
from huggingface_hub.utils.tqdm import are_progress_bars_disabled
from safetensors.torch import load_file, save_file
from transformers.utils import logging as transformers_logging

from stepscope.engine.errors import CheckpointError
from stepscope.engine.loading import load_model
from stepscope.engine.model.devices import resolve_device, resolve_dtype
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


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pkl"])
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


@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json", "tokenizer_config.json"])
def test_a_json_file_that_is_empty_damaged_or_nested_too_deep_is_one_line(folder: Path, name: str) -> None:
    for content in ("", "{", "[]", "5", "\0", '{"a":' * 100_000):
        (folder / name).write_text(content)
        with pytest.raises(CheckpointError, match=r"^[^\n]+$"):
            load_model(folder, device="cpu")


@pytest.mark.parametrize(("part", "name"), [("text_config", "num_hidden_layers"), ("vision_config", "depth")])
def test_more_layers_than_any_model_has_are_not_made(folder: Path, part: str, name: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    config[part][name] = 5000  # of a small model; more take all memory where they are made
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=rf"config\.json: {name} must be at most 1000"):
        load_model(folder, device="cpu")


def test_a_damaged_tokenizer_is_one_line(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0", "added_tokens": 5}')
    with pytest.raises(CheckpointError, match=r"^[^\n]*has no tokenizer that can be loaded[^\n]*$"):
        load_model(folder, device="cpu")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody/no-such-model", "nobody/no-such-model is neither a folder nor in the cache, and the Hub cannot be"),
        *(
            (name, f"^there is no folder {name}, and a .* is named OWNER/NAME$")
            for name in ("/no/such", "./no", "~/no")
        ),
    ],
)
def test_a_checkpoint_that_cannot_be_had_is_one_line(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError, match=message):
        load_model(name, device="cpu")


def untie(folder: Path) -> torch.Tensor:
    """Give a checkpoint output embeddings of its own, which its text config denies; return them."""
    config = json.loads((folder / "config.json").read_text())
    config["tie_word_embeddings"], config["text_config"]["tie_word_embeddings"] = False, True
    (folder / "config.json").write_text(json.dumps(config))
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = torch.randn_like(weights["model.text_model.embed_tokens.weight"])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return weights["lm_head.weight"]


@pytest.mark.parametrize("has_base", [False, True])
def test_output_embeddings_are_saved_as_the_model_uses_them_whatever_its_configs_say(
    folder: Path, tmp_path: Path, has_base: bool
) -> None:
    lm_head = untie(folder)
    loaded = load_model(folder, device="cpu")
    base = folder if has_base else None
    save_model(tmp_path / "new", loaded.smolvlm, loaded.prompt.tokenizer, dtype=torch.float32, base=base)
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


@pytest.mark.parametrize("stored", [torch.float32, torch.float16, torch.bfloat16])
def test_a_fine_tuned_checkpoint_keeps_frozen_tensors_byte_for_byte_and_the_number_format(
    folder: Path, tmp_path: Path, stored: torch.dtype
) -> None:
    weights = {name: tensor.to(stored) for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    checkpoint = load_model(folder, device="cpu", dtype="float32")
    text = checkpoint.smolvlm.vlm.model.text_model.requires_grad_(True)
    with torch.no_grad():
        text.norm.weight += 0.5
    save_model(tmp_path / "new", checkpoint.smolvlm, checkpoint.prompt.tokenizer, base=folder)
    tuned = load_file(tmp_path / "new" / "model.safetensors")
    changed = {name for name, tensor in weights.items() if not torch.equal(tensor, tuned[name])}
    assert changed == {"model.text_model.norm.weight"}
    assert {tensor.dtype for tensor in tuned.values()} == {stored}
    assert load_model(tmp_path / "new", device="cpu").encoder_digest == checkpoint.encoder_digest
    assert json.loads((tmp_path / "new" / "config.json").read_text())["dtype"] == str(stored).removeprefix("torch.")


def test_auto_picks_what_is_there() -> None:
    expected = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert resolve_device("auto").type == expected
    assert resolve_dtype("auto", torch.device("cpu")) == torch.float32
    assert resolve_dtype("auto", torch.device("mps")) == torch.float16


@pytest.mark.parametrize("device", ["cuda:99", "tpu"])
def test_a_device_that_is_not_there_is_one_line(device: str) -> None:
    with pytest.raises(ValueError, match=f"device '{device}' is not available"):
        resolve_device(device)


def test_an_unknown_dtype_is_one_line() -> None:
    with pytest.raises(ValueError, match="dtype must be auto"):
        resolve_dtype("int3", torch.device("cpu"))


def test_a_download_from_the_hub_shows_its_progress(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown: list[bool] = []

    def download(*_: object, **__: object) -> str:
        shown.append(not are_progress_bars_disabled())
        return str(tmp_path)

    monkeypatch.setattr("stepscope.engine.model.files.hub.snapshot_download", download)
    transformers_logging.disable_progress_bar()  # as every program does, for the bar of the weights
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        load_model("somebody/some-model")
    assert shown == [True]
    assert are_progress_bars_disabled()
