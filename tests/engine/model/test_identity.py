"""Model identity: what outputs follow from changes the digest, what they do not follow from leaves it."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.checkpoint_folder import identify_model
from stepscope.engine.model.heads import save_heads
from tests.support.streams.fakes import tiny_model


def edit_json(path: Path, edit: Callable[[Any], object]) -> None:
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def edit_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    edit(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def changed_parts(folder: Path, before: Checkpoint) -> list[str]:
    after = load_model(folder, device="cpu")
    assert identify_model(folder) == after.identity
    changed = [name for name, digest in asdict(after.identity).items() if digest != asdict(before.identity)[name]]
    assert (after.digest != before.digest) == bool(changed)
    return changed


def test_each_part_of_a_checkpoint_changes_its_own_digest_and_that_of_the_whole(folder: Path) -> None:
    before = load_model(folder, device="cpu")
    assert changed_parts(folder, before) == []

    def edit_template() -> None:
        path = folder / "chat_template.jinja"
        path.write_text(path.read_text() + "{# another #}")

    rope = "rope_parameters"
    edits: dict[str, Callable[[], object]] = {
        "weights": lambda: edit_weights(folder, lambda w: w["model.text_model.norm.weight"].add_(1)),
        "heads": lambda: save_heads(folder / "heads.safetensors", tiny_model(pooling="first")),
        "config": lambda: edit_json(folder / "config.json", lambda c: c["text_config"][rope].update(rope_theta=500.0)),
        "tokenizer": lambda: edit_json(folder / "tokenizer.json", lambda t: t["added_tokens"][0].update(rstrip=True)),
        "chat_template": edit_template,
        "preprocessor": lambda: edit_json(
            folder / "preprocessor_config.json", lambda p: p.update(image_mean=[0.1, 0.5, 0.5])
        ),
    }
    _, encoder = before.digest, before.encoder_digest
    done = []
    for name, edit in edits.items():
        edit()
        done.append(name)
        assert changed_parts(folder, before) == done, name
    assert load_model(folder, device="cpu").encoder_digest == encoder, "none of this is the encoder's"


@pytest.mark.parametrize("name", ["processor_config.json", "additional_chat_templates/default.jinja"])
def test_a_template_of_the_processor_changes_the_digest_of_the_template(folder: Path, name: str) -> None:
    before = load_model(folder, device="cpu")
    before.identity  # noqa: B018 - read before the files change
    path, template = folder / name, (folder / "chat_template.jinja").read_text() + "{# another #}"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"chat_template": template}) if path.suffix == ".json" else template)
    assert changed_parts(folder, before) == ["chat_template"]


def test_what_changes_no_output_changes_no_digest(folder: Path) -> None:
    before = load_model(folder, device="cpu")
    before.identity  # noqa: B018 - read before the files change
    edit_json(folder / "config.json", lambda c: c.update(transformers_version="9.9", use_cache=False, dtype="bfloat16"))
    edit_json(folder / "preprocessor_config.json", lambda p: p.update(do_image_splitting=True))
    assert changed_parts(folder, before) == []


def test_the_encoders_digest_is_of_its_values_in_any_number_format(folder: Path) -> None:
    def rewrite(dtype: torch.dtype) -> str:
        edit_weights(folder, lambda weights: weights.update({n: t.to(dtype) for n, t in weights.items()}))
        return load_model(folder, device="cpu").encoder_digest

    short = rewrite(torch.bfloat16)
    assert rewrite(torch.float32) == short
    edit_weights(folder, lambda weights: weights["model.text_model.norm.weight"].add_(1))
    assert load_model(folder, device="cpu").encoder_digest == short
    edit_weights(folder, lambda weights: weights["model.connector.modality_projection.proj.weight"].add_(1))
    assert load_model(folder, device="cpu").encoder_digest != short
