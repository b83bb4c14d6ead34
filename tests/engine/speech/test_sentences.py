"""Sentences of a text that arrives in parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.engine.speech.espeak import SentenceBuffer


def split(*parts: str) -> list[str]:
    buffer = SentenceBuffer()
    return [sentence for part in parts for sentence in buffer.push(part)] + buffer.flush()


def test_a_sentence_is_complete_with_the_space_after_its_end() -> None:
    buffer = SentenceBuffer()
    assert buffer.push("Good. N") == ["Good."]
    assert buffer.push("ow it is 3.5 cm.") == []
    assert buffer.push(" ") == ["Now it is 3.5 cm."]
    assert buffer.flush() == []


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        ("no end", ["no end"]),
        ('He says "stop!" Then he goes.', ['He says "stop!"', "Then he goes."]),
        ("one\ntwo\n\nthree", ["one", "two", "three"]),
        ("What? Yes… no.", ["What?", "Yes…", "no."]),
    ],
)
def test_a_text_is_split_at_ends_and_lines(text: str, sentences: list[str]) -> None:
    assert split(text) == split(*text) == sentences


def test_a_text_without_ends_is_cut_at_a_space() -> None:
    assert all(200 < len(part) <= 300 for part in split("word " * 200)[:-1])
    assert list(map(len, split("x" * 700))) == [300, 300, 100]


@given(st.lists(st.text(alphabet="ab.! \n", max_size=30), max_size=30))
def test_no_word_is_lost(parts: list[str]) -> None:
    assert "".join(" ".join(split(*parts)).split()) == "".join("".join(parts).split())
