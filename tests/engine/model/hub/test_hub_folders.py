"""Folders of image-text models of the hub: what is refused, and which signals count as trained."""

import json
from pathlib import Path

import pytest

from stepscope.engine.decisions.policies import POLICIES
from stepscope.engine.errors import CheckpointError
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint_folder import has_untrained_signals
from tests.support.streams.hub import write_hub


@pytest.mark.parametrize("template", ["{{ 1 / 0 }}", "{{ 'a' * 10**15 }}"])
def test_a_template_that_fails_with_any_error_is_refused_in_a_sentence(tmp_path: Path, template: str) -> None:
    folder = write_hub(tmp_path, "llava")
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(CheckpointError, match=r"the chat template cannot write [^\n]+; add that of the processor"):
        load_model(folder, device="cpu")


@pytest.mark.parametrize(
    ("template", "part"),
    [
        ("{{ 'User: ' }}", "the system message"),
        (
            "{% for m in messages %}{% for c in m['content'] %}{{ c.get('text', '') }}{% endfor %}{% endfor %}",
            "the '<image>' of an image",
        ),
    ],
)
def test_a_template_that_leaves_out_a_part_is_refused_with_its_name(tmp_path: Path, template: str, part: str) -> None:
    folder = write_hub(tmp_path, "llava")
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(CheckpointError, match=f"the chat template leaves out {part}; it cannot be streamed"):
        load_model(folder, device="cpu")


def test_another_size_of_the_processor_is_named(tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "smolvlm")
    path = folder / "preprocessor_config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "max_image_size": {"longest_edge": 112}}))
    with pytest.warns(UserWarning, match="takes images of 112 pixels, its vision tower of 56; frames have 56"):
        load_model(folder, device="cpu")


@pytest.mark.parametrize(("kind", "reason"), [("gemma3", "both directions"), ("new", "cannot be")])
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


def test_signals_are_trained_if_the_folder_names_their_policy(tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "qwen2_vl")
    assert has_untrained_signals(folder, POLICIES["answer"])
    for named, is_untrained in (("state-token", True), ("answer", False), ("answer-hysteresis", False)):
        (folder / "stepscope.json").write_text(json.dumps({"decision_policy": named}))
        assert has_untrained_signals(folder, POLICIES["answer"]) == is_untrained, named
    assert not has_untrained_signals(folder, POLICIES["state-token"])
