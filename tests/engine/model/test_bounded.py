"""A chat template is a program of a checkpoint: it is stopped if it does not end, or fills the memory."""

import copy
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from stepscope.engine.errors import CheckpointError
from stepscope.engine.model import bounded
from stepscope.engine.model.files.loading import load_vlm, read_tokenizer
from stepscope.engine.model.prompt import Prompt, encode_text
from tests.support.streams.fakes import tiny_checkpoint

LOOPS = "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(99999) %}{% endfor %}" + (
    "{% endfor %}{% endfor %}"
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (LOOPS, "it takes more than 0.5 s"),
        ("{{ 9 ** (9 ** 9) }}", "it takes more than 0.5 s"),
        ("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}", "maximum recursion depth"),
        ("{{ 'x' * (10 ** 11) }}", "MemoryError"),
        ("{{ 'x' * 20000000 }}", "its text is longer than 16 MiB"),
        ("{{ 1 / 0 }}", "division by zero"),
    ],
)
def test_a_template_without_an_end_is_stopped_and_named_in_one_sentence(
    template: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = tiny_checkpoint(tmp_path).smolvlm_prompt.tokenizer
    tokenizer.chat_template = template
    monkeypatch.setattr(bounded, "MAX_S", 0.5 if "takes" in problem else 60.0)
    children, fork = list[int](), os.fork

    def count_children() -> int:
        children.append(child := fork())
        return child

    monkeypatch.setattr(os, "fork", count_children)
    start_s = time.perf_counter()
    sentence = f"the chat template cannot write messages of texts and images: {problem}.*; add that of the processor"
    with pytest.raises(CheckpointError, match=sentence):
        Prompt(tokenizer)
    assert time.perf_counter() - start_s < 60
    assert children
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)  # no process is left


def test_a_text_comes_back_equal_with_halves_of_pairs() -> None:
    assert bounded.run_bounded(lambda: "ü \ud800\n" * 100_000) == "ü \ud800\n" * 100_000


def test_a_rule_of_a_tokenizer_that_backtracks_without_an_end_is_one_sentence(tmp_path: Path) -> None:
    tokenizer = tiny_checkpoint(tmp_path / "plain").smolvlm_prompt.tokenizer
    tokenizer.save_pretrained(tmp_path / "rules")
    path = tmp_path / "rules" / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    rule = {"Regex": "(a|a)*(a|a)*(a|a)*b$|(x+x+)+y"}
    content["pre_tokenizer"] = {"type": "Split", "pattern": rule, "behavior": "Isolated", "invert": False}
    path.write_text(json.dumps(content), encoding="utf-8")
    tokenizer = read_tokenizer(tmp_path / "rules")
    assert encode_text(tokenizer, "hello") == encode_text(copy.deepcopy(tokenizer), "hello")
    with pytest.raises(CheckpointError, match=r"the rules of tokenizer.json fail for a text: .*; correct them"):
        encode_text(tokenizer, "a" * 43 + "c " + "x" * 48)
    tokenizer.save_pretrained(tmp_path / "again")
    kinds = [json.loads((tmp_path / name / "tokenizer_config.json").read_text()) for name in ("rules", "again")]
    assert kinds[0]["tokenizer_class"] == kinds[1]["tokenizer_class"]


@pytest.mark.parametrize("part", ["text_config", "vision_config"])
@pytest.mark.parametrize("field", ["num_attention_heads", "hidden_size", "intermediate_size", "vocab_size"])
@pytest.mark.parametrize("value", [0, -1, 2**33])
def test_an_impossible_size_is_named_with_its_file(tmp_path: Path, part: str, field: str, value: int) -> None:
    config: dict[str, Any] = {"model_type": "smolvlm", "text_config": {}, "vision_config": {}}
    config[part] = {field: value}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(
        CheckpointError, match=rf"config.json: {field} must be from 1 to 2147483647, not {value}; download"
    ):
        load_vlm(tmp_path, torch.float32)
