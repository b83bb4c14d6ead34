"""The public names of the packages import from their package, and light modules stay light."""

import subprocess
import sys
import tomllib
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.paths import ROOT

PUBLIC = {
    "stepscope.engine": [
        "FrameOutput",
        "Recording",
        "Step",
        "StreamConfig",
        "Streamer",
        "Task",
        "UserTurn",
        "encode",
        "explain_decision",
        "load_model",
        "parse_steps",
        "read_frames",
    ],
    "stepscope.eval.data": ["read_samples"],
    "stepscope.eval.diagnosis": ["explain"],
    "stepscope.eval.recorder": ["Reasoning", "RunRecorder", "SignalSpec", "Turn", "VideoRecorder"],
    "stepscope.eval.metrics": ["LiveTurn", "corpus_metrics", "find_match", "live_metrics", "score_text"],
    "stepscope.eval.protocols": ["PROTOCOLS", "score_protocol"],
}
PUBLIC["stepscope"] = sorted(name for names in PUBLIC.values() for name in names)


@pytest.mark.parametrize(("package", "names"), PUBLIC.items())
def test_public_names_import_from_their_package(package: str, names: list[str]) -> None:
    module = import_module(package)
    assert sorted(module.__all__) == names
    for name in names:
        value = getattr(module, name)
        assert name in dir(module)
        if name.isupper():  # a constant
            continue
        assert value.__name__ == name
        assert value is getattr(import_module(value.__module__), name)


def test_light_modules_load_no_heavy_libraries() -> None:
    program = (
        "import sys; from stepscope import FrameOutput, PROTOCOLS, RunRecorder, Task, find_match, live_metrics; "
        "from stepscope.eval.metrics import corpus_metrics, score_text; from stepscope.engine import records; "
        "import stepscope.engine.control.controller, stepscope.eval.reports.scoring, stepscope.eval.cli.run_tables; "
        "print(*({'torch', 'transformers', 'gradio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "\n"


@pytest.mark.parametrize(
    ("package", "name", "positional", "keywords"),
    [
        ("stepscope.engine", "load_model", ["path_or_id"], {"device", "dtype"}),
        ("stepscope.engine", "read_frames", ["path"], {"fps", "size"}),
        (
            "stepscope.eval.metrics",
            "find_match",
            ["gen", "ref"],
            {"encode", "match_window", "dist_func_factor", "dist_func_power", "zero_cost"},
        ),
        ("stepscope.eval.metrics", "corpus_metrics", ["videos"], {"fps", "encode", "match_window"}),
        ("stepscope.eval.metrics", "score_text", ["references", "hypotheses"], set()),
    ],
)
def test_public_functions_keep_their_parameters(
    package: str, name: str, positional: list[str], keywords: set[str]
) -> None:
    parameters = signature(getattr(import_module(package), name)).parameters.values()
    assert [one.name for one in parameters if one.kind is Parameter.POSITIONAL_OR_KEYWORD][
        : len(positional)
    ] == positional
    assert keywords <= {one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY}


def test_a_program_beside_files_named_like_our_folders_records_a_run(tmp_path: Path) -> None:
    for name in ("eval.py", "app.py", "engine/__init__.py", "assets/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise ImportError('a file of the user')\n")
    (tmp_path / "record.py").write_text(
        "from stepscope import RunRecorder\n"
        "with RunRecorder('run', model='mine') as run, run.video('boat', fps=2) as video:\n"
        "    video.frame(0.0, response='Set down the hull.')\n"
    )
    done = subprocess.run([sys.executable, "record.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Set down the hull." in (tmp_path / "run" / "boat.jsonl").read_text()


NOT_PINNED = {"ray", "trackio"}  # a cluster has its own version; a tracker is installed beside


def read_versions(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return {package: version for package, _, version in (line.partition("==") for line in lines if line[0] != "#")}


def test_the_lowest_versions_are_the_lower_ends_of_the_ranges() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ranges = {wanted.name: wanted.specifier for wanted in map(Requirement, project["dependencies"])}
    for package, version in read_versions("lowest.txt").items():
        (lower,) = [bound.version for bound in ranges[package] if bound.operator == ">="]
        assert Version(version).release[:2] == Version(lower).release[:2], package


def test_every_dependency_is_pinned_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [name for names in project["optional-dependencies"].values() for name in names]
    pinned = read_versions("constraints.txt")
    wrong = [
        str(wanted)
        for wanted in map(Requirement, [*project["dependencies"], *extras])
        if wanted.name.lower() not in NOT_PINNED and not wanted.specifier.contains(pinned.get(wanted.name.lower(), "0"))
    ]
    assert wrong == []
    assert pinned["torch"] == "2.13.0"
