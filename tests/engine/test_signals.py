"""Named signals and states of frames, and their descriptions."""

import json
import math
from dataclasses import replace

import pytest

from stepscope.engine.decisions.signals import MAX_SIGNALS, SignalSpec, check_signals
from stepscope.engine.records import FrameOutput
from tests.support.data.records import make_output

PLAIN = make_output(0, time_s=0.0, speak_prob=math.nan, update_prob=math.nan, latency_ms=math.nan)


def test_signals_and_state_travel_through_a_line_of_json() -> None:
    output = replace(PLAIN, signals={"informative": 0.25, "a <b>": -3.0}, state="standby")
    assert FrameOutput.from_json(output.to_json()) == output


def test_an_unknown_value_of_a_signal_is_null() -> None:
    line = replace(PLAIN, signals={"drop": math.nan}).to_json()
    assert json.loads(line)["signals"] == {"drop": None}
    assert math.isnan(FrameOutput.from_json(line).signals["drop"])


def test_outputs_without_signals_and_state_are_written_as_before() -> None:
    assert {"signals", "state"}.isdisjoint(json.loads(PLAIN.to_json()))


@pytest.mark.parametrize("signals", [{"a": "high"}, {"a": True}, [0.5], {"a": 1e300}])
def test_a_signal_that_is_no_finite_number_is_refused_by_name(signals: object) -> None:
    with pytest.raises(ValueError, match="signals"):
        FrameOutput.from_json(json.dumps({**json.loads(PLAIN.to_json()), "signals": signals}))


def test_a_description_has_a_name_a_range_and_a_finite_threshold() -> None:
    assert SignalSpec(name="drop", label="token drop").title == "token drop"
    assert SignalSpec(name="drop").title == "drop"
    with pytest.raises(ValueError, match="must have a name"):
        SignalSpec(name=" ")
    with pytest.raises(ValueError, match="low below high; got 1 and 1"):
        SignalSpec(name="drop", low=1, high=1)
    with pytest.raises(ValueError, match="finite threshold"):
        SignalSpec(name="drop", threshold=math.nan)


def test_two_signals_of_one_name_and_too_many_are_refused() -> None:
    with pytest.raises(ValueError, match="drop occurs twice"):
        check_signals([SignalSpec(name="drop"), SignalSpec(name="drop")])
    with pytest.raises(ValueError, match=f"at most {MAX_SIGNALS}"):
        check_signals([SignalSpec(name=str(number)) for number in range(MAX_SIGNALS + 1)])
