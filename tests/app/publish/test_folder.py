import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.app.publish.folder import MARKER, file_stem, replace_folder


def write(out: Path, text: str) -> None:
    with replace_folder(out) as folder:
        (folder / "index.html").write_text(text)


def test_a_published_folder_is_replaced_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "site"
    write(out, "old")
    (out / "index.html").write_text("changed by hand")
    with replace_folder(out) as folder:
        (folder / "new.html").write_text("new")
        assert (out / "index.html").exists(), "until the end"
    assert sorted(path.name for path in out.iterdir()) == ["new.html", MARKER]
    assert [path.name for path in out.parent.iterdir()] == ["site"], "nothing is left beside it"


def test_every_account_can_read_the_folder(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        write(tmp_path / "site", "page")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "site").stat().st_mode) == 0o755


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, ValueError])
def test_an_interrupted_publish_leaves_the_old_folder_whole(tmp_path: Path, error: type[BaseException]) -> None:
    out = tmp_path / "site"
    write(out, "old")
    with pytest.raises(error), replace_folder(out) as folder:  # noqa: PT012 - the block is what is interrupted
        (folder / "index.html").write_text("new")
        raise error
    assert (out / "index.html").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_the_old_folder_returns_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "site"
    write(out, "old")
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise OSError("no space")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="no space"):
        write(out, "new")
    assert (out / "index.html").read_text() == "old"


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    write(tmp_path / "site", "page")
    assert (tmp_path / "site" / "index.html").exists()


def test_a_folder_of_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "site"
    out.mkdir()
    (out / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match=r"site exists and was not written by stepscope publish; choose another --out"):
        write(out, "page")
    assert (out / "thesis.tex").read_text() == "mine"


def test_a_published_folder_with_an_own_file_is_refused_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "site"
    write(out, "old")
    (out / ".git").mkdir()
    with pytest.raises(ValueError, match=r"site holds '\.git', which stepscope publish did not write; move it away"):
        write(out, "new")
    assert (out / ".git").is_dir()


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "site").write_text("mine")
    with pytest.raises(ValueError, match="site is a file; choose another --out"):
        write(tmp_path / "site", "page")


@pytest.mark.parametrize(
    ("video_id", "name"),
    [("boat", "0003-boat"), ("../Böat #1", "0003-boat-1"), ("日本", "0003"), ("", "0003"), ("a/b\\c", "0003-a-b-c")],
)
def test_names_are_plain(video_id: str, name: str) -> None:
    assert file_stem(3, video_id) == name


@given(st.lists(st.text(), max_size=20))
def test_names_of_any_ids_are_short_safe_and_unique_ignoring_case(ids: list[str]) -> None:
    names = [file_stem(number, video_id) for number, video_id in enumerate(ids, start=1)]
    assert all(re.fullmatch(r"\d{4}(-[a-z0-9]+)*", name) and len(name) < 60 for name in names)
    assert len({name.lower() for name in names}) == len(names)
