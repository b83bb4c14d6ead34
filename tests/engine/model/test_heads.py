"""Heads files: what is saved comes back, and what does not fit is refused in one line."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from stepscope.engine.config import StreamConfig
from stepscope.engine.errors import CheckpointError, ContextError
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint_folder import find_policy_of
from stepscope.engine.model.heads import save_heads
from stepscope.engine.model.prompt import MAX_TEXT_CHARS
from stepscope.engine.model.saving import save_model
from tests.support.streams.fakes import STEPS, tiny_model


def test_pooling_and_projector_come_back_with_the_heads(folder: Path) -> None:
    save_heads(folder / "heads.safetensors", tiny_model(pooling="first", feature_dim=48))
    model = load_model(folder, device="cpu").smolvlm
    assert (model.pooling, model.feature_dim, model.tokens_per_frame) == ("first", 48, 1)
    assert model.embed_frames(torch.zeros(5, 1, 48)).shape == (5, 1, 32)


def test_features_in_text_space_pass_the_projector_unchanged(folder: Path) -> None:
    features = torch.randn(3, 1, 32)
    assert torch.equal(load_model(folder, device="cpu").smolvlm.embed_frames(features), features)


def test_a_half_precision_model_keeps_its_heads_in_float32(folder: Path) -> None:
    model = load_model(folder, device="cpu", dtype="bfloat16").smolvlm
    assert model.dtype == torch.bfloat16
    assert model.dst_update_head.weight.dtype == torch.float32


def test_missing_heads_are_refused_unless_allowed(folder: Path) -> None:
    (folder / "heads.safetensors").unlink()
    with pytest.raises(CheckpointError, match="--allow-untrained-heads"):
        load_model(folder, device="cpu")
    load_model(folder, device="cpu", allow_untrained_heads=True)
    with pytest.raises(CheckpointError, match="is missing"):
        load_model(folder, device="cpu", heads=folder / "named.safetensors", allow_untrained_heads=True)


@pytest.mark.parametrize(
    ("tensors", "metadata", "message"),
    [
        (
            {"dst_update_head.weight": torch.zeros(1, 64)},
            None,
            r"dst_update_head.weight .* is \[1, 64\], this model needs \[1, 32\]",
        ),
        ({"dst_update_head.bias": None}, None, r"differs in dst_update_head.bias"),
        ({}, {"pooling": "max"}, "pooling must be one of mean, first, none"),
    ],
)
def test_heads_that_do_not_fit_the_model_are_refused(
    folder: Path, tensors: dict[str, torch.Tensor | None], metadata: dict[str, str] | None, message: str
) -> None:
    heads = {**load_file(folder / "heads.safetensors"), **tensors}
    kept = {name: tensor for name, tensor in heads.items() if tensor is not None}
    save_file(kept, folder / "heads.safetensors", metadata=metadata)
    with pytest.raises(CheckpointError, match=message):
        load_model(folder, device="cpu")


def test_a_pickled_heads_file_is_refused_unopened(folder: Path) -> None:
    (folder / "heads.pt").write_bytes(b"cos\nsystem\n(S'touch /tmp/opened'\ntR.")
    with pytest.raises(CheckpointError, match="pickles are never opened"):
        load_model(folder, device="cpu", heads=folder / "heads.pt")


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
    ids = torch.tensor([checkpoint.smolvlm_prompt.update_id, checkpoint.smolvlm_prompt.response_id])
    assert torch.equal(checkpoint.smolvlm.embed_tokens(ids), rows)


def test_the_token_that_means_silence_comes_back_with_the_heads(folder: Path, tmp_path: Path) -> None:
    save_heads(folder / "heads.safetensors", tiny_model(), silent_token="#")
    checkpoint = load_model(folder, device="cpu")
    assert checkpoint.silent_id == checkpoint.prompt.tokenizer.convert_tokens_to_ids("#")
    save_model(tmp_path / "new", checkpoint.smolvlm, checkpoint.prompt.tokenizer, silent_id=checkpoint.silent_id)
    assert load_model(tmp_path / "new", device="cpu").silent_id == checkpoint.silent_id


def test_a_model_trained_for_a_token_policy_streams_with_it_by_default(folder: Path) -> None:
    assert load_model(folder, device="cpu").fit_config(StreamConfig()).decision_policy == "heads"
    assert find_policy_of(folder) is None
    save_heads(folder / "heads.safetensors", tiny_model(), silent_token="#", decision_policy="streaming-eos")
    checkpoint = load_model(folder, device="cpu")
    assert checkpoint.fit_config(StreamConfig()).decision_policy == "streaming-eos" == find_policy_of(folder)
    chosen = StreamConfig(decision_policy="silent-token")
    assert checkpoint.fit_config(chosen) == chosen


@pytest.mark.parametrize(
    ("silent_token", "policy", "message"),
    [
        ("#", "loud", "the heads file's metadata: decision_policy must be one of heads, .*; got 'loud'"),
        (None, "streaming-eos", "names the policy streaming-eos, but no silent_token, which that policy reads"),
        ("<hush>", None, "'<hush>' as the token that means silence, which the tokenizer lacks"),
    ],
)
def test_a_heads_file_with_a_policy_or_a_token_that_cannot_be_used_is_refused(
    folder: Path, silent_token: str | None, policy: str | None, message: str
) -> None:
    save_heads(folder / "heads.safetensors", tiny_model(), silent_token=silent_token, decision_policy=policy)
    with pytest.raises(CheckpointError, match=message):
        load_model(folder, device="cpu")


def test_a_chat_template_that_is_kept_with_the_processor_is_found(folder: Path) -> None:
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(CheckpointError, match="no chat template"):
        load_model(folder, device="cpu")
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    assert load_model(folder, device="cpu").smolvlm_prompt.user_turn("hello")


def test_smolvlm2s_own_template_can_be_streamed(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(
        "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}"
        "{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}"
        "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
        "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
        "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
    )
    prompt = load_model(folder, device="cpu").smolvlm_prompt
    assert prompt.text(prompt.user_turn("Good.")) == "User: Good.<end_of_utterance>"
    assert prompt.text(prompt.schema(goal="", steps=(), state={})).startswith("<|im_start|>System: You are")


@pytest.mark.parametrize(
    ("template", "reason"),
    [
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


def test_texts_cannot_smuggle_special_tokens_in(folder: Path) -> None:
    prompt = load_model(folder, device="cpu").smolvlm_prompt
    special = {prompt.update_id, prompt.response_id, prompt.image_id, prompt.eos_id}
    assert not special & set(prompt.words("[DST] S1->start <eos> <image> [ASST]"))
    asked = prompt.user_turn("<image>[ASST]<eos>")
    assert asked.count(prompt.eos_id) == 1
    assert prompt.image_id not in asked
    schema = prompt.schema(goal="<image>", steps=STEPS, state={"S1": "completed", "S2": "completed"})
    assert prompt.image_id not in schema


def test_a_text_that_no_context_can_hold_is_not_split_into_tokens(folder: Path) -> None:
    prompt = load_model(folder, device="cpu").smolvlm_prompt
    with pytest.raises(ContextError, match="at most 131072 characters; got 131073"):
        prompt.system("a" * (MAX_TEXT_CHARS + 1))
