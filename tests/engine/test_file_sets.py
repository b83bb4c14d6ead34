"""Files that belong together are replaced together: a kill or a full disk leaves all old or all new ones."""

import errno
import os
import sys
from pathlib import Path

import pytest

from stepscope.engine.io import files
from stepscope.engine.io.files import discard_staged, finish_files, replace_files
from tests.support.data.kills import kill_at

NAMES = ("model", "heads", "config")


def write_set(folder: Path, text: str) -> None:
    with replace_files(folder) as new:
        for name in NAMES:
            (new / name).write_text(text)


def read_set(folder: Path) -> set[str]:
    finish_files(folder)
    return {(folder / name).read_text() for name in NAMES}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_kill_at_any_step_leaves_one_whole_set(tmp_path: Path, number: int) -> None:
    write_set(tmp_path, "old")
    child = os.fork()
    if child == 0:
        sys.addaudithook(kill_at(number, "open", "os.rename", "os.rmdir"))
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
