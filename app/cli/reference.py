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
from stepscope.engine.cli.options import ModelOptions
from stepscope.engine.cli.program import MARKERS, Group, Options, load_object
from stepscope.eval.cli.options import ScoreOptions, StreamOptions

_GROUPS: Final = {"MODEL": ModelOptions, "STREAMS": StreamOptions, "SCORES": ScoreOptions}
"""Options that several commands share. The document lists them once."""
_SETTINGS: Final = "stream."
"""Prefix of the settings of a stream, which the document lists once."""
_WIDTH: Final = 110


def write_synopses(document: str) -> str:
    """Return a document with each synopsis in the code block that begins with its command or group.

    Raises ``KeyError`` for a block that begins with neither.
    """
    synopses = {**dict(list_synopses(STEPSCOPE)), **{name: _format(name, group) for name, group in _GROUPS.items()}}
    return re.sub(
        r"```text\n(.+?)\n.*?```",
        lambda found: f"```text\n{synopses[found[1]]}\n```",
        document,
        flags=re.DOTALL,
    )


def list_synopses(group: Group, prog: str = "stepscope") -> Iterator[tuple[str, str]]:
    """Yield each command of a group with its synopsis."""
    for name, entry in group.commands.items():
        if isinstance(entry, Group):
            yield from list_synopses(entry, f"{prog} {name}")
        else:
            yield f"{prog} {name}", _format(f"{prog} {name}", load_object(entry.options))


def _format(title: str, options: type[Options]) -> str:
    actions = _list_actions(options)
    settings = [action for action in actions if action.dest.startswith(_SETTINGS)]
    groups = {f"[{name}]": group for name, group in _GROUPS.items() if issubclass(options, group) and options != group}
    shared = {action.dest for group in groups.values() for action in _list_actions(group) if action.option_strings}
    own = [action for action in actions if action.dest not in shared and action not in settings]
    if options in _GROUPS.values():
        own = [action for action in own if action.option_strings]  # the argument SPLIT stays with each command
    words = [*map(_word, sorted(own, key=_order)), *groups, *(["[SETTINGS]"] if settings else [])]
    breakable = " ".join(word.replace(" ", "\xa0") for word in words)
    lines = textwrap.wrap(breakable, _WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return "\n    ".join((title, *lines)).replace("\xa0", " ")


def _list_actions(options: type[Options]) -> list[Action]:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # tyro names no other way yet
        actions = tyro.extras.get_parser(options, config=MARKERS)._actions
    return [action for action in actions if action.dest != "help"]


def _order(action: Action) -> int:
    return 2 - action.required if action.option_strings else 0


def _word(action: Action) -> str:
    value = re.sub(r"^\[(\w+) .*", r"\1 ...", action.metavar) if isinstance(action.metavar, str) else ""
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
