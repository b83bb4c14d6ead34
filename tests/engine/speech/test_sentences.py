"""Sentences of a text that arrives in parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.engine.speech.espeak import SAMPLE_RATE, SentenceBuffer, synthesize


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


def duration_s(text: str) -> float:
    return len(synthesize(text)) / 2 / SAMPLE_RATE


def test_a_sentence_is_sound_of_its_length() -> None:
    samples = np.frombuffer(synthesize("Good. Now mount the block."), np.int16)
    assert 1 < len(samples) / SAMPLE_RATE < 3
    assert np.abs(samples.astype(int)).max() > 3000
    assert duration_s("Good. Now mount the block. Then put on the head.") > len(samples) / SAMPLE_RATE + 0.5


def test_commands_in_a_text_have_no_effect() -> None:
    plain_s = duration_s("10S slow words here please")
    assert duration_s("\x0110S slow words here \x01 please") == pytest.approx(plain_s, rel=0.1)
    assert synthesize("\ud800 words")
    assert duration_s('<audio src="/etc/passwd"/><break time="20s"/>') < 10
