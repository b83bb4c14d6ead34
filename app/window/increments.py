"""Incremental payloads of a run that is still streaming: the player fetches the frames that it does not have yet.

It fetches them through a server function, because every Gradio event makes the browser update the whole page. An
increment contains the id of its stream. An increment from frame 0 also contains the head: the run without outputs, as
packed by ``app.window.payload``. The cost of an increment depends only on its number of frames.
"""

import json
import secrets
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

from stepscope.app.core.run import Run
from stepscope.app.window import payload
from stepscope.engine.control.requests import TextProgress
from stepscope.engine.dialogue import STATES, initial_state
from stepscope.engine.io.files import to_json
from stepscope.engine.live.output_log import OutputLog
from stepscope.engine.records import FrameOutput, UserTurn, frame_at
from stepscope.eval.metrics.matched_video import JudgedVideo
from stepscope.eval.runs.folder import read_signal_specs

MAX_FRAMES: Final = 4096
"""Frames of one increment; a page that was asleep for hours gets the rest with the next ones."""


class StreamIncrements:
    """The outputs of a streaming run. One thread adds outputs; any thread may read increments."""

    def __init__(
        self,
        run: Run,
        *,
        outputs: list[FrameOutput] | OutputLog | None = None,
        user_turns: Sequence[UserTurn] = (),
        other: tuple[Run, JudgedVideo | None] | None = None,
    ) -> None:
        """Start with ``run``, which has no outputs.

        The list of ``user_turns`` has the questions that are asked meanwhile, and grows. A live session gives its
        ``outputs``, which it may keep in a file; the player then follows the latest frame. ``other`` is the run below.
        """
        self.stream = secrets.token_urlsafe(16)
        """Unguessable id of the stream, sent only to its window."""
        self.outputs = list[FrameOutput]() if outputs is None else outputs
        self.text_progress: TextProgress | None = None
        packed: payload.Packed = json.loads(payload.pack_run(run, other=other))
        self._head = packed | ({} if outputs is None else {"is_live": True})
        self._specs = read_signal_specs(run.settings)
        self._user_turns = user_turns
        self._fps = run.config.fps
        self._step_ids = [step.id for step in run.task.steps]
        self._initial = initial_state(run.task.steps, run.task.initial_state)
        self._expected = payload.expected_frames(run.reference) if run.reference else None

    def add(self, output: FrameOutput) -> None:
        """Add the output of the next frame."""
        self.outputs.append(output)

    def show_text(self, progress: TextProgress) -> None:
        """Show a response that is being generated, until its frame has an output."""
        self.text_progress = progress

    def since(self, first: int) -> str:
        """Return the increment of up to ``MAX_FRAMES`` frames from ``first`` on; it has the head if ``first`` is 0."""
        first = min(max(0, first), len(self.outputs))
        return self._pack(first, min(len(self.outputs), first + MAX_FRAMES))

    def _pack(self, first: int, end: int) -> str:
        outputs = self.outputs[first:end]
        packed = {
            "stream": self.stream,
            **payload.pack_outputs(outputs, before=self.outputs[first - 1].state if first else None),
            "named": payload.pack_values(self._specs, outputs),
            "turns": payload.pack_turns(outputs),
            "changes": self._changes(first, end),
            "expected": self._expected_within(first, end),
            "questions": self._questions(first, end),
            "progress": self._progress(end),
        }
        if first == 0:
            packed["head"] = self._head
        return to_json(packed)

    def _progress(self, end: int) -> payload.Packed | None:
        """Return the response that is being generated at the frame after the outputs; None without one."""
        progress = self.text_progress
        if progress is None or progress.frame_index < end:
            return None
        frame = progress.frame_index
        return {"role": "assistant", "frame": frame, "time": frame / self._fps, "text": progress.text}

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

    def _questions(self, first: int, end: int) -> list[payload.Packed]:
        """Return the questions at the frames from ``first`` to before ``end``."""
        frames = [(frame_at(turn.time_s, self._fps), turn) for turn in tuple(self._user_turns)]
        return [
            {"role": "user", "time": turn.time_s, "frame": frame, "text": turn.text, "is_given": True}
            for frame, turn in frames
            if first <= frame < end
        ]

    def _expected_within(self, first: int, end: int) -> payload.Packed | None:
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

    def begin(self, run: Run, **options: Any) -> StreamIncrements:
        """Register and return the increments of a new run; the options are those of ``StreamIncrements``."""
        increments = StreamIncrements(run, **options)
        self._streams[increments.stream] = increments
        return increments

    def since(self, stream: object, first: object) -> str | None:
        """Return the increment of a stream from a frame on, as JSON; None for an unknown or closed stream."""
        increments = self._streams.get(stream) if isinstance(stream, str) else None
        return increments.since(first) if increments is not None and isinstance(first, int) else None
