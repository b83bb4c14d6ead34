"""Questions that are asked while a stored video streams, and after it: frame by frame is the definition."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import TextProgress
from stepscope.engine.control.task import Task
from stepscope.engine.live.questions import AskedQuestions
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import FrameOutput, UserTurn
from stepscope.engine.replay import Recording
from stepscope.engine.stream import Streamer
from tests.support.streams.fakes import random_frames
from tests.support.streams.streams import SHORT, TASK, assert_equal

NUM_FRAMES = 40


@pytest.fixture(scope="module")
def frames(checkpoint: Checkpoint) -> list[FrameFeatures]:
    return list(random_frames(checkpoint, NUM_FRAMES))


def make_config(**settings: Any) -> StreamConfig:
    return StreamConfig(**{**SHORT, "speak_threshold": 0.9, "update_threshold": 0.9, "lookahead": 8, **settings})


def frame_by_frame(
    checkpoint: Checkpoint, frames: list[FrameFeatures], config: StreamConfig, task: Task
) -> list[FrameOutput]:
    return list(Streamer(checkpoint, config.frame_by_frame()).run(frames, task))


def ask_while_streaming(
    checkpoint: Checkpoint, frames: list[FrameFeatures], texts: list[TextProgress]
) -> tuple[Recording, list[FrameOutput]]:
    asked = AskedQuestions(fps=2)

    def read() -> Iterator[FrameFeatures]:
        for frame in frames:
            if frame.index == 17:
                asked.ask(" What is\nnext? ")
                asked.ask("And then?", frame=30)
            yield frame

    recording = Recording(checkpoint, read(), task=TASK, config=make_config(), asked=asked)
    return recording, list(recording.run(texts.append))


def test_a_question_while_a_video_streams_is_answered_at_its_frame(
    checkpoint: Checkpoint, frames: list[FrameFeatures]
) -> None:
    texts: list[TextProgress] = []
    recording, outputs = ask_while_streaming(checkpoint, frames, texts)
    wanted = (UserTurn(time_s=8.5, text="What is next?"), UserTurn(time_s=15, text="And then?"))
    assert recording.task.questions == wanted
    assert outputs[17].response is not None
    assert outputs[30].response is not None
    assert_equal(outputs, frame_by_frame(checkpoint, frames, make_config(), replace(TASK, questions=wanted)))
    spoken = [progress for progress in texts if progress.frame_index == 17]
    assert spoken[-1].text == outputs[17].response
    assert all(later.text.startswith(earlier.text) for earlier, later in pairwise(spoken))


@pytest.mark.parametrize("asked", [None, AskedQuestions(fps=2)])
@pytest.mark.parametrize("max_seq_len", [180, 900])
def test_a_question_to_a_finished_run_gives_the_outputs_of_a_new_run(
    checkpoint: Checkpoint, frames: list[FrameFeatures], max_seq_len: int, asked: AskedQuestions | None
) -> None:
    config = make_config(max_seq_len=max_seq_len)
    first = Recording(checkpoint, iter(frames), task=TASK, config=config)
    before = list(first.run())
    question = UserTurn(time_s=10, text="What is next?")
    again = first.with_question(question, asked=asked)
    outputs = list(again.run())
    task = replace(TASK, questions=(question,))
    assert again.task == task
    assert_equal(outputs, frame_by_frame(checkpoint, frames, config, task))
    assert_equal(outputs[:20], before[:20])
    assert outputs[20].response is not None
    if max_seq_len == 900:
        assert sum(output.latency_ms for output in outputs[:20]) == 0, "the frames before it are not computed again"
    moved = again.at(speak_threshold=1, update_threshold=1)
    silent = replace(config, speak_threshold=1, update_threshold=1)
    assert_equal(list(moved.run()), frame_by_frame(checkpoint, frames, silent, task))


def test_user_turns_can_be_answered_at_their_frames(checkpoint: Checkpoint, frames: list[FrameFeatures]) -> None:
    turns = (UserTurn(time_s=4, text="What is next?"), UserTurn(time_s=9.5, text="And then?"))
    silent = make_config(speak_threshold=1, update_threshold=1)
    told = replace(TASK, user_turns=turns)
    assert not any(output.response for output in Streamer(checkpoint, silent).run(frames, told))
    config = replace(silent, answer_user_turns=True)
    outputs = list(Streamer(checkpoint, config).run(frames, told))
    assert [output.frame_index for output in outputs if output.response is not None] == [8, 19]
    assert_equal(outputs, frame_by_frame(checkpoint, frames, silent, replace(TASK, user_turns=(), questions=turns)))


@pytest.mark.parametrize("text", ["  \n", "x" * 301])
def test_an_unusable_question_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="question"):
        AskedQuestions(fps=2).ask(text)


def test_too_many_waiting_questions_are_refused() -> None:
    asked = AskedQuestions(fps=2)
    for _ in range(8):
        asked.ask("What is next?", frame=5)
    with pytest.raises(ValueError, match="8 questions wait"):
        asked.ask("And then?")
    assert len(asked.take(5)) == 8
    asked.ask("And then?")
