"""Texts of other programs: a byte order mark is no part of them, and another encoding is refused in a sentence."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.engine.cli.commands import read_steps
from stepscope.engine.config_files import read_config
from stepscope.engine.dialogue import parse_steps, parse_user_turn
from stepscope.engine.io.files import EncodingError, read_text
from stepscope.engine.records import Step, UserTurn, numbered_lines

STEPS = "S1: lay down the board\r\nS2: attach the axle\r\n"
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be-sig", "utf-32")


def encode(text: str, encoding: str) -> bytes:
    if encoding == "utf-16-be-sig":
        return b"\xfe\xff" + text.encode("utf-16-be")
    return text.encode(encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_texts_are_the_same_with_and_without_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(encode(STEPS, encoding))
    assert read_steps(path) == (Step(id="S1", name="lay down the board"), Step(id="S2", name="attach the axle"))
    path.write_bytes(encode("fps: 3\n", encoding))
    assert read_config(path).fps == 3
    path.write_bytes(encode('{"a": "\u2028"}\n{}\n', encoding))
    assert list(numbered_lines(path)) == [(1, '{"a": "\u2028"}\n'), (2, "{}\n")]


@pytest.mark.parametrize("mark", ["\ufeff", "\u200b", "\0"])
def test_a_pasted_invisible_character_is_no_part_of_a_step_or_of_a_user_turn(mark: str) -> None:
    assert parse_steps(f"{mark}{STEPS}{mark}S3{mark}: {mark}load{mark}\n{mark}\n") == parse_steps(f"{STEPS}S3: load")
    assert parse_user_turn(f"{mark}1:30{mark}:{mark} What is next?") == UserTurn(time_s=90, text="What is next?")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("Küche".encode("latin-1"), "it is not UTF-8 text; save it as UTF-8"),
        ("S1: lay".encode("utf-16-le"), "it is UTF-16 text without a byte order mark; save it as UTF-8"),
    ],
)
def test_a_text_of_another_encoding_is_refused_in_a_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "steps.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"steps.txt cannot be read as text: {sentence}$"):
        read_steps(path)
    with pytest.raises(EncodingError, match=f"^{sentence}$"):
        read_text(path)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x00\ufeff")), st.sampled_from(ENCODINGS))
def test_any_text_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, text: str, encoding: str) -> None:
    path = tmp_path_factory.getbasetemp() / "text"
    path.write_bytes(encode(text, encoding))
    assert read_text(path) == text
