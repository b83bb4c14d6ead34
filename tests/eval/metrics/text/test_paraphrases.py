"""METEOR with a part of its table gives the statistics of METEOR with the whole one."""

import gzip
import itertools
import os
import random
from pathlib import Path

import pytest

from stepscope.eval.data.loading import read_split
from stepscope.eval.metrics.score import list_references
from stepscope.eval.metrics.text import TextScorer, java
from stepscope.eval.metrics.text.java import Meteor, tokenize
from stepscope.eval.metrics.text.paraphrases import MAX_KEPT, cut_table, find_cut_table, list_phrases
from tests.support.paths import ASSETS

TABLE = [
    ("0.1", "the box", "a box"),
    ("0.2", "unused", "the wheel"),
    ("0.3", "unused", "not used"),
    ("0.4", "e-mail", "letter"),
    ("0.5", "a reused", "used again"),
    ("0.6", "box wheel", "unused"),
]
ODD = [
    "do n't re-use the u.s. box - it 's 1,000 mm",
    "caf\u00e9 50 % off ; e-mail me at a/b , o'clock",
    "the so-called `` wheel '' is not 1/2 in. too long",
    "it is n't done yet -- i can not e-mail",
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


@pytest.mark.slow
def test_the_statistics_are_those_of_the_whole_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path))
    samples = [sample for name in ("test", "val") for sample in read_split(ASSETS / "demo" / f"{name}.json").samples]
    texts = tokenize(list_references(samples)) + ODD
    half = len(texts) // 2
    references, others = [*texts[:half], *ODD], texts
    draw = random.Random(5)
    pairs = [(reference, hypothesis) for reference in references for hypothesis in draw.sample(others, 2)]
    pairs += itertools.product(ODD, ODD)
    whole, cut, again = Meteor(), Meteor(), Meteor()
    cut.start(references)
    expected = whole.statistics(pairs)
    assert any(statistics != expected[0] for statistics in expected)
    assert cut.statistics(pairs) == expected
    (kept,) = (tmp_path / "meteor").glob("*.gz")
    assert 1000 < kept.stat().st_size < 4_000_000
    again.start(references)
    assert again.statistics(pairs[:200]) == expected[:200]
    for meteor in (whole, cut, again):
        meteor.close()


@pytest.mark.slow
def test_the_oldest_tables_are_deleted(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_TABLE", table)
    folder = tmp_path / "cache" / "meteor"
    folder.mkdir(parents=True)
    for number in range(MAX_KEPT + 3):
        (folder / f"{number}.gz").touch()
        os.utime(folder / f"{number}.gz", (number, number))
    with TextScorer(references=["turn the wheel"]) as scorer:
        assert scorer.score(["turn the wheel"], ["turn the wheel"])["METEOR"] == pytest.approx(1.0, abs=1e-3)
    kept = {path.name for path in folder.glob("*.gz")}
    assert len(kept) == MAX_KEPT
    assert not kept & {"0.gz", "1.gz", "2.gz", "3.gz"}
