import pytest

from stepscope.app.figures.text import MAX_TEXT, clean_text, fit_text, from_markup, text_width, to_markup, wrap_text


def test_the_width_of_a_text_is_that_of_its_characters() -> None:
    assert text_width("il", 10) == pytest.approx(5.56)  # two of 0.278 font sizes
    assert text_width("漢字", 10) == 20
    assert text_width("e\u0301", 10) == text_width("e", 10), "a combining mark has no width"


def test_a_text_is_cut_to_a_width_with_an_ellipsis() -> None:
    assert fit_text("iiii", 4 * 2.78, 10) == "iiii"
    assert fit_text("mmmm", 30, 10) == "mm…"  # two of 9.74 and 7 for the ellipsis
    assert fit_text("mmmm", 5, 10) == ""


def test_a_text_breaks_at_spaces_and_its_last_line_is_cut() -> None:
    assert wrap_text("in the end", 24, 10, max_lines=3) == ["in", "the", "end"]
    assert wrap_text("in the end", 24, 10, max_lines=2) == ["in", "the…"]
    assert wrap_text("unbreakable", 24, 10, max_lines=3) == ["un…"]
    assert wrap_text("", 24, 10, max_lines=3) == []


def test_markup_of_untrusted_texts_is_only_characters() -> None:
    text = "<b>bold</b> & <img src=x onerror=alert(1)>"
    assert from_markup(to_markup(text)) == text
    assert from_markup("<b>a</b><br>b &lt;c&gt;") == "a\nb <c>"


def test_untrusted_texts_become_one_short_line_that_xml_can_hold() -> None:
    assert clean_text("a\x00b\r\nc\ud800") == "a b c?"
    assert len(clean_text("x" * 5000)) == MAX_TEXT
