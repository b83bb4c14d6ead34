"""Wrong arguments of public functions: one sentence that names the argument."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine import (
    Recording,
    Step,
    StreamConfig,
    Streamer,
    Task,
    UserTurn,
    encode,
    explain_decision,
    load_model,
    parse_steps,
    read_frames,
)
from stepscope.engine.decisions.signals import SignalSpec
from tests.support.streams.fakes import random_frames, tiny_checkpoint

CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "no checkpoint": (load_model, "path_or_id must be a path; got None"),
    "no device": (lambda wrong: load_model("x", device=wrong), "device must be text such as cuda:1; got None"),
    "no dtype": (lambda wrong: load_model("x", dtype=wrong), "dtype must be text such as bfloat16; got None"),
    "no video": (lambda wrong: read_frames(wrong, fps=2), "path must be a path; got None"),
    "no rate": (lambda wrong: read_frames("x", fps=wrong), "fps must be a number; got None"),
    "steps": (parse_steps, "the steps must be text with a line for each step; got None"),
    "goal": (lambda wrong: Task(goal=wrong), "goal must be text; got None"),
    "no steps": (lambda wrong: Task(steps=wrong), "steps must be a list of Step; parse_steps reads text; got None"),
    "a step": (lambda wrong: Task(steps=[wrong]), "steps must be a list of Step; .* got .None."),  # type: ignore[arg-type]
    "turns": (lambda wrong: Task(user_turns=wrong), "user_turns must be a list of UserTurn; got None"),
    "state": (lambda wrong: Task(initial_state=wrong), "initial_state must be a dict of states by step id; got None"),
    "time": (lambda wrong: UserTurn(time_s=wrong, text=""), "the time of a user turn must be a finite number"),
    "text": (lambda wrong: UserTurn(time_s=1, text=wrong), "the text of a user turn must be text; got None"),
    "signal": (lambda wrong: SignalSpec(name="gaze", low=wrong), "low must be a finite number; got None"),
    "checkpoint": (lambda wrong: Recording(wrong, []), "checkpoint must be a checkpoint of load_model; got None"),
    "encoder": (lambda wrong: encode(wrong, []), "checkpoint must be a checkpoint of load_model; got None"),
    "recording": (lambda wrong: explain_decision(wrong, 1), "recording must be a Recording; got None"),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_another_type_is_named(name: str) -> None:
    call, message = CALLS[name]
    with pytest.raises(ValueError, match=message):
        call(None)


def test_texts_and_dicts_in_place_of_records_are_named(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path)
    task = Task(steps=(Step(id="S1", name="attach"),))
    recording = Recording(checkpoint, list(random_frames(checkpoint, 2)), task=task)
    calls: list[tuple[Callable[[Any], object], object, str]] = [
        (lambda wrong: encode(checkpoint, wrong), "x.mp4", "frames must be those of read_frames; got 'x.mp4'"),
        (lambda wrong: list(Streamer(checkpoint).run(wrong)), None, "features must be the frames of encode; got None"),
        (lambda wrong: list(Streamer(checkpoint).run([], wrong)), "goal", "task must be a Task; got 'goal'"),
        (lambda wrong: Recording(checkpoint, [], task=wrong), "goal", "task must be a Task; got 'goal'"),
        (lambda wrong: Recording(checkpoint, [], config=wrong), {"fps": 1}, "config must be a StreamConfig; got {'fps"),
        (recording.with_question, "why?", "question must be a UserTurn; got 'why"),
        (recording.branch, StreamConfig(), "intervention must be an Intervention; got StreamConfig"),
        (recording.inspect, "1", "frame_index must be a whole number; got '1'"),
        (lambda wrong: recording.at(speak_threshold=wrong, update_threshold=0), None, "speak_threshold must be a num"),
    ]
    for call, wrong, message in calls:
        with pytest.raises(ValueError, match=message):
            call(wrong)
