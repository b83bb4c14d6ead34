"""Numbers with their nouns."""

import pytest

from stepscope.engine.plurals import format_count


@pytest.mark.parametrize(
    ("number", "nouns", "text"),
    [
        (0, ("video",), "0 videos"),
        (1, ("video",), "1 video"),
        (2, ("video",), "2 videos"),
        (1, ("reply is", "replies are"), "1 reply is"),
        (11, ("reply is", "replies are"), "11 replies are"),
    ],
)
def test_a_noun_agrees_with_its_number(number: int, nouns: tuple[str, ...], text: str) -> None:
    assert format_count(number, *nouns) == text
