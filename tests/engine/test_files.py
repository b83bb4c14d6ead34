"""Records, settings and features on disk: written whole, read back equal, refused in one line."""

import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.engine.config import StreamConfig
from stepscope.engine.config_files import read_config
from stepscope.engine.errors import FeatureError
from stepscope.engine.io.files import atomic_write, load_json, load_json_lines
from stepscope.engine.io.json_records import read_record
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.feature_files import feature_info, feature_path, read_features, write_features
from stepscope.engine.model.preprocessing import Normalization
from stepscope.engine.records import FrameOutput, read_outputs, write_outputs
from stepscope.eval.data.vocabulary import Vocabulary
from tests.support.data.records import make_output
from tests.support.streams.fakes import random_frames, tiny_checkpoint

OUTPUT = make_output(
    3,
    time_s=1.5,
    speak_prob=0.25,
    update_prob=0.75,
    response="Good.\u2028<b>",
    updates=("S1->start",),
    dst_state={"S1": "in_progress"},
    cache_tokens=99,
    latency_ms=1.25,
)


def test_a_run_file_comes_back_equal(tmp_path: Path) -> None:
    silent = FrameOutput.from_json(OUTPUT.to_json().replace('"Good.\u2028<b>"', "null"))
    assert write_outputs(tmp_path / "run.jsonl", [OUTPUT, silent]) == 2
    assert read_outputs(tmp_path / "run.jsonl") == (OUTPUT, silent)


def test_a_file_of_an_earlier_version_lacks_the_legality_and_a_wrong_number_is_refused() -> None:
    judged = replace(OUTPUT, legality=("illegal",))
    line = judged.to_json()
    field = '"legality": ["illegal"]'
    assert field in line
    assert FrameOutput.from_json(line) == judged
    assert FrameOutput.from_json(line.replace(f", {field}", "")) == OUTPUT
    for wrong in ("[]", '["legal", "legal"]', '["fine"]'):
        with pytest.raises(ValueError, match="legality"):
            FrameOutput.from_json(line.replace('["illegal"]', wrong))


@given(response=st.none() | st.text(st.characters()), prob=st.floats(0, 1))
def test_every_text_and_probability_survives_a_line(response: str | None, prob: float) -> None:
    changed = replace(OUTPUT, response=response, speak_prob=prob)
    line = changed.to_json()
    assert "\n" not in line
    assert line.encode(), "UTF-8 holds it, half a surrogate pair too"
    assert FrameOutput.from_json(line) == changed


@pytest.mark.parametrize("line", ["{", '{"frame_index": 1}'])
def test_a_damaged_run_file_names_file_and_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "run.jsonl").write_text(OUTPUT.to_json() + "\n" + line + "\n")
    with pytest.raises(ValueError, match=r"run\.jsonl, line 2"):
        read_outputs(tmp_path / "run.jsonl")


def test_a_run_that_breaks_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_outputs(tmp_path / "run.jsonl", [OUTPUT])

    def broken() -> Iterator[FrameOutput]:
        yield OUTPUT
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_outputs(tmp_path / "run.jsonl", broken())
    assert read_outputs(tmp_path / "run.jsonl") == (OUTPUT,)
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]


def test_yaml_with_aliases_is_one_line_that_names_the_file(tmp_path: Path) -> None:
    laughs = ["seed: &a0 [1, 1]", *(f"x{n + 1}: &a{n + 1} [*a{n}, *a{n}]" for n in range(40)), "fps: *a40"]
    (tmp_path / "s.yaml").write_text("\n".join(laughs))
    with pytest.raises(
        ValueError, match=r"^[^\n]*s\.yaml cannot be read as YAML: it repeats a value by an alias[^\n]*$"
    ):
        read_config(tmp_path / "s.yaml")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("speak_threshold", -0.1),
        ("fps", float("inf")),
        ("decision_policy", "guess"),
        ("lookahead", 2.5),
        ("max_seq_len", 512),
    ],
)
def test_a_setting_out_of_range_or_of_another_kind_names_itself(name: str, value: object) -> None:
    expected = "reserved_seq_len" if name == "max_seq_len" else name
    with pytest.raises(ValueError, match=f"^{expected} must be"):
        StreamConfig(**{name: value})  # type: ignore[arg-type]


def test_features_of_another_encoder_pooling_rate_or_normalization_are_refused(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    other = tiny_checkpoint(tmp_path / "other", seed=1)
    first = tiny_checkpoint(tmp_path / "first", pooling="first")
    path = tmp_path / "f.safetensors"
    write_features(path, random_frames(checkpoint, 3), feature_info(checkpoint, fps=2.0))
    dimmed = replace(checkpoint, normalization=Normalization(mean=(0.1, 0.5, 0.5)))
    for reader, fps, reason in (
        (other, 2.0, "encoder_digest"),
        (first, 2.0, "pooling"),
        (checkpoint, 4.0, "fps"),
        (dimmed, 2.0, "normalization"),
    ):
        with pytest.raises(FeatureError, match=f"was made with {reason}"):
            read_features(path, reader, fps=fps)


def test_pickled_and_damaged_features_are_refused(tmp_path: Path, checkpoint: Checkpoint) -> None:
    np.save(tmp_path / "f.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "f.pt").write_bytes(b"x")
    (tmp_path / "f.safetensors").write_bytes(b"x" * 40)
    for name in ("f.npy", "f.pt", "f.safetensors"):
        with pytest.raises(FeatureError):
            read_features(tmp_path / name, checkpoint, fps=2.0)


def test_features_are_kept_by_content_encoder_and_rate(tmp_path: Path, checkpoint: Checkpoint) -> None:
    for name, content in (("a.mp4", b"1"), ("b.mp4", b"2")):
        (tmp_path / name).write_bytes(content)
    two, four = feature_info(checkpoint, fps=2.0), feature_info(checkpoint, fps=4.0)
    first = feature_path(tmp_path, tmp_path / "a.mp4", two)
    others = {feature_path(tmp_path, tmp_path / "b.mp4", two), feature_path(tmp_path, tmp_path / "a.mp4", four)}
    assert first == feature_path(tmp_path, tmp_path / "a.mp4", two)
    assert len({first, *others}) == 3


def test_a_full_disk_is_an_error_with_the_path_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*a\.txt'"), atomic_write(path) as file:
            file.write("x" * 9000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [one.read_text() for one in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{\n "a": 1\n}\n{\n "b": [\n2\n]\n}\n', [(1, {"a": 1}), (4, {"b": [2]})]),
        ('{"a": 1}{"b": 2} {"c": 3}\n\n[\n4\n]', [(1, {"a": 1}), (1, {"b": 2}), (1, {"c": 3}), (3, [4])]),
        ('{"a": 1}\n{\n"b": 2\n}\n{"c": 3}', [(1, {"a": 1}), (2, {"b": 2}), (5, {"c": 3})]),
    ],
)
def test_joined_json_values_are_read_one_after_the_other(text: str, found: list[tuple[int, object]]) -> None:
    assert list(load_json_lines(text)) == [(number, value, "") for number, value in found]


def test_a_damaged_line_takes_no_other_with_it_and_a_damaged_long_value_says_that_it_is_the_last() -> None:
    lines = list(load_json_lines('{"a": 1}\n{"b": [\n{"c": 3}\n{"d": 4}'))
    assert [(number, value, bool(problem)) for number, value, problem in lines] == [
        (1, {"a": 1}, False),
        (2, None, True),
        (3, {"c": 3}, False),
        (4, {"d": 4}, False),
    ]
    *_, (number, value, problem) = load_json_lines('{\n"a": 1\n}\n{\n"b": \n}\n{"c": 3}')
    assert (number, value) == (4, None)
    assert problem.endswith("nothing after it was read")


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '[{"b": {"a": 1, "c": 0, "a": 1}}]', '{\n"a": 1,\n"a": 2\n}'])
def test_a_key_that_an_object_has_twice_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="an object has the key 'a' twice"):
        load_json(text)
    assert "the key 'a' twice" in next(load_json_lines(text))[2]
    (tmp_path / "vocabulary.json").write_text('{"causes": {"drop": "it falls", "drop": "it is put down"}}')
    with pytest.raises(ValueError, match=r"vocabulary\.json cannot be read: an object has the key 'drop' twice"):
        read_record(Vocabulary, tmp_path / "vocabulary.json")
