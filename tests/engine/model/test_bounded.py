"""A chat template is a program of a checkpoint: it is stopped if it does not end, or fills the memory."""

import os
import time
from pathlib import Path

import pytest

from stepscope.engine.errors import CheckpointError
from stepscope.engine.model import bounded
from stepscope.engine.model.prompt import Prompt
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
    start_s = time.perf_counter()
    with pytest.raises(CheckpointError, match=f"the chat template cannot be rendered: {problem}.*; correct it"):
        Prompt(tokenizer)
    assert time.perf_counter() - start_s < 60
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # no process is left


def test_a_text_comes_back_equal_with_halves_of_pairs() -> None:
    assert bounded.run_bounded(lambda: "ü \ud800\n" * 100_000) == "ü \ud800\n" * 100_000
