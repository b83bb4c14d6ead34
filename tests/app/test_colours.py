import pytest

from stepscope.app.style.colours import COLOURS, NON_TEXT_COLOURS

LIGHT, DARK = "#ffffff", "#27272a"
"""Block backgrounds of the theme: white, and neutral 800."""


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2.1."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#f97316", "#ffffff") == pytest.approx(2.80, abs=0.005)  # as axe-core reports it
    assert contrast("#777777", "#777777") == 1


@pytest.mark.parametrize("name", COLOURS)
def test_colours_can_be_read_in_both_themes(name: str) -> None:
    least = 3.0 if name in NON_TEXT_COLOURS else 4.5
    assert contrast(COLOURS[name].light, LIGHT) >= least
    assert contrast(COLOURS[name].dark, DARK) >= least
