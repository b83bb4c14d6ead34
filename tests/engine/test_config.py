"""Thresholds as they are typed: one reader for the page, for links and for commands."""

import math
from typing import Any

import pytest

from stepscope.engine.config import StreamConfig, format_threshold, read_threshold
from stepscope.engine.decisions.policies import convert_theta


@pytest.mark.parametrize(
    ("typed", "threshold"),
    [("0.4", 0.4), ("0,4", 0.4), (1, 1.0)],
)
def test_a_threshold_is_read_with_a_point_or_a_comma(typed: object, threshold: float) -> None:
    assert read_threshold(typed, "speak") == threshold


@pytest.mark.parametrize(
    ("typed", "got"),
    [("", "nothing"), ("0,4,5", "'0,4,5'"), ("1.01", "'1.01'"), (math.nan, "nan")],
)
def test_what_is_no_number_from_0_to_1_is_refused_in_a_sentence(typed: Any, got: str) -> None:
    with pytest.raises(ValueError, match=rf"^the update threshold must be a number from 0 to 1; got {got}$"):
        read_threshold(typed, "update")


@pytest.mark.parametrize(("value", "text"), [(1 / 3, "0.3333333333333333"), (1e-7, "0.0000001"), (1, "1")])
def test_a_threshold_is_written_with_all_its_digits_and_read_again(value: float, text: str) -> None:
    assert format_threshold(value) == text
    assert read_threshold(text, "speak") == value


@pytest.mark.parametrize(("speak", "theta"), [(0.275, 0.725), (0.1, 0.9)])
def test_the_thresholds_of_a_rule_with_theta_are_written_as_theta(speak: float, theta: float) -> None:
    assert (convert_theta(speak), convert_theta(theta)) == (theta, speak)
    for name in ("silent-token", "not-talk", "streaming-eos"):
        config = StreamConfig(decision_policy=name, speak_threshold=speak, update_threshold=0.5)
        assert config.thresholds_text == f"theta {format_threshold(theta)}"
    assert StreamConfig(speak_threshold=speak).thresholds_text == f"speak {format_threshold(speak)}, update 0.5"


@pytest.mark.parametrize("text", ["{start:900000000}", "{start:{end}}", "{start.real}"])
def test_a_frame_text_has_the_times_of_a_frame_and_no_more(text: str) -> None:
    """A width of 900,000,000 would take 900 MB."""
    assert StreamConfig(frame_text="{{1000}} {start:.1f} to {end:06.2f} s").text_before(2) == "{1000} 1.0 to 001.50 s"
    with pytest.raises(ValueError, match="frame_text may have the fields"):
        StreamConfig(frame_text=text)
