"""A pipe or a device in place of a file is refused in a sentence, wherever a path is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.exports import elan_edits
from stepscope.app.server.identity import read_users
from stepscope.engine.cli.commands import read_steps
from stepscope.engine.config_files import read_config
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import read_text
from stepscope.engine.model.features import feature_files
from stepscope.engine.model.files.checkpoint_files import open_tensors, read_object
from stepscope.engine.records import read_outputs
from stepscope.engine.video.reader import probe
from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.data.samples import Split
from stepscope.eval.runs.imports.import_results import find_results

READERS: dict[str, Callable[[Path], Any]] = {
    "split": read_split,
    "samples": read_samples,
    "steps": read_steps,
    "config": read_config,
    "users": read_users,
    "outputs": read_outputs,
    "elan": elan_edits._parse,
    "object": read_object,
    "tensors": lambda path: open_tensors(path).__enter__(),
    "video": probe,
    "text": read_text,
    "npy": lambda path: feature_files._open_npy(path, 2.0),
    "arrow": feature_files.open_arrow,
    "result": lambda path: find_results([path], Split(path=path, entries=())),
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_a_device(name: str) -> None:
    """One without data: a reader that opened it would come to its end."""
    with pytest.raises(
        (ValueError, OSError, EngineError), match=r"not a file but a directory or device|a pipe or a device, not a file"
    ):
        READERS[name](Path("/dev/null"))
