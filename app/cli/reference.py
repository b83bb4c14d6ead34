"""Writes the synopses of docs/cli.md: ``python -m stepscope.app.cli.reference docs/cli.md``."""

import re
import textwrap
import warnings
from argparse import Action, ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import tyro

from stepscope.app.cli.stepscope import STEPSCOPE
from stepscope.engine.cli.program import MARKERS, Command, Group, load_object

_SETTINGS: Final = "stream."
"""Prefix of the settings of a stream, which the document lists once."""
_WIDTH: Final = 110


def write_synopses(document: str) -> str:
    """Return a document with the synopsis of each command in the code block that follows ``<!-- COMMAND -->``.

    Raises ``KeyError`` for a mark that names no command.
    """
    synopses = dict(list_synopses(STEPSCOPE))
    return re.sub(
        r"<!-- (stepscope [a-z ]+) -->\n```text\n.*?```",
        lambda found: f"<!-- {found[1]} -->\n```text\n{synopses[found[1]]}\n```",
        document,
        flags=re.DOTALL,
    )


def list_synopses(group: Group, prog: str = "stepscope") -> Iterator[tuple[str, str]]:
    """Yield each command of a group with its synopsis."""
    for name, entry in group.commands.items():
        if isinstance(entry, Group):
            yield from list_synopses(entry, f"{prog} {name}")
        else:
            yield f"{prog} {name}", _format(f"{prog} {name}", entry)


def _format(prog: str, command: Command) -> str:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # tyro names no other way yet
        actions = tyro.extras.get_parser(load_object(command.options), config=MARKERS)._actions
    own = [action for action in actions if not action.dest.startswith(_SETTINGS) and action.dest != "help"]
    words = [_word(action) for action in sorted(own, key=_order)]
    words += ["[SETTINGS]"] if len(own) < len(actions) - 1 else []
    breakable = " ".join(word.replace(" ", "\xa0") for word in words)
    lines = textwrap.wrap(breakable, _WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return "\n    ".join((prog, *lines)).replace("\xa0", " ")


def _order(action: Action) -> int:
    return 2 - action.required if action.option_strings else 0


def _word(action: Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else ""
    if not action.option_strings:
        return value
    *_, name = (name for name in action.option_strings if not name.startswith("--no-"))
    word = f"{name} {value}".strip()
    return word if action.required else f"[{word}]"


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("document", type=Path)
    path = parser.parse_args().document
    path.write_text(write_synopses(path.read_text(encoding="utf-8")), encoding="utf-8")
