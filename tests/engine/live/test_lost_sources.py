"""Sources that are dead, empty, unplugged or stalled end a live session with one sentence."""

from collections.abc import Iterator
from threading import Event

import numpy as np
import pytest

from stepscope.engine.errors import VideoError
from stepscope.engine.live.session import LiveOptions
from stepscope.engine.live.sources import Clock
from stepscope.engine.model.checkpoint import Checkpoint
from tests.support.streams.live import LIMIT_S, PICTURE, FakeClock, begin, picture_at, run_to_end


def test_a_source_without_pictures_ends_with_a_sentence(checkpoint: Checkpoint) -> None:
    session, outputs = begin(checkpoint, lambda *_: iter(()), is_endless=True)
    run_to_end(session)
    assert session.problem == "camera: has no pictures; check the source"
    assert (session.status.state, outputs) == ("failed", [])


def test_a_dead_address_ends_with_a_sentence_without_its_password(checkpoint: Checkpoint) -> None:
    def dead(*_: object) -> Iterator[np.ndarray]:
        raise VideoError("rtsp://me:pass@word@camera/1?token=t0p: cannot be opened (refused)")
        yield PICTURE

    session, _ = begin(checkpoint, dead, is_endless=True)
    run_to_end(session)
    assert session.problem == "rtsp://***@camera/1?token=*** cannot be opened (refused)"


def test_an_unplugged_camera_is_connected_again_then_given_up(checkpoint: Checkpoint) -> None:
    connections: list[int] = []

    def script(clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        connections.append(len(connections))
        if len(connections) <= 2:
            yield picture_at(len(connections))
            clock.wait(stopped, 0.5)
        raise VideoError("camera: the connection was lost (unplugged)")

    session, outputs = begin(checkpoint, script, is_endless=True, options=LiveOptions(stall_s=20))
    run_to_end(session)
    assert session.problem == "camera: the connection was lost (unplugged)"
    assert len(connections) == 7, "two that work, then again after 1, 2, 4, 8 and 8 s"
    assert sum(not np.isnan(output.speak_prob) for output in outputs) == session.status.num_decided <= 2


def test_a_stall_of_an_hour_ends_the_session(checkpoint: Checkpoint) -> None:
    clock, has_picture = FakeClock(), Event()

    def script(_: Clock, stopped: Event) -> Iterator[np.ndarray]:
        yield PICTURE
        has_picture.set()
        assert stopped.wait(LIMIT_S)

    session, _ = begin(checkpoint, script, is_endless=True, clock=clock)
    session.start()
    assert has_picture.wait(LIMIT_S)
    session.check()
    assert session.problem == ""
    clock.advance(3600)
    session.check()
    assert session.ended.wait(LIMIT_S)
    assert session.problem == "camera: no picture for 30 s; check the source, then start again"
    with pytest.raises(ValueError, match="has ended"):
        session.ask("What is next?")
