"""Live sessions on scripted sources and a fake clock: pace, drops, and encoder and model at once."""

import errno
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from threading import Event

import numpy as np
import pytest
from torch import Tensor

from stepscope.engine.config import StreamConfig
from stepscope.engine.live.frames import SampledFrame
from stepscope.engine.live.session import LiveOptions, LiveSession
from stepscope.engine.live.sources import Clock
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures, encode_images
from stepscope.engine.records import FrameOutput, UserTurn
from stepscope.engine.stream import Streamer
from tests.support.streams.live import (
    LIMIT_S,
    NUM_FRAMES,
    SILENT,
    TASK,
    FakeClock,
    Paced,
    begin,
    picture_at,
    run_to_end,
)
from tests.support.streams.streams import SHORT, assert_equal


def test_a_fast_model_drops_nothing_and_gives_the_outputs_of_the_video(checkpoint: Checkpoint) -> None:
    config = StreamConfig(speak_threshold=0.4, update_threshold=0.4, **SHORT)
    paced = Paced()
    session, outputs = begin(checkpoint, paced, config=config, on_output=paced.decide)
    run_to_end(session)
    features = encode_images(checkpoint, map(picture_at, range(NUM_FRAMES)))
    frames = [FrameFeatures(index=index, time_s=index / 2, features=row) for index, row in enumerate(features)]
    assert_equal(outputs, list(Streamer(checkpoint, config).run(frames, TASK)))
    status = session.status
    assert (status.num_sampled, status.num_decided, status.num_dropped) == (NUM_FRAMES, NUM_FRAMES, 0)
    assert (status.state, status.on_time_share, status.problem) == ("ended", 1.0, "")
    assert 0 <= status.real_time_factor <= 1, "the clock stands still while encoder and model work"


def test_a_slow_model_drops_the_oldest_frames_and_reports_each(checkpoint: Checkpoint) -> None:
    is_held, has_first, may_decide = Event(), Event(), Event()

    def script(clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        yield picture_at(0)
        assert has_first.wait(LIMIT_S)
        for index in range(1, NUM_FRAMES):
            clock.wait(stopped, 0.5)
            yield picture_at(index)
        is_held.set()

    def hold(output: FrameOutput) -> None:
        if output.frame_index == 0:
            has_first.set()
            assert may_decide.wait(LIMIT_S)

    session, outputs = begin(checkpoint, script, options=LiveOptions(queue_frames=3), on_output=hold)
    session.start()
    assert is_held.wait(LIMIT_S)
    for thread in session._threads[:2]:  # all frames have reached the queue of the model
        thread.join(LIMIT_S)
    may_decide.set()
    assert session.ended.wait(LIMIT_S)
    status = session.status
    assert [output.frame_index for output in outputs] == list(range(NUM_FRAMES)), "one output for each instant"
    unseen = [output.frame_index for output in outputs if np.isnan(output.speak_prob)]
    assert len(unseen) == status.num_dropped == status.num_sampled - status.num_decided > 0
    assert unseen == list(range(1, 1 + len(unseen))), "the oldest frames are dropped, the latest are kept"
    assert status.on_time_share < 1
    assert f"{len(unseen)} dropped" in status.describe()
    assert {outputs[index].state for index in unseen} == {"dropped"}


def test_times_and_forgotten_frames_are_those_of_the_source_where_frames_are_dropped(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    instants = list[int]()

    def text_before(_: StreamConfig, instant: int) -> str:
        instants.append(instant)
        return ""

    monkeypatch.setattr(StreamConfig, "text_before", text_before)
    config = replace(SILENT, frame_text="<{start}>", max_seq_len=180)
    has_first, num_frames = Event(), 60

    def script(clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        for index in range(num_frames):
            yield picture_at(index)
            assert has_first.wait(LIMIT_S)
            clock.wait(stopped, 0.5 if index else 10.0)  # no picture for 20 instants

    session, outputs = begin(
        checkpoint, script, config=config, options=LiveOptions(queue_frames=100), on_output=lambda _: has_first.set()
    )
    run_to_end(session)
    assert session.problem == ""
    decided = [output.frame_index for output in outputs if not np.isnan(output.speak_prob)]
    assert {"no picture"} == {output.state for output in outputs[1:20]}
    assert (len(decided), decided[1]) == (num_frames, 20)
    assert set(instants) == set(decided)
    (first, *_) = [output for output in outputs if output.forgotten is not None]
    assert first.forgotten is not None
    last = decided[decided.index(first.frame_index) - 1]
    assert (first.forgotten.first_frame, first.forgotten.last_frame) == (0, last)


def test_frames_that_are_encoded_together_share_the_time(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()

    def encode(_: Checkpoint, images: list[np.ndarray], **_options: bool) -> list[Tensor]:
        clock.advance(0.2)
        return encode_images(checkpoint, images)

    monkeypatch.setattr("stepscope.engine.live.session.encode_images", encode)
    session, _ = begin(checkpoint, Paced(), clock=clock)
    for index in range(4):
        session._sampled.put(SampledFrame(grid_index=index, captured_s=clock.now(), image=picture_at(index)))
    session._sampled.close()
    session._encode()
    assert [frame.encode_s for frame in session._encoded.take(4)] == pytest.approx([0.05] * 4)


def test_frames_that_wait_when_a_session_is_stopped_are_counted_as_not_reached(checkpoint: Checkpoint) -> None:
    has_first = Event()

    def script(clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        yield picture_at(0)
        assert has_first.wait(LIMIT_S)
        for index in range(1, 4):
            clock.wait(stopped, 0.5)
            yield picture_at(index)
        assert stopped.wait(LIMIT_S)

    def hold(output: FrameOutput) -> None:
        if output.frame_index == 0:
            has_first.set()
            assert session._stopped.wait(LIMIT_S)

    session, outputs = begin(checkpoint, script, is_endless=True, on_output=hold)
    session.start()
    while len(session._encoded._frames) < 3:
        Event().wait(0.001)
    assert session.status.num_not_reached == 0, "they may still be decided"
    session.stop()
    status = session.status
    assert (status.num_sampled, status.num_decided, status.num_dropped, status.num_not_reached) == (4, 1, 0, 3)
    assert [output.state for output in outputs] == [None, "not reached", "not reached", "not reached"]
    assert "1 frame decided, 0 dropped, 3 not reached at the end" in status.describe()
    assert status.on_time_share == 1.0, "the end of the session is no lag"


def test_an_instant_without_a_picture_is_counted(checkpoint: Checkpoint) -> None:
    paced = Paced(4)

    def script(clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        for index, image in enumerate(paced(clock, stopped)):
            yield image
            clock.wait(stopped, 1.0 if index == 1 else 0.0)  # the source misses two instants

    session, outputs = begin(checkpoint, script, on_output=lambda output: paced.decide(output))
    run_to_end(session)
    status = session.status
    assert (status.num_decided, status.num_dropped, status.num_without_picture) == (4, 0, 2)
    assert [output.state for output in outputs] == [None, None, "no picture", "no picture", None, None]
    assert "2 without a picture" in status.describe()


def test_a_stopped_session_ends_without_a_problem(checkpoint: Checkpoint) -> None:
    paced = Paced(10**9)
    session, outputs = begin(checkpoint, paced, is_endless=True, on_output=paced.decide)
    session.start()
    while len(outputs) < 3:
        threading.Event().wait(0.001)
    session.stop()
    assert session.ended.is_set()
    assert (session.status.state, session.problem) == ("ended", "")
    assert not any(thread.is_alive() for thread in session._threads)


def test_a_session_on_a_full_disk_ends_with_the_reason(checkpoint: Checkpoint) -> None:
    paced = Paced(10**9)
    written: list[int] = []

    def write(output: FrameOutput) -> None:
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "live.jsonl")
        written.append(output.frame_index)
        paced.decide(output)

    session, _ = begin(checkpoint, paced, is_endless=True, on_output=write)
    session.start()
    assert session.ended.wait(LIMIT_S)
    assert session.status.state == "failed"
    assert session.problem == "live.jsonl: No space left on device"
    session.stop()
    assert not any(thread.is_alive() for thread in session._threads)
    assert written == [0, 1, 2]


def test_a_question_is_answered_at_its_frame_in_the_same_context(checkpoint: Checkpoint) -> None:
    session: LiveSession

    def ask(index: int) -> None:
        if index == 5:
            session.ask("  What is\nnext? ")

    paced = Paced(before=ask)
    session, outputs = begin(checkpoint, paced, on_output=paced.decide)
    run_to_end(session)
    assert [output.frame_index for output in outputs if output.response is not None] == [5]
    assert session.asked.turns == [UserTurn(time_s=2.5, text="What is next?")]
    features = encode_images(checkpoint, map(picture_at, range(NUM_FRAMES)))
    frames = [FrameFeatures(index=index, time_s=index / 2, features=row) for index, row in enumerate(features)]
    stored = replace(TASK, questions=tuple(session.asked.turns))
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
