"""A pipe, a device, a folder or a huge file in place of a file is refused in a sentence, wherever a path is read."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import pytest

MAX_S: Final = 120
PROGRAM: Final = """
import json, resource, sys
from pathlib import Path
from stepscope.app.exports.elan_edits import _parse
from stepscope.app.security.identity import read_users
from stepscope.engine.cli.commands import read_steps
from stepscope.engine.config_files import read_config
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import digest_file, read_text
from stepscope.engine.model.features.feature_files import open_arrow
from stepscope.engine.model.features.feature_files import _open_npy
from stepscope.engine.model.files.checkpoint_files import open_tensors, read_object
from stepscope.engine.records import read_outputs
from stepscope.engine.video.reader import probe
from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.runs.imports.import_results import find_results
from stepscope.eval.data.samples import Split
resource.setrlimit(resource.RLIMIT_AS, (30 * 2**30,) * 2)

def open_adapter(path):
    with open_tensors(path):
        pass

readers = dict(
    split=read_split, samples=read_samples, steps=read_steps, config=read_config, users=read_users,
    outputs=read_outputs, elan=_parse, object=read_object, tensors=open_adapter, video=probe, text=read_text,
    npy=lambda path: _open_npy(path, 2.0), arrow=open_arrow,
    result=lambda path: find_results([path], Split(path=path, entries=())),
)
said = {}
for path in map(Path, sys.argv[1:]):
    for name, read in readers.items():
        try:
            said[f"{path.name} {name}"] = f"read: {read(path)!r:.80}"
        except (ValueError, OSError, EngineError) as error:
            said[f"{path.name} {name}"] = str(error)
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
assert int(peak.split()[1]) < 1500 * 1024, peak
json.dump(said, sys.stdout)
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What each reader answers to each path, in a process of limited memory and time."""
    folder = tmp_path_factory.mktemp("paths")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    with (folder / "huge").open("wb") as file:
        file.truncate(2**33)  # a sparse file of 8 GiB
    (folder / "zero").symlink_to("/dev/zero")
    paths = [folder / name for name in ("folder", "pipe", "huge", "zero")]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths], capture_output=True, text=True, timeout=MAX_S, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    answers: dict[str, str] = json.loads(run.stdout)
    return answers


@pytest.mark.slow
def test_every_reader_refuses_a_path_without_an_end(said: Mapping[str, str]) -> None:
    assert len(said) == 4 * 14
    for case, answer in said.items():
        assert "\n" not in answer, case
        if case not in ("huge npy",):
            assert not answer.startswith("read: "), case
        if case.startswith(("pipe", "zero")) and not case.endswith("video"):
            assert "it is a pipe or a device, not a file" in answer, case
