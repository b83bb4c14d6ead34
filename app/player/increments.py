"""Packs a run that is still streaming: the player asks for the frames that it does not have yet.

It asks outside of Gradio's events, each of which makes the browser work on the whole page. An increment names its
stream. The one from frame 0 on also holds the head: the run without outputs, as ``app.player.payload`` packs it. The
work for an increment follows from the number of its frames alone.
"""

import json
import secrets
from bisect import bisect_left
from weakref import WeakValueDictionary

from app.player.payload import Packed, expected_frames, pack_outputs, pack_run, pack_turns
from app.player.session.run import Run, UpdateJudge
from engine.dialogue import STATES, UpdateLegality, initial_state
from engine.io import to_json
from engine.records import FrameOutput


class Increments:
    """A run that streams. One thread adds outputs; any thread may ask for the frames since one."""

    def __init__(self, run: Run) -> None:
        """Begin with ``run``, which has no outputs."""
        self.stream = secrets.token_urlsafe(16)
        """Name of the stream; only the window that it is sent to knows it."""
        self.outputs = list[FrameOutput]()
        """The outputs so far, one per frame."""
        self._verdicts = list[tuple[UpdateLegality, ...]]()
        self._judge = UpdateJudge(run)
        self._head: Packed = json.loads(pack_run(run))
        self._step_ids = [step.id for step in run.task.steps]
        self._initial = initial_state(run.task.steps, run.task.initial_state)
        self._expected = expected_frames(run.clip.sample) if run.clip.sample else None

    def add(self, output: FrameOutput) -> None:
        """Add the output of the next frame."""
        self._verdicts.append(self._judge.judge(output))
        self.outputs.append(output)

    def since(self, first: int) -> str:
        """Return the increment of all frames from ``first`` on as JSON text; from 0 on it has the head."""
        num_frames = len(self.outputs)
        return self._pack(min(max(0, first), num_frames), num_frames)

    def _pack(self, first: int, end: int) -> str:
        outputs = self.outputs[first:end]
        packed = {
            "stream": self.stream,
            **pack_outputs(outputs),
            "turns": pack_turns(zip(outputs, self._verdicts[first:end], strict=True)),
            "changes": self._changes(first, end),
            "expected": self._expected_within(first, end),
        }
        if first == 0:
            packed["head"] = self._head
        return to_json(packed)

    def _changes(self, first: int, end: int) -> list[tuple[int, int, int]]:
        """Return the changes of state: position of the step, frame, and index of its new state into ``STATES``."""
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


class Streams:
    """The runs that stream now, by name. A run is forgotten with the window that it belongs to."""

    def __init__(self) -> None:
        """Begin with none."""
        self._streams = WeakValueDictionary[str, Increments]()

    def begin(self, run: Run) -> Increments:
        """Return the increments of a run that begins."""
        increments = Increments(run)
        self._streams[increments.stream] = increments
        return increments

    def since(self, stream: object, first: object) -> str | None:
        """Return the increment of a stream from a frame on, as JSON text; None for a stream that is no more."""
        increments = self._streams.get(stream) if isinstance(stream, str) else None
        return increments.since(first) if increments is not None and isinstance(first, int) else None
