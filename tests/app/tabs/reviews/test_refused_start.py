"""Users and stores that end the start of the page with one line."""

from pathlib import Path

import pytest

from stepscope.app.__main__ import main as serve
from stepscope.app.security.identity import read_users
from tests.support.pages.browser import free_port


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_users_are_lines_of_name_and_password(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "users"
    path.write_text("ann:a:b c \r\n\n\ufeffZoé: x\u200b\n\u2060\n", encoding=encoding)
    assert read_users(path) == [("ann", "a:b c "), ("Zoé", " x")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"ann:secret\nsecret\n", "line 2 is not of the form name:password"),
        (b":secret\n", "line 1 is not"),
        (b"ann:\n", "line 1 is not"),
        (b"ann :secret\n", "line 1 is not"),
        (b"ann:secret\nann:secret2\n", "line 2 repeats a name"),
        ("ann:\u200bsecret\n".encode(), "line 1 has the invisible character U+200B"),
        ("ann:secret\nbob\ufeff:secret".encode(), "line 2 has the invisible character U+FEFF"),
        (b"\n", "has no users"),
        (b"ann:secret\xff\n", "not UTF-8 text"),
    ],
)
def test_a_wrong_file_of_users_ends_with_2_and_one_line_without_passwords(
    content: bytes, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "users").write_bytes(content)
    assert serve(["--port", str(free_port()), "--auth", str(tmp_path / "users")]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert "secret" not in error


def test_a_store_that_cannot_be_opened_ends_with_2_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "noise.sqlite").write_bytes(b"noise " * 1000)
    nowhere = tmp_path / "nope"
    stores = (str(nowhere / "dir" / "r.sqlite"), f"sqlite:///{nowhere}/r.sqlite")
    for store in (*stores, str(tmp_path / "noise.sqlite"), "sqlite+none://", str(tmp_path)):
        assert serve(["--port", str(free_port()), "--reviews", store, "--data", str(tmp_path / "none.json")]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: the folder" if store in stores else "error: ")
        assert error.count("\n") == 1
        assert not nowhere.exists()
