"""Command lines: lazy commands, options from dataclasses, and settings from a file."""

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.cli.options import RunOptions
from stepscope.engine.cli.program import parse
from stepscope.engine.config import StreamConfig
from stepscope.engine.config_files import PRESETS
from stepscope.eval.cli.options import CompareOptions

WORDS = ["video.mp4", "--out", "out.jsonl"]


def read(*words: str) -> RunOptions:
    return parse(RunOptions, [*WORDS, *words], prog="stepscope run")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "settings.yaml"
    path.write_text(
        "speak_threshold: 0.3\nmax_seq_len: 150\nreserved_seq_len: 90\nmax_new_tokens: 8\ndo_sample: true\n"
    )
    return str(path)


@pytest.mark.parametrize("words", [[], ["--config=FILE"]])
def test_settings_come_from_the_command_then_the_file_then_the_defaults(words: list[str], file: str) -> None:
    config = StreamConfig()
    if words:
        config = replace(
            config, speak_threshold=0.3, max_seq_len=150, reserved_seq_len=90, max_new_tokens=8, do_sample=True
        )
    given = [word.replace("FILE", file) for word in words]
    assert read(*given).stream == config
    changed = read("--seed", "3", *given, "--speak-threshold", "0.9", "--user", "1: a", "--user", "2: b")
    assert changed.stream == replace(config, seed=3, speak_threshold=0.9)
    assert changed.user == ("1: a", "2: b")


@pytest.mark.parametrize(
    ("is_terminal", "shown"), [(True, "abc\\u202epm4\\x1b]52;\x1b[1m"), (False, "abc\u202epm4\x1b]52;\x1b[1m")]
)
def test_a_terminal_shows_marks_that_turn_text_and_commands_and_a_pipe_keeps_them(
    is_terminal: bool, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stderr", terminal)
    assert main(["presets", "abc\u202epm4\x1b]52;\x1b[1m"]) == 2
    assert shown in terminal.getvalue()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_characters_that_a_terminal_does_not_have_are_replaced(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.yaml").write_text("# \u65e5\u672c \u25cf\n", encoding="utf-8")
    monkeypatch.setitem(PRESETS, "aura", tmp_path / "own.yaml")  # the same mapping as that of the command
    printed, errors = io.BytesIO(), io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, encoding=encoding))
    monkeypatch.setattr("sys.stderr", io.TextIOWrapper(errors, encoding=encoding))
    assert main(["presets", "aura"]) == 0
    assert main(["presets", "\u65e5\u672c"]) == 2
    sys.stderr.flush()
    assert printed.getvalue() == b"# ?? ?\n"
    assert b"??" in errors.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_command_writes_no_control_character_of_a_text_of_a_file(
    is_terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\x1b]0;OWNED\x07\x1b[31mRED\x1b[2J\x1b[A\x9b5m\x08"
    (tmp_path / "mine.toml").write_text(f"# {text}\nsecond\n", encoding="utf-8")
    monkeypatch.setitem(PRESETS, "mine", tmp_path / "mine.toml")
    output = io.StringIO()
    monkeypatch.setattr(output, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stdout", output)
    assert main(["presets", "mine"]) == 0
    assert main(["presets"]) == 0
    assert output.getvalue().count(r"\x1b]0;OWNED\x07\x1b[31mRED\x1b[2J\x1b[A\x9b5m\x08") == 2
    assert not set(output.getvalue()) & {"\x1b", "\x07", "\x9b", "\x08"}


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_is_settings_that_a_file_of_ones_own_and_options_change(
    name: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["presets", name]) == 0
    (own := tmp_path / "own.yaml").write_text(capsys.readouterr().out)
    shipped = read("--preset", name).stream
    assert read("--preset", str(own)).stream == shipped
    assert shipped.decision_policy != "heads"
    assert read("--preset", name, "--config", file).stream == replace(
        shipped, speak_threshold=0.3, max_seq_len=150, reserved_seq_len=90, max_new_tokens=8, do_sample=True
    )
    assert read("--preset", name, "--speak-threshold", "0.9").stream == replace(shipped, speak_threshold=0.9)


def test_a_list_option_that_is_given_twice_has_the_values_of_both() -> None:
    compared = parse(
        CompareOptions, ["--protocol", "x", "--json", "--protocol", "y", "--", "a", "--protocol"], prog="stepscope"
    )
    assert (compared.protocol, compared.json) == (("x", "y"), True)
    assert (str(compared.run_a), str(compared.run_b)) == ("a", "--protocol")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "error: a command is missing; choose from demo, run, "),
        (["fly"], "error: fly is not a command; choose from demo, run, "),
        (["run", *WORDS, "--preset", "none"], "error: there is no preset none; choose from aura, joyai, livecc, "),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    words: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    printed = capfd.readouterr()
    assert printed.err.startswith(message)
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", *WORDS, "--wings", "2"], "Unrecognized options: --wings, 2"),
        (["run", *WORDS, "--fps", "0"], "Error parsing stream: fps must be positive; got 0.0"),
    ],
)
def test_a_wrong_option_is_named_in_a_box_and_the_exit_code_is_2(
    words: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    printed = capfd.readouterr()
    assert message in printed.err
    assert f"stepscope {words[0]} --help" in printed.err
    assert printed.out == ""


def test_help_imports_no_library_of_models_or_pages() -> None:
    program = """
import sys
from stepscope.app.cli.stepscope import main
for words in [[], ["demo"], ["eval"]]:
    assert not main([*words, "--help"]), words
    assert not {"torch", "transformers", "gradio"} & set(sys.modules), words
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: stepscope") == 3
