"""The vocabulary beside a split is untrusted: each limit is named in one sentence."""

import json
from pathlib import Path

import pytest

from stepscope.eval.data.vocabulary import Vocabulary, read_vocabulary


def test_names_keep_their_order_and_without_a_file_there_are_none(tmp_path: Path) -> None:
    assert read_vocabulary(tmp_path / "test.json") == Vocabulary()
    (tmp_path / "test.vocabulary.json").write_text('{"causes": {"decoy": "a wrong part"}, "tags": {"b": "", "a": ""}}')
    found = read_vocabulary(tmp_path / "test.json")
    assert found.traits == ("tag: b", "tag: a", "cause: decoy")
    assert found.causes["decoy"] == "a wrong part"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[", "cannot be read"),
        ("[" * 5000, "cannot be read"),
        ('{"tags": ["dark"]}', "tags: "),
        ('{"labels": {}}', "labels"),
        ('{"tags": {"dark": 1}}', "tags.dark"),
        (json.dumps({"tags": dict.fromkeys(map(str, range(61)), "")}), "tags has more than 60 names"),
        (json.dumps({"causes": {"x" * 41: ""}}), "causes: a name has 1 to 40 printable characters"),
        (json.dumps({"tags": {"dark, blurry": ""}}), "without comma"),
        (json.dumps({"tags": {"\ud800": ""}}), "printable"),
        (json.dumps({"tags": {"dark": "x" * 201}}), "tags.dark has at most 200 characters; got 201"),
        (" " * 2**18, "is larger than 128 KiB"),
    ],
)
def test_an_invalid_file_is_refused_in_one_sentence(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "test.vocabulary.json").write_text(content)
    with pytest.raises(ValueError, match=r"test\.vocabulary\.json") as refused:
        read_vocabulary(tmp_path / "test.json")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
