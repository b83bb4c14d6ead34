"""Folders of image-text models of the hub: what is refused, and which signals count as trained."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine.__main__ import main
from stepscope.engine.config import StreamConfig
from stepscope.engine.decisions.policies import POLICIES
from stepscope.engine.errors import CheckpointError
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint_folder import fit_policy, has_untrained_signals, identify_model
from tests.support.paths import ROOT
from tests.support.streams.hub import write_hub


def test_options_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    qwen, llava = (write_hub(tmp_path / kind, kind) for kind in ("qwen2_vl", "llava"))
    with pytest.raises(CheckpointError, match="--frame-pixels must be at least 784"):
        load_model(qwen, device="cpu", frame_pixels=100)
    for load in (load_model, identify_model):
        with pytest.raises(CheckpointError, match=r"frame_pixels of a preset, is for qwen2_vl.*without it"):
            load(llava, frame_pixels=10**5)
    with pytest.raises(CheckpointError, match="--quantize 8bit needs bitsandbytes"):
        load_model(llava, device="cpu", quantize="8bit")


def test_a_reply_ends_with_the_eos_of_the_tokenizer_if_the_template_writes_none(tmp_path: Path) -> None:
    prompt = load_model(write_hub(tmp_path, "llava"), device="cpu").prompt
    assert prompt.eos_id == prompt.tokenizer.eos_token_id
    assert prompt.tokenizer.decode(prompt.stream_opening) == " USER: "


@pytest.mark.parametrize("template", ["{{ 1 / 0 }}", "{{ messages['x'].y + 1 }}", "{{ 'a' * 10**15 }}"])
def test_a_template_that_fails_with_any_error_is_refused_in_a_sentence(tmp_path: Path, template: str) -> None:
    folders = write_hub(tmp_path / "hub", "llava"), tmp_path / "own"
    shutil.copytree(ROOT / "assets" / "checkpoint", folders[1])
    for folder in folders:
        (folder / "chat_template.jinja").write_text(template)
        with pytest.raises(CheckpointError, match=r"the chat template cannot be rendered: [^\n]+; correct it"):
            load_model(folder, device="cpu")


@pytest.mark.parametrize("image", ["Picture {{ loop.index }}: <image>", "<image>{{ '' if loop.last else '|' }}"])
def test_a_template_that_writes_images_in_different_ways_is_refused(tmp_path: Path, image: str) -> None:
    folder = write_hub(tmp_path, "llava")
    written = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").write_text(written.replace("{{ '<image>\n' }}", image))
    with pytest.raises(CheckpointError, match="the chat template writes an image in different ways; it cannot be"):
        load_model(folder, device="cpu")


def test_policies_of_heads_are_refused_with_those_that_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_hub(tmp_path / "model", "smolvlm")
    options = ["--out", str(tmp_path / "o.jsonl"), "--checkpoint", str(folder), "--decision-policy"]
    for name in ("heads", "heads-hysteresis"):
        assert main(["run", str(ROOT / "assets/demo/boat.mp4"), *options, name, "--device", "cpu"]) == 2
        wanted = f"policy {name} reads trained decision heads, which {folder} lacks; choose answer, state-token, "
        assert wanted in capsys.readouterr().err
    with pytest.raises(ValueError, match="choose silent-token, "):
        fit_policy(StreamConfig(decision_policy="heads-hysteresis"), "streaming-eos", name="m")


@pytest.mark.parametrize(
    ("kind", "side", "sizes"),
    [
        ("llava", 28, {"size": {"shortest_edge": 30}, "crop_size": {"height": 28, "width": 28}}),
        ("llava", 28, {"size": 28}),
        ("smolvlm", 56, {"size": {"longest_edge": 224}, "max_image_size": {"longest_edge": 56}}),
        ("internvl", 56, {"size": {"height": 56, "width": 56}}),
    ],
)
def test_another_size_of_the_processor_is_named(kind: str, side: int, sizes: dict[str, Any], tmp_path: Path) -> None:
    folder = write_hub(tmp_path, kind)
    path = folder / "preprocessor_config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, **sizes}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(folder, device="cpu")
    path.write_text(json.dumps({**values, **sizes}).replace(str(side), "112"))
    with pytest.warns(UserWarning, match=f"takes images of 112 pixels, its vision tower of {side}; frames have {side}"):
        load_model(folder, device="cpu")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("gemma3", "both directions"), ("qwen3_5", "recurrent state"), ("llava_next", "tiles"), ("new", "cannot be")],
)
def test_other_models_are_refused_with_the_reason(kind: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    with pytest.raises(CheckpointError, match=f"a {kind} model cannot be streamed.*{reason}|{reason}.*qwen2_vl"):
        load_model(tmp_path, device="cpu")


def test_a_decoder_with_windows_is_refused(tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "internvl")
    config = json.loads((folder / "config.json").read_text())
    layers = {"layer_types": ["sliding_attention"] * 3, "use_sliding_window": True, "sliding_window": 8}
    (folder / "config.json").write_text(json.dumps({**config, "text_config": {**config["text_config"], **layers}}))
    with pytest.raises(CheckpointError, match="layers of sliding_attention"):
        load_model(folder, device="cpu")


@pytest.mark.parametrize("is_adapter", [False, True])
def test_signals_are_trained_if_the_folder_names_their_policy(is_adapter: bool, tmp_path: Path) -> None:
    folder = write_hub(tmp_path / "model", "qwen2_vl")
    if is_adapter:
        base, folder = folder, tmp_path / "adapter"
        folder.mkdir()
        (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
        for name in ("config.json", "tokenizer.json"):
            (folder / name).write_bytes((base / name).read_bytes())
        (folder / "adapter_model.safetensors").write_bytes(b"")
    policies = [POLICIES[name] for name in ("answer", "answer-hysteresis")]
    for named, is_untrained in ((None, True), ("state-token", True), ("answer", False), ("answer-hysteresis", False)):
        if named is not None:
            (folder / "stepscope.json").write_text(json.dumps({"decision_policy": named}))
        assert {has_untrained_signals(folder, policy) for policy in policies} == {is_untrained}, named
    assert not has_untrained_signals(folder, POLICIES["state-token"])
    (folder / "stepscope.json").write_text('{"decision_policy": "new"}')
    with pytest.raises(CheckpointError, match=r"stepscope.json: .*new"):
        has_untrained_signals(folder, POLICIES["answer"])


def test_answers_of_a_model_with_heads_are_untrained_unless_its_heads_file_names_them(tiny_folder: Path) -> None:
    assert has_untrained_signals(tiny_folder, POLICIES["answer"])
    assert not has_untrained_signals(tiny_folder, POLICIES["heads"])
