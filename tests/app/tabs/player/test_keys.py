"""The key bindings of the player: one command for each key, and the documents name every key."""

import re

import pytest

from stepscope.app.web.component import STATIC
from tests.support.paths import ROOT

ROWS = re.findall(
    r'^  \[\s*"([^"]+)",\s+"(\w[\w ]*)",\s', (STATIC / "commands.js").read_text(encoding="utf-8"), re.MULTILINE
)


def test_each_key_has_one_command() -> None:
    keys = [key for row, _ in ROWS for key in row.split()]
    assert len(keys) >= 50
    assert len(keys) == len(set(keys)), f"bound twice: {sorted({key for key in keys if keys.count(key) > 1})}"


@pytest.mark.parametrize("command", ["speech", "markSpan", "ask", "inspect"])
def test_the_documents_name_the_key(command: str) -> None:
    (key,) = [keys for keys, commands in ROWS if commands == command]
    documents = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("player.md", "reviewing.md")]
    assert any(f"| `{key}` |" in text for text in documents)
