"""Incremental payloads of a run that is still streaming: the player fetches the frames that it does not have yet.

It fetches them through a server function, because every Gradio event makes the browser update the whole page. An
increment contains the id of its stream. An increment from frame 0 also contains the head: the run without outputs, as
packed by ``app.player.display.payload``. The cost of an increment depends only on its number of frames.
"""

import json
import secrets
from bisect import bisect_left
from weakref import WeakValueDictionary

from app.player.display.payload import Packed, expected_frames, pack_outputs, pack_run, pack_turns
from app.player.session.run import Run
from engine.dialogue import STATES, initial_state
from engine.io import to_json
from engine.records import FrameOutput


class StreamIncrements:
    """The outputs of a streaming run. One thread adds outputs; any thread may read increments."""

    def __init__(self, run: Run) -> None:
        """Start with ``run``, which has no outputs."""
        self.stream = secrets.token_urlsafe(16)
        """Unguessable id of the stream, sent only to its window."""
        self.outputs = list[FrameOutput]()
        """The outputs so far, one per frame."""
        self._head: Packed = json.loads(pack_run(run))
        self._step_ids = [step.id for step in run.task.steps]
        self._initial = initial_state(run.task.steps, run.task.initial_state)
        self._expected = expected_frames(run.clip.sample) if run.clip.sample else None

    def add(self, output: FrameOutput) -> None:
        """Add the output of the next frame."""
        self.outputs.append(output)

    def since(self, first: int) -> str:
        """Return the increment of all frames from ``first`` on as JSON; it has the head if ``first`` is 0."""
        num_frames = len(self.outputs)
        return self._pack(min(max(0, first), num_frames), num_frames)

    def _pack(self, first: int, end: int) -> str:
        outputs = self.outputs[first:end]
        packed = {
            "stream": self.stream,
            **pack_outputs(outputs),
            "turns": pack_turns(outputs),
            "changes": self._changes(first, end),
            "expected": self._expected_within(first, end),
        }
        if first == 0:
            packed["head"] = self._head
        return to_json(packed)

    def _changes(self, first: int, end: int) -> list[tuple[int, int, int]]:
        """Return state changes as (index of the step, frame, index of the new state in ``STATES``).

        If the third step becomes ``in_progress`` at frame 7, the result contains ``(2, 7, 1)``.
        """
        changes = []
        before = self.outputs[first - 1].dst_state if first else self._initial
        for output in self.outputs[first:end]:
            for number, step_id in enumerate(self._step_ids):
                if output.dst_state[step_id] != before[step_id]:
                    changes.append((number, output.frame_index, STATES.index(output.dst_state[step_id])))
            before = output.dst_state
        return changes

    def _expected_within(self, first: int, end: int) -> Packed | None:
        if self._expected is None:
            return None
        return {
            name: frames[bisect_left(frames, first) : bisect_left(frames, end)]
            for name, frames in self._expected.items()
        }


class ActiveStreams:
    """Streams by id, held by weak references: a stream disappears with the window that owns it."""

    def __init__(self) -> None:
        """Start without streams."""
        self._streams = WeakValueDictionary[str, StreamIncrements]()

    def begin(self, run: Run) -> StreamIncrements:
        """Register and return the increments of a new run."""
        increments = StreamIncrements(run)
        self._streams[increments.stream] = increments
        return increments

    def since(self, stream: object, first: object) -> str | None:
        """Return the increment of a stream from a frame on, as JSON; None for an unknown or closed stream."""
        increments = self._streams.get(stream) if isinstance(stream, str) else None
        return increments.since(first) if increments is not None and isinstance(first, int) else None
