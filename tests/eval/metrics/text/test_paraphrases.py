"""The part of METEOR's table that references need; ``test_text.py`` has METEOR's figures with such a part."""

import gzip
from pathlib import Path

import pytest

from stepscope.eval.metrics.text.paraphrases import cut_table, find_cut_table, list_phrases

TABLE = [
    ("0.1", "the box", "a box"),
    ("0.2", "unused", "the wheel"),
    ("0.3", "unused", "not used"),
    ("0.4", "e-mail", "letter"),
    ("0.5", "a reused", "used again"),
    ("0.6", "box wheel", "unused"),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(f"{line}\n" for pair in TABLE for line in pair)
    return path


def test_a_reference_has_its_phrases_in_each_reading() -> None:
    assert list_phrases("a box") == {"a", "box", "a box"}
    assert list_phrases("the - box ,") == {"the", "box", "the box"}
    assert {"a re", "re used", "used box", "a reused box"} < list_phrases("A re-used box")
    assert max(len(phrase.split()) for phrase in list_phrases("word " * 20)) == 7
    assert list_phrases("- ,") == set()


def test_pairs_that_no_reference_has_are_left_out_and_the_order_is_kept(table: Path, tmp_path: Path) -> None:
    cut_table(table, tmp_path / "cut.gz", ["turn the wheel", "a re-used box"])
    with gzip.open(tmp_path / "cut.gz", "rt") as file:
        lines = file.read().splitlines()
    assert lines[::3] == ["0.2", "0.4", "0.5"]  # 0.4 for its hyphen
    assert lines[1:3] == ["unused", "the wheel"]


def test_a_folder_that_cannot_be_written_keeps_no_table(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path))
    found = find_cut_table(table, ["a", "b"])
    assert found is not None
    assert found == find_cut_table(table, ["b", "a", "a"])
    assert found != find_cut_table(table, ["a"])
    monkeypatch.setenv("STEPSCOPE_CACHE", str(table))
    assert find_cut_table(table, ["a", "b"]) is None
