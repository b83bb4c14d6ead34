"""Files that belong together are replaced together: after a kill or a full disk a folder has all old or all new ones."""

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stepscope.engine.io import files
from stepscope.engine.io.files import discard_staged, finish_files, replace_files

NAMES = ("model", "heads", "config")


def write_set(folder: Path, text: str) -> None:
    with replace_files(folder) as new:
        for name in NAMES:
            (new / name).write_text(text)


def read_set(folder: Path) -> set[str]:
    finish_files(folder)
    return {(folder / name).read_text() for name in NAMES}


def kill_at(number: int) -> Callable[[str, tuple[object, ...]], None]:
    """Return an audit hook that kills the process at the n-th file that is opened for writing or moved."""
    left = [number]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("os.rename", "os.rmdir") or (event == "open" and arguments[1] == "w"):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_kill_at_any_step_leaves_one_whole_set(tmp_path: Path, number: int) -> None:
    write_set(tmp_path, "old")
    child = os.fork()
    if child == 0:
        sys.addaudithook(kill_at(number))
        write_set(tmp_path, "new")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) == (number < 9)
    assert read_set(tmp_path) == ({"old"} if number <= 4 else {"new"})
    discard_staged(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(NAMES)
    write_set(tmp_path, "newer")
    assert read_set(tmp_path) == {"newer"}


def test_a_full_disk_leaves_the_earlier_set(tmp_path: Path) -> None:
    write_set(tmp_path, "old")
    with pytest.raises(OSError, match="No space left"), replace_files(tmp_path) as new:  # noqa: PT012 - the block fails
        (new / "model").write_text("new")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert read_set(tmp_path) == {"old"}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(NAMES)


def test_two_readers_finish_a_replacement_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path, "old")
    monkeypatch.setattr(files, "finish_files", lambda folder: None)
    write_set(tmp_path, "new")
    monkeypatch.undo()
    listed = list((tmp_path / ".whole").iterdir())
    monkeypatch.setattr(Path, "iterdir", lambda path: iter(listed))
    finish_files(tmp_path)
    (tmp_path / ".whole").mkdir()  # as the other program, which has listed it before, sees it
    finish_files(tmp_path)
    monkeypatch.undo()
    assert read_set(tmp_path) == {"new"}
