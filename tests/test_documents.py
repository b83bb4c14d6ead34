"""The documents are true: commands parse, links and names resolve, and the examples of the README run."""

import ast
import importlib
import importlib.util
import io
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import stepscope.app.__main__
import stepscope.app.cli.stepscope
import stepscope.assets.__main__
import stepscope.engine.__main__
import stepscope.eval.__main__
from benchmarks.gpu.__main__ import make_parser
from stepscope.app.cli.reference import list_synopses, write_synopses
from stepscope.app.cli.stepscope import STEPSCOPE
from stepscope.engine.cli.program import Command, Group, load_object, parse
from tests.support.paths import ROOT

README = ROOT / "README.md"
DOCUMENTS = (README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "assets/checkpoint/README.md")
MOST_README_LINES = 120
PROGRAMS: dict[str, Command | Group] = {
    "stepscope.app": stepscope.app.__main__.DEMO,
    "stepscope.assets": Group("", stepscope.assets.__main__.COMMANDS),
    "stepscope.engine": Group("", stepscope.engine.__main__.COMMANDS),
    "stepscope.eval": Group("", stepscope.eval.__main__.COMMANDS),
    "stepscope": stepscope.app.cli.stepscope.STEPSCOPE,
}
FOREIGN_OPTIONS = {"--no-deps", "--multi-gpu", "--num-processes", "--should-respond"}
"""Options of pip, of accelerate and of Em-Garde."""
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_PACKAGES = "app|assets|benchmarks|docs|engine|eval|tests"
_PATH = re.compile(rf"(?:{_PACKAGES})/[\w./-]*")
_RUN = re.compile(r"(?:\.venv/bin/)?python -m ([\w.]+)")
_STEPSCOPE = re.compile(r"\bstepscope ([a-z]+)(?: ([a-z]+))?")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


@dataclass(frozen=True, kw_only=True)
class Line:
    """A command line of a document."""

    document: Path
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        """The module or the command that it runs."""
        return self.words[2] if self.words[:2] == (".venv/bin/python", "-m") else Path(self.words[0]).name

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words after the program."""
        return self.words[3:] if self.words[:2] == (".venv/bin/python", "-m") else self.words[1:]


def _name(value: object) -> str:
    if isinstance(value, Line):
        return f"{value.document.name}: {' '.join(value.words)}"
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


def _blocks(document: Path, language: str) -> list[str]:
    return [text for found, text in _FENCE.findall(document.read_text(encoding="utf-8")) if found == language]


def _commands(document: Path) -> Iterator[Line]:
    """Yield the command lines of the shell blocks; a backslash joins lines, ``#`` begins a comment."""
    for block in _blocks(document, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield Line(document=document, words=tuple(words))


def _prose(document: Path) -> str:
    return _FENCE.sub("", document.read_text(encoding="utf-8"))


def _code(document: Path) -> list[str]:
    return _CODE.findall(_prose(document))


def _anchors(document: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in _HEADING.findall(_prose(document))]
    slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    return {slug if (number := slugs[:i].count(slug)) == 0 else f"{slug}-{number}" for i, slug in enumerate(slugs)}


def _parse(program: Command | Group, arguments: Sequence[str], prog: str) -> None:
    """Parse arguments as a program would. Raises ``ValueError`` for wrong ones."""
    words = list(arguments)
    while isinstance(program, Group):
        program = program.commands[words.pop(0)]
    parse(load_object(program.options), words, prog=prog)


def _options(program: Command | Group) -> set[str]:
    """Return the long options in the help of a program and of its sub-commands."""
    if isinstance(program, Group):
        return set().union(*map(_options, program.commands.values()))
    text = io.StringIO()
    with pytest.raises(SystemExit), redirect_stdout(text):
        parse(load_object(program.options), ["--help"], prog="program")
    return set(_OPTION.findall(text.getvalue()))


@cache
def _find(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is a module, not a package
        return False


def _inline_commands(document: Path) -> Iterator[Line]:
    """Yield the command lines that stand in the text whole."""
    for text in _code(document):
        if text.startswith((".venv/bin/python -m ", ".venv/bin/stepscope ")):
            yield Line(document=document, words=tuple(shlex.split(text)))


COMMANDS = [command for document in DOCUMENTS for command in (*_commands(document), *_inline_commands(document))]
PROGRAM_RUNS = [command for command in COMMANDS if command.program in PROGRAMS]
EXAMPLES = [
    pytest.param(document, text, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, text in enumerate(_blocks(document, "python"), start=1)
]


def test_the_readme_fits_on_two_screens() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MOST_README_LINES


@pytest.mark.parametrize("command", PROGRAM_RUNS, ids=_name)
def test_a_command_parses(command: Line) -> None:
    _parse(PROGRAMS[command.program], command.arguments, command.program)


@pytest.mark.parametrize("command", COMMANDS, ids=_name)
def test_a_command_reads_files_that_exist(command: Line) -> None:
    assert [word for word in command.words if _PATH.fullmatch(word) and not (ROOT / word).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_links_and_anchors_resolve(document: Path) -> None:
    broken = []
    for link in _LINK.findall(_prose(document)):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_files_and_modules_in_the_text_exist(document: Path) -> None:
    code = _code(document)
    paths = [path for text in code for path in _PATH.findall(text) if _PATH.match(text) or " " in text]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [module for text in code for module in _RUN.findall(text) if not _find(module)] == []
    for name, subcommand in (words for text in code for words in _STEPSCOPE.findall(text)):
        command = stepscope.app.cli.stepscope.STEPSCOPE.commands[name]
        assert not isinstance(command, Group) or subcommand in ("", *command.commands)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert [name for text in code for name in re.findall(r"\.\[(\w+)\]", text) if name not in extras] == []


def test_the_synopses_are_those_of_the_commands() -> None:
    document = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert write_synopses(document) == document
    assert {name for name, _ in list_synopses(STEPSCOPE)} <= set(document.splitlines())


def test_options_in_the_text_exist() -> None:
    known = FOREIGN_OPTIONS.union(*map(_options, PROGRAMS.values()), _OPTION.findall(make_parser().format_help()))
    for document in DOCUMENTS:
        named = {option for text in _code(document) for option in _OPTION.findall(text)}
        assert named - known == set(), document.name


@pytest.mark.parametrize(("document", "text"), EXAMPLES)
def test_a_python_example_compiles_and_its_imports_exist(document: Path, text: str) -> None:
    tree = ast.parse(text, filename=str(document))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert imports
    for node in imports:
        module = importlib.import_module(node.module or "")
        assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


@pytest.mark.slow
def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    (text,) = _blocks(README, "python")
    program = tmp_path / "example.py"
    program.write_text(f"import sys\n\nsys.path.insert(0, {str(ROOT)!r})\n{text}", encoding="utf-8")
    done = subprocess.run([sys.executable, program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "S1->start" in done.stdout


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    started = []
    for command in _commands(README):
        name = command.arguments[0] if command.program == "stepscope" else ""
        if name not in ("run", "eval", "export", "publish"):
            continue
        words = [re.sub(r"^runs/", f"{tmp_path}/", word) for word in command.arguments]
        words += ["--reviews", f"sqlite:///{tmp_path}/reviews.sqlite"] if name == "export" else []
        assert stepscope.app.cli.stepscope.main(words) == 0, words
        started.append(name)
    assert started == ["run", "eval", "export", "publish"]
    assert (tmp_path / "toy-truck.jsonl").stat().st_size > 0
    assert (tmp_path / "demo" / "metrics.json").exists()
    assert [*(tmp_path / "demo-eaf").glob("*.eaf")]
    assert len([*(tmp_path / "demo-player" / "videos").glob("*.mp4")]) == 16
