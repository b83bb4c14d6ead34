"""Questions in a live session: answered at their frame in the same context, never dropped."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from threading import Event

import numpy as np
import pytest

from stepscope.engine.live.session import LiveOptions, LiveSession
from stepscope.engine.live.sources import Clock
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures, encode_images
from stepscope.engine.records import FrameOutput, UserTurn
from stepscope.engine.streamer import Streamer
from tests.support.streams.live import LIMIT_S, NUM_FRAMES, SILENT, TASK, Paced, begin, picture_at, run_to_end
from tests.support.streams.streams import assert_equal


def test_a_question_is_answered_at_its_frame_in_the_same_context(checkpoint: Checkpoint) -> None:
    session: LiveSession

    def ask(index: int) -> None:
        if index == 5:
            session.ask("  What is\nnext? ")

    paced = Paced(before=ask)
    session, outputs = begin(checkpoint, paced, on_output=paced.decide)
    run_to_end(session)
    assert [output.frame_index for output in outputs if output.response is not None] == [5]
    assert session.user_turns == (UserTurn(time_s=2.5, text="What is next?"),)
    features = encode_images(checkpoint, map(picture_at, range(NUM_FRAMES)))
    frames = [FrameFeatures(index=index, time_s=index / 2, features=row) for index, row in enumerate(features)]
    stored = replace(TASK, questions=session.user_turns)
    assert_equal(outputs, list(Streamer(checkpoint, SILENT).run(frames, stored)))
    assert_equal(outputs, list(Streamer(checkpoint, SILENT.frame_by_frame()).run(frames, stored)))


def test_a_question_is_never_dropped_and_its_answer_is_streamed(checkpoint: Checkpoint) -> None:
    texts: list[str] = []
    session: LiveSession
    held, may_decide = Event(), Event()

    def script(clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        yield picture_at(0)
        assert held.wait(LIMIT_S)
        for index in range(1, NUM_FRAMES):
            if index == 2:
                session.ask("What is next?")
            clock.wait(stopped, 0.5)
            yield picture_at(index)

    def hold(output: FrameOutput) -> None:
        if output.frame_index == 0:
            held.set()
            assert may_decide.wait(LIMIT_S)

    session, outputs = begin(checkpoint, script, options=LiveOptions(queue_frames=1), on_output=hold)
    session.on_text = lambda progress: texts.append(progress.text)
    session.start()
    for thread in session._threads[:2]:
        thread.join(LIMIT_S)
    may_decide.set()
    assert session.ended.wait(LIMIT_S)
    answers = [(output.frame_index, output.response) for output in outputs if output.response is not None]
    assert answers == [(2, texts[-1])]
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert session.status.num_dropped == NUM_FRAMES - 3


@pytest.mark.parametrize("text", ["", "  \n", "x" * 301])
def test_an_unusable_question_is_refused(checkpoint: Checkpoint, text: str) -> None:
    session, _ = begin(checkpoint, Paced(0))
    with pytest.raises(ValueError, match="question"):
        session.ask(text)
