"""Streams a video to a served model, frame by frame, and records its answers as a run."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from stepscope.engine.control.task import Task
from stepscope.engine.video.reader import Frame
from stepscope.engine.video.stills import encode_jpeg
from stepscope.eval.recorder import VideoRecorder
from stepscope.eval.served.answer_log import AnswerLog, KeptAnswer
from stepscope.eval.served.chat import ChatClient, Endpoint
from stepscope.eval.served.prompts import Prompt, make_messages
from stepscope.eval.served.video_chat import open_video_chat


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A served model and how it is used."""

    endpoint: Endpoint
    """Address and limits. An address ``ws://`` or ``wss://`` is a session of vLLM-Omni; any other is polled."""
    prompt: Prompt = field(default_factory=Prompt)
    max_tokens: int = 128
    """Longest answer of a polled model, in tokens."""
    max_side: int = 512
    """Longest side of a picture that is sent, in pixels."""
    is_real_time: bool = False
    """Whether frames are sent at their times; a frame that is late by its length or more is left out."""


class Model(Protocol):
    """An open model, which sees each frame and is asked after it."""

    def see(self, picture: bytes, *, time_s: float) -> None:
        """Show a picture, without a question."""

    def ask(self, text: str) -> str:
        """Return the answer to a text about the pictures so far."""


class _PolledModel:
    """An endpoint that gets the latest pictures with each text."""

    def __init__(self, client: ChatClient, served: Served) -> None:
        self._client, self._max_tokens = client, served.max_tokens
        self._pictures: deque[bytes] = deque(maxlen=served.prompt.num_pictures)

    def see(self, picture: bytes, *, time_s: float) -> None:
        self._pictures.append(picture)

    def ask(self, text: str) -> str:
        return self._client.complete(make_messages(text, tuple(self._pictures)), max_tokens=self._max_tokens)


@contextmanager
def open_model(served: Served) -> Iterator[Model]:
    """Open a model for one video. Raises ``ServedModelError`` if it cannot be reached."""
    if served.endpoint.is_stream:
        with open_video_chat(served.endpoint) as chat:
            yield chat
        return
    with ChatClient(served.endpoint) as client:
        yield _PolledModel(client, served)


def stream_video(
    served: Served,
    frames: Iterable[Frame],
    task: Task,
    video: VideoRecorder,
    *,
    fps: float,
    answers: AnswerLog,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Put each frame to the model and record its answer; return the number of frames that were left out.

    A user turn is asked at the first frame at or after its time. The model sees the frames of kept answers again,
    without a question, and is asked about the rest. Raises ``ServedModelError``.
    """
    history, num_late, asked = list[str](), 0, 0
    turns = sorted(task.user_turns, key=lambda turn: turn.time_s)
    with open_model(served) as model:
        started_s = None
        for frame in frames:
            time_s, kept = frame.index / fps, answers.find(frame.index)
            if kept is None and frame.index < answers.num_passed:
                num_late += 1
                continue
            if kept is None and served.is_real_time:
                started_s = clock() - time_s if started_s is None else started_s
                late_s = clock() - started_s - time_s
                if late_s >= 1 / fps:
                    num_late += 1
                    continue
                sleep(max(-late_s, 0.0))
            due = [turn.text for turn in turns[asked:] if turn.time_s <= time_s]
            asked += len(due)
            picture = encode_jpeg(frame.image, max_side=served.max_side)
            before_s = clock()
            model.see(picture, time_s=time_s)
            if kept is None:
                text = model.ask(served.prompt.fill(task, time_s=time_s, user=due, history=history))
                kept = KeptAnswer(frame_index=frame.index, text=text, latency_ms=1000 * (clock() - before_s))
                answers.add(kept)
            is_silent, text = served.prompt.is_silence(kept.text), kept.text.strip()
            history += [f"user: {words}" for words in due]
            history += [] if is_silent else [f"{time_s:g} s: {text}"]
            state, response = ("silent", None) if is_silent else ("respond", text)
            video.frame(time_s, response=response, state=state, latency_ms=kept.latency_ms)
    return num_late
