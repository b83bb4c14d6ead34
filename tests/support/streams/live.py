"""A fake clock and scripted sources for live sessions."""

from collections.abc import Callable, Iterator
from threading import Event, Lock, Semaphore

import numpy as np

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.live.session import LiveOptions, LiveSession
from stepscope.engine.live.sources import Clock
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.records import FrameOutput
from tests.support.streams.fakes import STEPS
from tests.support.streams.streams import SHORT

PICTURE = np.zeros((24, 32, 3), np.uint8)
LIMIT_S = 120.0  # a busy machine is no failure
TASK = Task(goal="build the toy truck", steps=STEPS)
SILENT = StreamConfig(speak_threshold=1, update_threshold=1, **SHORT)
NUM_FRAMES = 12


class FakeClock(Clock):
    """A clock that moves only when it is told to; waiting moves it."""

    def __init__(self) -> None:
        self._now, self._lock = 1000.0, Lock()

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._now += seconds

    def wait(self, event: Event, timeout_s: float) -> bool:
        self.advance(max(0.0, timeout_s))
        return event.is_set()


class ScriptedSource:
    """Runs a function that yields pictures; each connection calls it again."""

    def __init__(
        self, script: Callable[[Clock, Event], Iterator[np.ndarray]], *, is_endless: bool = True, name: str = "camera"
    ) -> None:
        self.name, self.is_endless, self.pixel_aspect, self._script = name, is_endless, 1.0, script
        self.num_connections = 0

    def pictures(self, clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        self.num_connections += 1
        yield from self._script(clock, stopped)


def run_to_end(session: LiveSession) -> None:
    """Run a session until it has ended by itself."""
    session.start()
    assert session.ended.wait(LIMIT_S)
    session.stop()


def picture_at(index: int) -> np.ndarray:
    return np.full((24, 32, 3), 20 * index % 256, np.uint8)


def begin(
    checkpoint: Checkpoint,
    script: Callable[[Clock, Event], Iterator[np.ndarray]],
    *,
    config: StreamConfig = SILENT,
    options: LiveOptions | None = None,
    is_endless: bool = False,
    clock: Clock | None = None,
    on_output: Callable[[FrameOutput], None] | None = None,
) -> tuple[LiveSession, list[FrameOutput]]:
    outputs: list[FrameOutput] = []

    def add(output: FrameOutput) -> None:
        outputs.append(output)
        if on_output is not None:
            on_output(output)

    source = ScriptedSource(script, is_endless=is_endless)
    session = LiveSession(
        checkpoint, source, task=TASK, config=config, options=options, clock=clock or FakeClock(), on_output=add
    )
    return session, outputs


class Paced:
    """A script that yields a picture each half second of the clock once the one before is decided."""

    def __init__(self, num_frames: int = NUM_FRAMES, *, before: Callable[[int], None] = lambda _: None) -> None:
        self._num_frames, self._before, self._decided = num_frames, before, Semaphore(1)

    def decide(self, _: FrameOutput) -> None:
        self._decided.release()

    def __call__(self, clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        for index in range(self._num_frames):
            while not self._decided.acquire(timeout=0.01):
                if stopped.is_set():
                    return
            self._before(index)
            yield picture_at(index)
            clock.wait(stopped, 0.5)
