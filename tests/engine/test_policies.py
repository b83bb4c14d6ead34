"""Decision policies: the shared table of cases, the streaming engine on the same cases, and frames in a row."""

import json
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.controller import StreamController
from stepscope.engine.control.requests import Decision, Image
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.decisions.policies import POLICIES, DecisionPolicy, Signal
from stepscope.engine.records import FrameOutput
from tests.support.data.records import make_output
from tests.support.paths import ROOT
from tests.support.streams.fakes import RESPONSE, STEPS, CharacterCodec, ScriptedRunner

CASES: list[dict[str, Any]] = json.loads((ROOT / "tests" / "data" / "policies.json").read_text(encoding="utf-8"))
SETTINGS = ("frames_in_a_row", "refractory_s")
SIGNALS: tuple[Signal, ...] = ("speak", "update")
STREAMED = [case for case in CASES if POLICIES[case["policy"]].source != "signal"]
each_streamed_case = pytest.mark.parametrize("case", STREAMED, ids=lambda case: f"{case['policy']}: {case['name']}")
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['policy']}: {case['name']}")


def policy_of(case: dict[str, Any]) -> DecisionPolicy:
    return replace(POLICIES[case["policy"]], **{name: case[name] for name in SETTINGS if name in case})


def fps_of(case: dict[str, Any]) -> float:
    return float(case.get("fps", 2))


def probs_of(case: dict[str, Any]) -> list[float]:
    return [math.nan if prob is None else prob for prob in case["probs"]]


@each_case
def test_a_counter_and_arrays_trigger_at_the_frames_of_the_table(case: dict[str, Any]) -> None:
    policy = policy_of(case)
    for signal in SIGNALS:
        counter = policy.kind(policy, signal=signal, threshold=case["threshold"], fps=fps_of(case))
        assert [frame for frame, prob in enumerate(probs_of(case)) if counter.add(prob)] == case[signal]
        found = policy.find_triggers(probs_of(case), case["threshold"], signal=signal, fps=fps_of(case))
        assert np.flatnonzero(found).tolist() == case[signal]
        thresholds = np.array([[case["threshold"]], [math.nan]])
        both = policy.find_triggers(probs_of(case), thresholds, signal=signal, fps=fps_of(case))
        assert [np.flatnonzero(row).tolist() for row in both] == [case[signal], []], "nan is exceeded by nothing"


@settings(max_examples=40)
@given(
    probs=st.lists(st.sampled_from([math.nan, -0.5, 0, 0.25, 0.375, 0.5, 0.75, 1, 1.5]), max_size=30),
    policy=st.sampled_from(list(POLICIES.values())),
    frames_in_a_row=st.sampled_from([1, 2, 3]),
    refractory_s=st.sampled_from([None, 0.4, 2.0]),
    fps=st.sampled_from([0.5, 2, 5, 29.97]),
)
def test_a_counter_triggers_at_the_frames_that_are_found_at_once(
    probs: list[float], policy: DecisionPolicy, frames_in_a_row: int, refractory_s: float | None, fps: float
) -> None:
    policy = replace(policy, frames_in_a_row=frames_in_a_row, refractory_s=refractory_s)
    thresholds = [0, 0.25, 0.5, 1, math.nan]
    for signal in SIGNALS:
        rows = policy.find_triggers(probs, np.array(thresholds)[:, None], signal=signal, fps=fps)
        assert rows.shape == (len(thresholds), len(probs))
        for threshold, row in zip(thresholds, rows.tolist(), strict=True):
            counter = policy.kind(policy, signal=signal, threshold=threshold, fps=fps)
            assert [counter.add(prob) for prob in probs] == row
            assert policy.find_triggers(probs, threshold, signal=signal, fps=fps).tolist() == row


@given(probs=st.lists(st.integers(0, 8), max_size=20), threshold=st.integers(0, 4))
def test_a_surge_is_that_of_em_garde(probs: list[int], threshold: int) -> None:
    # at 2 frames per second: above the value 2 frames before by more than the threshold, and above the mean until then
    values = [prob / 8 for prob in probs]
    wanted = [
        frame >= 2 and value - values[frame - 2] > threshold / 8 and value > np.mean(values[: frame - 1])
        for frame, value in enumerate(values)
    ]
    found = POLICIES["surge"].find_triggers(values, threshold / 8, signal="speak", fps=2)
    assert found.tolist() == wanted


@dataclass
class ProbRunner(ScriptedRunner):
    """Answers with given probabilities at the images; every text is short."""

    probs: list[float] = field(default_factory=list)

    def _decide(self, context: list[int | Image]) -> Decision:
        at = context[-1]
        prob = self.probs[at.frame_index] if isinstance(at, Image) else 0.0  # one update per frame
        return Decision(speak_prob=prob, update_prob=prob)

    def _answer(self, ids: tuple[int, ...], context: list[int | Image]) -> float:
        text, prob = self.codec.text(ids[1:]), self._decide(context).speak_prob
        if ids[0] != RESPONSE:
            return super()._answer(ids, context)
        shares = {"</Silence>": 1 - prob, "</Standby>": 0.0, "</Response>": prob}
        return math.log(shares[text]) if shares[text] else -math.inf


@each_streamed_case
@pytest.mark.parametrize("lookahead", [1, 4])
def test_the_engine_triggers_at_the_frames_of_the_table(
    case: dict[str, Any], lookahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICIES, "case", replace(policy_of(case), name="case"))
    given = probs_of(case)
    config = StreamConfig(
        decision_policy="case",
        speak_threshold=case["threshold"],
        update_threshold=case["threshold"],
        lookahead=lookahead,
        prefill_frames=lookahead,
        fps=fps_of(case),
    )
    turns = dict.fromkeys(range(len(given)), (("S1->start",), "Go."))

    def stream(prior: PriorRun | None) -> list[FrameOutput]:
        runner = ProbRunner(turns=turns, num_frames=len(given), probs=given)
        task = Task(goal="g", steps=STEPS)
        controller = StreamController(task, config=config, codec=CharacterCodec(), tokens_per_frame=1, prior_run=prior)
        return runner.drive(controller.run())

    outputs = stream(None)
    assert [output.frame_index for output in outputs if output.response is not None] == case["speak"]
    assert [output.frame_index for output in outputs if output.updates] == case["update"]
    assert [output.response for output in stream(PriorRun(outputs=tuple(outputs)))] == [
        output.response for output in outputs
    ]


PLAIN = make_output(0, time_s=0.0, speak_prob=math.nan, update_prob=math.nan, latency_ms=math.nan)


def test_signals_and_state_travel_through_a_line_of_json() -> None:
    output = replace(PLAIN, signals={"informative": 0.25, "a <b>": -3.0}, state="standby")
    assert FrameOutput.from_json(output.to_json()) == output
    unknown = replace(PLAIN, signals={"drop": math.nan}).to_json()
    assert json.loads(unknown)["signals"] == {"drop": None}
    assert math.isnan(FrameOutput.from_json(unknown).signals["drop"])
    assert {"signals", "state"}.isdisjoint(json.loads(PLAIN.to_json())), "without them a line is as before"
