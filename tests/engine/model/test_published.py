"""Checkpoints of VideoLLM-online and ProAssist: their layout, frames and tokens, and refusals in one sentence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.errors import CheckpointError
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint_folder import find_policy_of, identify_model
from stepscope.engine.model.features.frame_encoder import encode_images
from stepscope.engine.model.preprocessing import resize_image
from stepscope.engine.model.published.layout import find_family
from stepscope.engine.model.published.prompts import ProAssistPrompt
from stepscope.engine.stream import Streamer
from tests.support.streams.fakes import random_frames
from tests.support.streams.published import (
    TOWER_WIDTH,
    rename_tensors,
    train_llama_tokenizer,
    write_online,
    write_proassist,
)


@pytest.mark.parametrize(
    ("write", "grid", "tokens", "policy"),
    [
        (write_online, 3, 10, "streaming-eos"),
        (write_online, 0, 1, "streaming-eos"),
        (write_proassist, 0, 1, "not-talk"),
        (write_proassist, 2, 5, "not-talk"),
    ],
)
def test_a_checkpoint_gives_its_tokens_per_frame_and_its_policy(
    tmp_path: Path, write: Any, grid: int, tokens: int, policy: str
) -> None:
    checkpoint = load_model(write(tmp_path, grid=grid), device="cpu")
    assert checkpoint.model.tokens_per_frame == tokens
    assert checkpoint.fit_config(StreamConfig()).decision_policy == policy == find_policy_of(tmp_path)
    assert identify_model(tmp_path) == checkpoint.identity
    with pytest.raises(ValueError, match=rf"no decision heads; set decision_policy to {policy}"):
        Streamer(checkpoint, StreamConfig())


@pytest.mark.parametrize("write", [write_online, write_proassist])
def test_the_end_tokens_of_the_base_model_end_a_turn(tmp_path: Path, write: Any) -> None:
    folder = write(tmp_path)
    before = load_model(folder, device="cpu")
    digest = before.digest
    path = folder / "base_model" / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": [before.prompt.eos_id, 7], "bad_words_ids": [[8]]}))
    after = load_model(folder, device="cpu")
    assert (before.prompt.other_ends, after.prompt.other_ends) == ((), (7,))
    assert 8 in after.prompt.suppress_tokens
    assert after.digest == identify_model(folder).digest != digest


def test_an_end_that_opens_a_reply_makes_it_empty(tmp_path: Path) -> None:
    checkpoint = load_model(write_proassist(tmp_path), device="cpu")
    config = checkpoint.fit_config(StreamConfig(max_new_tokens=5, speak_threshold=0))
    frames = list(random_frames(checkpoint, 3))
    outputs = list(Streamer(checkpoint, config).run(frames))
    assert any(output.response for output in outputs)
    checkpoint.prompt.other_ends = tuple(range(len(checkpoint.prompt.tokenizer)))
    assert not any(output.response for output in Streamer(checkpoint, config).run(frames))


@pytest.mark.parametrize("head", ["linear", "mlp"])
def test_a_decision_head_whose_label_1_is_silence_decides(tmp_path: Path, head: str) -> None:
    checkpoint = load_model(write_proassist(tmp_path, head=head), device="cpu")
    assert checkpoint.fit_config(StreamConfig()).decision_policy == "heads"
    assert find_policy_of(tmp_path) is None
    hidden = torch.randn(3, checkpoint.model.hidden_size)
    speak, update = checkpoint.model.decision_logits(hidden)
    silent = checkpoint.model.get_submodule("head")(hidden)[:, 0].sigmoid()
    assert torch.allclose(1 - speak.sigmoid(), silent)
    assert update.sigmoid().tolist() == [0, 0, 0]


def test_the_names_that_earlier_peft_gave_the_connector_are_read(tmp_path: Path) -> None:
    folder = write_online(tmp_path)
    before = load_model(folder, device="cpu").model.embed_frames(torch.ones(TOWER_WIDTH))
    rename_tensors(folder, [("connector.", "connector.modules_to_save.default.")])
    assert torch.equal(load_model(folder, device="cpu").model.embed_frames(torch.ones(TOWER_WIDTH)), before)


def test_adapters_are_merged_in_order_and_change_the_digest(tmp_path: Path) -> None:
    one = load_model(write_proassist(tmp_path / "one", adapters=1), device="cpu")
    two = load_model(write_proassist(tmp_path / "two", adapters=2), device="cpu")
    assert two.layout is not None
    assert [path.name for path in two.layout.adapters] == ["adapter_0", "two"]
    assert one.encoder_digest == two.encoder_digest
    assert one.digest != two.digest


def test_frames_are_pooled_from_the_tower_after_its_cls_token(tmp_path: Path) -> None:
    checkpoint = load_model(write_online(tmp_path), device="cpu")
    image = np.random.default_rng(0).integers(0, 255, (24, 24, 3), np.uint8)
    features = encode_images(checkpoint, [image])[0]
    pixels = torch.from_numpy(image).permute(2, 0, 1)[None].float() / 127.5 - 1
    with torch.inference_mode():
        output = checkpoint.model.get_submodule("tower")(pixel_values=pixels)
    patches = output.last_hidden_state[0].view(4, 4, -1)  # 4 x 4 patches: windows of 2 x 2 that overlap
    grid = [patches[row : row + 2, column : column + 2].mean((0, 1)) for row in range(3) for column in range(3)]
    assert torch.allclose(features, torch.stack([output.pooler_output[0], *grid]), atol=1e-5)


def test_a_wide_frame_is_padded_in_the_middle_or_cropped_in_the_middle() -> None:
    image = np.full((360, 640, 3), 200, np.uint8)
    image[:, :100] = image[:, -100:] = 0
    padded = resize_image(image, size=(384, 384), framing="pad")
    assert padded.shape == (384, 384, 3)
    assert padded[:84].max() == padded[300:].max() == 0
    assert padded[84:300, 100:284].min() == 200
    assert resize_image(image, size=(384, 384), framing="crop")[:, 5:-5].min() == 200  # 107 of 683 columns
    assert resize_image(image, size=(384, 384), framing="stretch")[:, :55].max() == 0


def edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))


def test_a_tower_that_does_not_fit_is_refused_in_a_sentence(tmp_path: Path) -> None:
    wrong_tower = write_online(tmp_path / "tower", tower_width=32)
    with pytest.raises(CheckpointError, match=r"vision features of width 16, but the tower .* gives 32; use the tower"):
        load_model(wrong_tower, device="cpu")


def test_adapters_that_cannot_be_used_are_refused_in_a_sentence(tmp_path: Path) -> None:
    folder = write_online(tmp_path)
    assert identify_model(folder, quantize="4bit").digest != identify_model(folder).digest, "other weights"
    rename_tensors(folder, [("layers.0.mlp.up_proj.lora_A", "layers.0.mlp.up_proj.lora_X")])
    with pytest.raises(CheckpointError, match=r"differs in .*up_proj\.lora_A"):
        load_model(folder, device="cpu")
    edit(folder / "adapter_config.json", peft_type="IA3")
    with pytest.raises(CheckpointError, match="peft_type IA3; only LORA"):
        load_model(folder, device="cpu")
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(CheckpointError, match=r"adapter_model\.bin is a pickle, which is never opened"):
        load_model(folder, device="cpu")


def test_the_header_that_proassist_writes_is_no_part_of_a_streamed_reply() -> None:
    prompt = ProAssistPrompt(train_llama_tokenizer())
    ids = prompt.words("Attach the wheel.")
    streamed = [prompt.text(ids[:count]) for count in range(len(ids) + 1)]
    assert streamed[-1] == "Attach the wheel."
    assert all(streamed[-1].startswith(text) for text in streamed)
    # a second header: the published loop keeps what follows the last one
    ids += prompt.words("Done.")
    streamed = [prompt.text(ids[:count]) for count in range(len(ids) + 1)]
    assert streamed[-1] == "Done."
    assert "assistant" not in "".join(streamed)


def test_an_adapter_as_peft_writes_it_names_the_file_that_its_folder_lacks(tmp_path: Path) -> None:
    settings = {"base_model_name_or_path": "Qwen/Qwen3-VL-8B-Instruct", "modules_to_save": None}
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings))
    with pytest.raises(CheckpointError, match=r"no config\.json; copy that of the adapter's base, Qwen/Qwen3-VL-8B"):
        find_family(tmp_path)
