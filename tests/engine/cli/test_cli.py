"""Command lines: lazy commands, options from dataclasses, and settings from a file."""

import io
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tyro

from stepscope.app.cli.stepscope import STEPSCOPE, main
from stepscope.engine.cli.options import RunOptions
from stepscope.engine.cli.program import MARKERS, Group, load_object, parse
from stepscope.engine.config import StreamConfig
from stepscope.engine.config_files import PRESETS
from stepscope.eval.cli.options import CompareOptions

WORDS = ["video.mp4", "--out", "out.jsonl"]
LEAVES = [
    words
    for name, command in STEPSCOPE.commands.items()
    for words in ([[name, sub] for sub in command.commands] if isinstance(command, Group) else [[name]])
]


def read(*words: str) -> RunOptions:
    return parse(RunOptions, [*WORDS, *words], prog="stepscope run")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "settings.yaml"
    path.write_text(
        "speak_threshold: 0.3\nmax_seq_len: 150\nreserved_seq_len: 90\nmax_new_tokens: 8\ndo_sample: true\n"
    )
    return str(path)


@pytest.mark.parametrize("words", [[], ["--config", "FILE"], ["--config=FILE"]])
def test_settings_come_from_the_command_then_the_file_then_the_defaults(words: list[str], file: str) -> None:
    config = StreamConfig()
    if words:
        config = replace(
            config, speak_threshold=0.3, max_seq_len=150, reserved_seq_len=90, max_new_tokens=8, do_sample=True
        )
    given = [word.replace("FILE", file) for word in words]
    assert read(*given).stream == config
    changed = read("--seed", "3", *given, "--speak-threshold", "0,9", "--user", "1: a", "--user", "2: b")
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


def test_the_pixels_of_a_preset_are_an_option_of_the_model() -> None:
    assert read("--preset", "streamo").frame_pixels == 100_352
    assert read("--preset", "streamo", "--frame-pixels", "50176").frame_pixels == 50_176
    assert read("--preset", "zero-shot").frame_pixels is None


def test_the_presets_are_listed_with_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(PRESETS)
    assert "streamo     Streamo (Qwen2.5-VL): one frame and one state per second." in lines


def test_a_flag_that_the_file_switches_on_can_be_given_and_switched_off(file: str) -> None:
    assert read("--config", file, "--do-sample").stream.do_sample
    assert not read("--config", file, "--no-do-sample").stream.do_sample
    with pytest.raises(SystemExit, match="2"):
        read("--no-do-sample")


def test_a_list_option_that_is_given_twice_has_the_values_of_both() -> None:
    seen = set()
    for words in LEAVES:
        command: Any = STEPSCOPE
        for word in words:
            command = command.commands[word]
        options = load_object(command.options)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            actions = tyro.extras.get_parser(options, config=MARKERS)._actions
        needed = [part for action in actions if action.required for part in (*action.option_strings[:1], "x")]
        for action in actions:
            if action.nargs == "*" and action.option_strings:
                (option,) = action.option_strings
                parsed = parse(options, [*needed, option, "a", "b", f"{option}=c"], prog="stepscope")
                assert getattr(parsed, action.dest) == ("a", "b", "c")
                seen.add(option)
    assert seen == {"--metric", "--protocol", "--signal", "--tag", "--untag"}
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
        (["export", "fly"], "error: fly is not a command; choose from write, traces, split, import, see "),
        (["run", *WORDS, "--config", "none.yaml"], "error: none.yaml cannot be read as YAML: "),
        (["run", *WORDS, "--preset", "none"], "error: there is no preset none; choose from aura, joyai, livecc, "),
        (["presets", "none"], "error: there is no preset none; choose from aura, joyai, livecc, "),
        (["run", *WORDS, "--speak-threshold", "high"], "error: "),
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
        (["run"], "Missing from stepscope run:"),
        (["run", *WORDS, "--wings", "2"], "Unrecognized options: --wings, 2"),
        (["run", *WORDS, "--fps", "two"], "Error parsing --fps: could not convert string to float: 'two'"),
        (["run", *WORDS, "--graphs", "maybe"], "invalid choice 'maybe' for argument '--graphs'."),
        (["run", *WORDS, "--fps", "0"], "Error parsing stream: fps must be positive; got 0.0"),
        (["sweep", "val.json", "--speak"], "Missing value for argument '--speak'."),
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


def test_help_lists_every_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == list(STEPSCOPE.commands)


def test_help_of_no_command_imports_a_library_of_models_or_pages() -> None:
    program = f"""
import sys
from stepscope.app.cli.stepscope import main
for words in [[], *{LEAVES}]:
    assert not main([*words, "--help"]), words
    assert not {{"torch", "transformers", "gradio"}} & set(sys.modules), words
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: stepscope") == len(LEAVES) + 1


@pytest.mark.slow
@pytest.mark.parametrize("words", ["metrics", "--help"])
def test_output_into_a_closed_pipe_ends_without_a_traceback(words: str) -> None:
    program = "import sys; from stepscope.app.cli.entry import main; sys.argv[0] = 'stepscope'; sys.exit(main())"
    command = f'"$0" -c "$1" {words} | true; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", f"sleep 0; {command}", sys.executable, program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) in [(0, ""), (141, "")]
