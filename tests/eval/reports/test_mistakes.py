"""Failures of one moment with one cause are one mistake, with a sentence of what the data holds."""

import re

import pytest

from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample, Turn, build_task
from stepscope.eval.metrics.matched_video import FAILURE_KINDS
from stepscope.eval.metrics.score import analyze_video
from stepscope.eval.reports.mistakes import describe_mistake, find_mistakes
from stepscope.eval.runs.folder import RunFolder
from tests.support.data.records import make_output, make_sample
from tests.support.paths import ASSETS
from tests.support.streams.fakes import count_letters

STEPS = (Step(id="S1", name="add the wheel"), Step(id="S2", name="add the roof"), Step(id="S3", name="add the roof"))
WHEEL, ROOF = "“add the wheel”", "“add the roof” (S2)"
CARE = "Put the bun back."


def turn(time_s: float, text: str, cause: str | None = None) -> Turn:
    return Turn(time_s=time_s, role="update" if "->" in text else "assistant", text=text, cause=cause)


def stream(said: dict[float, str], *, steps: tuple[Step, ...] = STEPS) -> tuple[FrameOutput, ...]:
    """Return 20 frames at 2 fps with the messages and updates of a time; several are joined by `` | ``."""
    state, outputs = initial_state(steps), list[FrameOutput]()
    for index in range(20):
        texts = [text for text in said.get(index / 2, "").split(" | ") if text]
        updates = tuple(text for text in texts if "->" in text or text.startswith("S1 "))
        for text in updates:
            state = dict(apply_update(state, text).state)
        response = next((text for text in texts if text not in updates), None)
        outputs.append(make_output(index, updates=updates, response=response, dst_state=dict(state)))
    return tuple(outputs)


def tell(sample: Sample, outputs: tuple[FrameOutput, ...], *, has_states: bool = True) -> list[str]:
    """Return the time and the sentences of each mistake; each failure is in one."""
    judged = analyze_video(sample, outputs, encode=count_letters, has_states=has_states).judged
    mistakes = find_mistakes(judged, sample)
    assert sorted(n for one in mistakes for n in one.failures) == list(range(len(judged.failures)))
    texts = [describe_mistake(one, judged, sample, outputs, build_task(sample)) for one in mistakes]
    return [
        f"{judged.failures[one.failures[0]].frame_index / sample.fps:g} {text}"
        for one, text in zip(mistakes, texts, strict=True)
    ]


STATE = f"Its state of {WHEEL} is wrong"
CASES = {
    "a wrong update, the missed message beside it and the state are one": (
        {5.5: "S1->start"},
        (turn(5.0, CARE, "decoy"),),
        [
            "5 The hand takes a part that is not needed. The assistant took this for the start of "
            f"{WHEEL}, and did not say “{CARE}” {STATE} to the end of the run."
        ],
    ),
    "of another step, and beyond the window another mistake": (
        {2.0: "S2->start", 5.0: "S1->start", 9.0: "What?"},
        (turn(2.0, "S1->start"),),
        [
            f"2 The assistant noted the start of {ROOF} instead of {WHEEL}. "
            f"Its states of {WHEEL} and {ROOF} are wrong, the last of them to the end of the run.",
            f"5 The assistant took this moment for the start of {WHEEL}. "
            f"Its state of {ROOF} is wrong to the end of the run.",
            "9 The assistant said “What?” where it should have been silent.",
        ],
    ),
    "of another transition, and without a step": (
        {2.0: "S1->complete", 6.0: "S9->start", 7.5: "S1 begins"},
        (turn(2.0, "S1->start", "fog"), turn(6.0, "S2->start")),
        [
            f"2 The data names the cause “fog”. The assistant noted the end of {WHEEL} instead of its start. "
            f"{STATE} to the end of the run.",
            f"6 The assistant noted the start of S9 (no step of the task) instead of {ROOF}. "
            f"Its states of {WHEEL} and {ROOF} are wrong to the end of the run.",
            "7.5 The assistant wrote “S1 begins”, which is no update of a step.",
        ],
    ),
    "late": (
        {4.0: "S1->start", 9.0: "Well"},
        (turn(2.0, "S1->start"), turn(7.5, "Well")),
        [
            f"2 The assistant noted the start of {WHEEL} 2 s late. {STATE} until 0:04.0.",
            "9 The assistant said “Well” 1.5 s late.",
        ],
    ),
    "states that become right one by one": (
        {3.0: "S1->start"},
        (turn(2.0, "S1->start"), turn(2.0, "S2->start")),
        [
            f"2 The assistant did not note the start of {ROOF}. "
            f"Its states of {WHEEL} and {ROOF} are wrong, the last of them to the end of the run."
        ],
    ),
    "a state alone, of an update in time": (
        {2.5: "S1->start"},
        (turn(2.0, "S1->start"),),
        [f"2 The assistant takes {WHEEL} to be not started when it is in progress. {STATE} until 0:02.5."],
    ),
    "missed, wrong text, and repeated": (
        {1.0: "Go", 3.0: "###", 8.0: "go!"},
        (turn(1.0, "Go"), turn(3.0, "Stop"), turn(5.0, "S1->start"), turn(5.0, "S2->start"), turn(5.0, CARE)),
        [
            "3 The assistant said “###” instead of “Stop”.",
            f"5 The assistant did not note the start of {WHEEL} and the start of {ROOF}, and did not say “{CARE}” "
            f"Its states of {WHEEL} and {ROOF} are wrong to the end of the run.",
            "8 The assistant repeated “go!” where it should have been silent.",
        ],
    ),
}


@pytest.mark.parametrize(("said", "turns", "told"), CASES.values(), ids=CASES)
def test_a_mistake_says_what_happened_in_the_words_of_the_video(
    said: dict[float, str], turns: tuple[Turn, ...], told: list[str]
) -> None:
    assert tell(make_sample(steps=STEPS, turns=turns), stream(said)) == told


def test_a_run_without_steps_is_told_by_its_messages_alone() -> None:
    asked = Turn(time_s=4.0, role="user", text="And now?")
    sample = make_sample(turns=(turn(2.0, CARE), asked, turn(4.0, "Wait")))
    outputs = stream({2.0: "Go"}, steps=())
    assert tell(sample, outputs, has_states=False)[0] == f"2 The assistant said “Go” instead of “{CARE}”"
    assert tell(sample, stream({}, steps=()), has_states=False) == [
        f"2 The assistant did not say “{CARE}”",
        "4 The assistant did not say “Wait”.",
    ]
    assert tell(make_sample(turns=()), outputs, has_states=False) == [
        "2 The assistant said “Go” where it should have been silent."
    ]


def test_every_mistake_of_the_bundled_run_is_a_sentence() -> None:
    """With the run's encoder its 64 failures are 36 mistakes; that of the tests finds 6 wrong texts less."""
    run, told = RunFolder(ASSETS / "demo" / "run"), list[str]()
    for sample in read_split(ASSETS / "demo" / "test.json").samples:
        told += tell(sample, run.outputs(sample))
    assert len(told) == 34
    assert [text for text in told if not re.fullmatch(r"[\d.]+ ([A-Z].*[.”])", text)] == []
    assert [text for text in told if re.search(r"\bNone\b|->|“”|\.\.|  ", text)] == []
    assert len(FAILURE_KINDS) == 8, "a new kind of failure needs a sentence"
