"""Command lines: tables of commands whose options are dataclasses, and whose modules load when a command runs.

The docstring of an options class describes its command, those of the fields describe the options.

Exit codes: 0 success; 1 finished with problems, a line for each; 2 usage or environment error, with the reason in one
line, or in the box that tyro prints for wrong options; 130 or 143 interrupted by Ctrl-C or SIGTERM.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, get_origin, get_type_hints

import tyro
from tqdm import tqdm
from tyro.conf import DisallowNone, FlagCreatePairsOff, PositionalMetavarFromFieldName

from stepscope.engine.cli.interrupts import exit_code, handle_interrupts
from stepscope.engine.config_files import FRAME_PIXELS, read_config, read_preset
from stepscope.engine.errors import OUT_OF_MEMORY, EngineError, first_line, is_out_of_memory
from stepscope.engine.imports import collection_paused, import_uncollected
from stepscope.engine.io.files import show_turns

T = TypeVar("T")
MARKERS: Final = (DisallowNone, PositionalMetavarFromFieldName)
_COMMANDS: Final = re.compile(r"\x1b(?!\[[\d;]*[mAK])|[\x80-\x9f]")
"""Starts of commands to a terminal, such as of one that writes its clipboard, without those of colours and bars."""
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Characters that a text of a file may not bring into an output; they are the starts of all commands to a terminal."""
_MOVES: Final = re.compile(r"(\n|\x1b\[A)*")
"""The characters by which a progress bar moves to its line."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a command."""

    stop_message: ClassVar[str] = "stopped; nothing was written"
    """The line that Ctrl-C and SIGTERM print; ``{0}`` is replaced by the options."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its line in the list of commands, and ``module:name`` of its options and function in ``stepscope``."""

    summary: str
    options: str
    function: str
    """Takes the options; returns the exit code, or None for success."""


@dataclass(frozen=True, slots=True)
class Group:
    """Commands of one program."""

    summary: str
    commands: "Mapping[str, Command | Group]"


def run_program(program: Command | Group, arguments: Sequence[str] | None = None, *, prog: str) -> int:
    """Run the command that the arguments name, by default those of the process; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")  # a terminal of another encoding than UTF-8
        if stream.isatty():  # files and pipes keep the text itself
            setattr(stream, "write", _show_turns_by(stream.write))  # noqa: B010 - mypy refuses the assignment
    try:
        while isinstance(program, Group):
            if not words or words[0] not in program.commands:
                return _list_commands(program, words, prog=prog)
            prog = f"{prog} {words[0]}"
            program = program.commands[words.pop(0)]
        code = _run_command(program, words, prog=prog)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # as in `stepscope metrics | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 141  # 128 + SIGPIPE


def parse(options: type[T], arguments: Sequence[str], *, prog: str) -> T:
    """Return the options that the arguments give.

    Stream settings in a field ``stream`` come from ``--config`` and ``--preset`` unless an argument gives them.

    Raises:
        ValueError: The file of ``--config`` is wrong, or the model lacks the heads of a policy.
        SystemExit: The help was printed, or, with code 2, the reason why other arguments are wrong.
    """
    words = _join_lists(options, arguments)
    default = _read_defaults(options, words)
    # A file can switch a flag on: only then is there a --no-FLAG.
    markers = (*MARKERS, FlagCreatePairsOff) if default is tyro.MISSING_NONPROP else MARKERS
    with collection_paused():
        # tyro parses the source of the options for their help. In Python before 3.11.8 a collection in the middle of
        # ``ast.parse`` can make it fail. **Source**: CPython issue 106905.
        parsed: T = tyro.cli(options, prog=prog, args=words, default=default, config=markers)
    model: Any = parsed
    if "heads" in _find_values(words, "--decision-policy") and not getattr(model, "allow_untrained_heads", True):
        load_object("engine.model.checkpoint_folder:check_heads")(model.checkpoint, heads=model.heads)
    return parsed


def _show_turns_by(write: Callable[[str], int]) -> Callable[[str], int]:
    return lambda text: write(_escape(_COMMANDS, show_turns(text)))


def _escape(characters: re.Pattern[str], text: str) -> str:
    return characters.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


@contextmanager
def _escaped_controls() -> Iterator[None]:
    """Escape control characters in what a command writes: it prints texts of files, and no colours.

    A terminal shows coloured warnings, so that ``_show_turns_by`` alone escapes there.
    """
    writers = [(stream, stream.write) for stream in (sys.stdout, sys.stderr)]

    def escape_by(write_plain: Callable[[str], int]) -> Callable[[str], int]:
        return lambda text: write_plain(text if _MOVES.fullmatch(text) else _escape(_CONTROLS, text))

    for stream, write_plain in writers[: 1 if sys.stderr.isatty() else 2]:
        setattr(stream, "write", escape_by(write_plain))  # noqa: B010 - mypy refuses the assignment
    try:
        yield
    finally:
        for stream, write_plain in writers:
            setattr(stream, "write", write_plain)  # noqa: B010


def _run_command(command: Command, words: Sequence[str], *, prog: str) -> int:
    options = Options()
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    try:
        try:
            options = parse(load_object(command.options), _fetch_files(words), prog=prog)
        except SystemExit as stop:
            return int(stop.code or 0)
        function = load_object(command.function)
        with handle_interrupts(), _escaped_controls():
            return function(options) or 0
    except BrokenPipeError:
        raise
    except (EngineError, ValueError, OSError) as error:
        tqdm.write(f"error: {str(error).strip().partition(chr(10))[0]}", file=sys.stderr)  # below a progress bar
        return error.exit_code if isinstance(error, EngineError) else 2
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        tqdm.write(f"error: {OUT_OF_MEMORY}: {first_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        tqdm.write(options.stop_message.format(options), file=sys.stderr)
        return exit_code(interrupt)


def _fetch_files(words: Sequence[str]) -> list[str]:
    """Return the arguments with the local path of each file of the Hub, which is downloaded now."""

    def fetch(word: str) -> str:
        option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        if not value.startswith("hf://"):
            return word
        return f"{option}{equals}{load_object('engine.io.hub_files:fetch')(value)}"

    return list(map(fetch, words))


def _list_commands(group: Group, words: Sequence[str], *, prog: str) -> int:
    """Print the commands of a group, or that the first word is not one of them."""
    if words and words[0] in ("-h", "--help"):
        lines = [f"  {name:<10} {command.summary}" for name, command in group.commands.items()]
        tqdm.write("\n".join([f"usage: {prog} COMMAND ...", "", group.summary, "", *lines]))
        return 0
    problem = f"{words[0]} is not a command" if words else "a command is missing"
    tqdm.write(f"error: {problem}; choose from {', '.join(group.commands)}, see {prog} --help", file=sys.stderr)
    return 2


def load_object(reference: str) -> Any:
    """Import and return the object of ``stepscope`` that ``module:name`` names."""
    module, _, name = reference.partition(":")
    return getattr(import_uncollected(f"stepscope.{module}"), name)


def _join_lists(options: Any, words: Sequence[str]) -> list[str]:
    """Return the words with each list option once, with all its values: ``--tag a --tag b`` as ``--tag a b``.

    Of an option that is given twice, tyro keeps the last values alone.
    """
    hints = get_type_hints(options, include_extras=True)
    lists = {f"--{name.replace('_', '-')}" for name, hint in hints.items() if get_origin(hint) is tuple}
    end = words.index("--") if "--" in words else len(words)  # all words after it are positional
    others: list[str] = []
    given: dict[str, list[str]] = {}
    values = others
    for word in words[:end]:
        option, equals, value = word.partition("=")
        option = option.replace("_", "-")
        if option in lists:
            values = given.setdefault(option, [])
            values += [value] if equals else []
        else:
            values = others if word.startswith("--") else values
            values.append(word)
    joined = [word for option, values in given.items() for word in (option, *values)]
    return [*others, *joined, *words[end:]]


def _read_defaults(options: Any, words: Sequence[str]) -> Any:
    """Return the options with the settings of ``--config`` and ``--preset``, where required ones are missing.

    Without such settings, return none.
    """
    of_options = {field.name: field for field in fields(options)}
    paths, presets = (_find_values(words, option) for option in ("--config", "--preset"))
    preset = presets[-1] if presets else ""
    settings = read_preset(preset)
    given = {FRAME_PIXELS: settings[FRAME_PIXELS]} if {FRAME_PIXELS} <= settings.keys() & of_options else {}
    if "stream" in of_options and (paths or preset):
        given["stream"] = read_config(Path(paths[-1]) if paths else None, preset=preset)
    if not given:
        return tyro.MISSING_NONPROP
    required = {
        name: tyro.MISSING
        for name, field in of_options.items()
        if field.default is MISSING and field.default_factory is MISSING
    }
    return options(**{**required, **given})


def _find_values(words: Sequence[str], option: str) -> list[str]:
    found = [value for name, value in pairwise(words) if name == option]
    return found + [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]
