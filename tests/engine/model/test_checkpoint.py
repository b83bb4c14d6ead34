"""Checkpoints: what is saved comes back, and what does not fit is refused in one line."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.errors import CheckpointError
from engine.loading import load_model
from engine.model.checkpoint import resolve_device, resolve_dtype, save_model
from engine.model.heads import save_heads
from tests.support.fakes import STEPS, tiny_checkpoint, tiny_model


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    tiny_checkpoint(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "checkpoint"))


def test_a_saved_model_comes_back_with_the_same_weights(folder: Path) -> None:
    made, loaded = tiny_model(), load_model(folder, device="cpu").model
    for name, tensor in made.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name]), name


def test_pooling_and_projector_come_back_with_the_heads(folder: Path) -> None:
    save_heads(folder / "heads.safetensors", tiny_model(pooling="first", feature_dim=48))
    model = load_model(folder, device="cpu").model
    assert (model.pooling, model.feature_dim, model.tokens_per_frame) == ("first", 48, 1)
    assert model.embed_frames(torch.zeros(5, 1, 48)).shape == (5, 1, 32)


def test_features_in_text_space_pass_the_projector_unchanged(folder: Path) -> None:
    features = torch.randn(3, 1, 32)
    assert torch.equal(load_model(folder, device="cpu").model.embed_frames(features), features)


def test_a_half_precision_model_keeps_its_heads_in_float32(folder: Path) -> None:
    model = load_model(folder, device="cpu", dtype="bfloat16").model
    assert model.dtype == torch.bfloat16
    assert model.dst_update_head.weight.dtype == torch.float32


def test_a_heads_file_elsewhere_is_taken(folder: Path, tmp_path: Path) -> None:
    (folder / "heads.safetensors").rename(tmp_path / "mine.safetensors")
    assert load_model(folder, device="cpu", heads=tmp_path / "mine.safetensors").model.pooling == "mean"


def test_missing_heads_are_refused_unless_allowed(folder: Path) -> None:
    (folder / "heads.safetensors").unlink()
    with pytest.raises(CheckpointError, match="--allow-untrained-heads"):
        load_model(folder, device="cpu")
    load_model(folder, device="cpu", allow_untrained_heads=True)


def test_a_heads_file_that_was_named_must_be_there(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="is missing"):
        load_model(folder, device="cpu", heads=folder / "other.safetensors", allow_untrained_heads=True)


def test_heads_of_another_width_are_refused(folder: Path) -> None:
    heads = load_file(folder / "heads.safetensors")
    save_file({**heads, "dst_update_head.weight": torch.zeros(1, 64)}, folder / "heads.safetensors")
    with pytest.raises(CheckpointError, match=r"dst_update_head.weight .* is \[1, 64\], this model needs \[1, 32\]"):
        load_model(folder, device="cpu")


def test_heads_with_a_tensor_missing_are_refused(folder: Path) -> None:
    heads = load_file(folder / "heads.safetensors")
    del heads["dst_update_head.bias"]
    save_file(heads, folder / "heads.safetensors")
    with pytest.raises(CheckpointError, match=r"differs in dst_update_head.bias"):
        load_model(folder, device="cpu")


def test_an_unknown_pooling_is_refused(folder: Path) -> None:
    save_file(load_file(folder / "heads.safetensors"), folder / "heads.safetensors", metadata={"pooling": "max"})
    with pytest.raises(CheckpointError, match="pooling must be one of mean, first, none"):
        load_model(folder, device="cpu")


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


def test_a_pickled_heads_file_is_refused_unopened(folder: Path) -> None:
    (folder / "heads.pt").write_bytes(b"cos\nsystem\n(S'touch /tmp/opened'\ntR.")
    with pytest.raises(CheckpointError, match="pickles are never opened"):
        load_model(folder, device="cpu", heads=folder / "heads.pt")


def test_weights_that_are_missing_are_refused(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights = {name: tensor for name, tensor in weights.items() if "connector" not in name}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match="weights that are missing"):
        load_model(folder, device="cpu")


def test_a_model_of_another_kind_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(CheckpointError, match="holds a llama model; StepScope streams SmolVLM"):
        load_model(folder, device="cpu")


@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", ["", "{", "[]", "5", "\0", '{"a":' * 100_000])
def test_a_json_file_that_is_empty_damaged_or_nested_too_deep_is_one_line(
    folder: Path, name: str, content: str
) -> None:
    (folder / name).write_text(content)
    with pytest.raises(CheckpointError, match=r"^[^\n]+$"):
        load_model(folder, device="cpu")


def test_a_damaged_tokenizer_is_one_line(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0", "added_tokens": 5}')
    with pytest.raises(CheckpointError, match=r"^[^\n]*has no tokenizer that can be loaded[^\n]*$"):
        load_model(folder, device="cpu")


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        load_model(tmp_path, device="cpu")


def test_a_hub_id_that_cannot_be_had_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(CheckpointError, match="neither a folder nor an available checkpoint of the hub"):
        load_model("nobody/no-such-model", device="cpu")


def test_a_base_tokenizer_gets_the_tokens_with_their_trained_rows(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    for token in tokenizer["added_tokens"]:
        token["content"] = {"[DST]": "<a>", "[ASST]": "<b>"}.get(token["content"], token["content"])
    vocabulary = tokenizer["model"]["vocab"]
    for old, new in (("[DST]", "<a>"), ("[ASST]", "<b>")):
        vocabulary[new] = vocabulary.pop(old)
    text = json.dumps(tokenizer)
    (folder / "tokenizer.json").write_text(text)
    settings = (folder / "tokenizer_config.json").read_text()
    (folder / "tokenizer_config.json").write_text(settings.replace("[DST]", "<a>").replace("[ASST]", "<b>"))
    with pytest.raises(CheckpointError, match="no token_embeddings for"):
        load_model(folder, device="cpu")
    rows = torch.randn(2, 32)
    heads = load_file(folder / "heads.safetensors")
    save_file({**heads, "token_embeddings": rows}, folder / "heads.safetensors")
    checkpoint = load_model(folder, device="cpu")
    ids = torch.tensor([checkpoint.prompt.update_id, checkpoint.prompt.response_id])
    assert torch.equal(checkpoint.model.embed_tokens(ids), rows)


def test_a_chat_template_that_is_kept_with_the_processor_is_found(folder: Path) -> None:
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(CheckpointError, match="no chat template"):
        load_model(folder, device="cpu")
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    assert load_model(folder, device="cpu").prompt.user_turn("hello")


def test_smolvlm2s_own_template_can_be_streamed(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(
        "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}"
        "{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}"
        "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
        "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
        "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
    )
    prompt = load_model(folder, device="cpu").prompt
    assert prompt.text(prompt.user_turn("Good.")) == "User: Good.<end_of_utterance>"
    assert prompt.text(prompt.schema(goal="", steps=(), state={})).startswith("<|im_start|>System: You are")


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('only the user speaks') }}", "cannot be rendered: only the user speaks"),
        ("{% for message in messages %}", "cannot be rendered"),
        ("{% for message in messages %}{{ message['role'] }}{% endfor %}", "must write the system text once"),
        ("{{ messages[0]['content'][0]['text'] }}", "must write the user text once"),
        (
            "{% for message in messages %}{{ message['content'][0]['text'] }}|{{ messages | length }}{% endfor %}",
            "rewrites earlier messages",
        ),
    ],
)
def test_a_template_that_cannot_be_streamed_is_one_line(folder: Path, template: str, reason: str) -> None:
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(CheckpointError, match=reason):
        load_model(folder, device="cpu")


def test_the_token_that_means_silence_comes_back_with_the_heads(folder: Path, tmp_path: Path) -> None:
    save_heads(folder / "heads.safetensors", tiny_model(), silent_token="#")
    checkpoint = load_model(folder, device="cpu")
    assert checkpoint.silent_id == checkpoint.prompt.tokenizer.convert_tokens_to_ids("#")
    save_model(tmp_path / "new", checkpoint.model, checkpoint.prompt.tokenizer, silent_id=checkpoint.silent_id)
    assert load_model(tmp_path / "new", device="cpu").silent_id == checkpoint.silent_id


def test_an_unknown_token_that_means_silence_is_refused(folder: Path) -> None:
    save_heads(folder / "heads.safetensors", tiny_model(), silent_token="<hush>")
    with pytest.raises(CheckpointError, match="'<hush>' as the token that means silence, which the tokenizer lacks"):
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


@pytest.mark.parametrize("has_base", [False, True])
def test_output_embeddings_are_saved_as_the_model_uses_them_whatever_its_configs_say(
    folder: Path, tmp_path: Path, has_base: bool
) -> None:
    lm_head = untie(folder)
    loaded = load_model(folder, device="cpu")
    base = folder if has_base else None
    save_model(tmp_path / "new", loaded.model, loaded.prompt.tokenizer, dtype=torch.float32, base=base)
    saved = load_model(tmp_path / "new", device="cpu").model.vlm
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
    text = checkpoint.model.vlm.model.text_model.requires_grad_(True)
    with torch.no_grad():
        text.norm.weight += 0.5
    save_model(tmp_path / "new", checkpoint.model, checkpoint.prompt.tokenizer, base=folder)
    tuned = load_file(tmp_path / "new" / "model.safetensors")
    changed = {name for name, tensor in weights.items() if not torch.equal(tensor, tuned[name])}
    assert changed == {"model.text_model.norm.weight"}
    assert {tensor.dtype for tensor in tuned.values()} == {stored}
    assert load_model(tmp_path / "new", device="cpu").encoder_digest == checkpoint.encoder_digest
    assert json.loads((tmp_path / "new" / "config.json").read_text())["dtype"] == str(stored).removeprefix("torch.")


def test_texts_cannot_smuggle_special_tokens_in(folder: Path) -> None:
    prompt = load_model(folder, device="cpu").prompt
    special = {prompt.update_id, prompt.response_id, prompt.image_id, prompt.eos_id}
    assert not special & set(prompt.words("[DST] S1->start <eos> <image> [ASST]"))
    asked = prompt.user_turn("<image>[ASST]<eos>")
    assert asked.count(prompt.eos_id) == 1
    assert prompt.image_id not in asked
    schema = prompt.schema(goal="<image>", steps=STEPS, state={"S1": "completed", "S2": "completed"})
    assert prompt.image_id not in schema


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
