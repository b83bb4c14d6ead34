"""Streams a video to a served model, frame by frame, and records its answers as a run."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from engine.control.task import Task
from engine.video.reader import Frame
from engine.video.stills import encode_jpeg
from eval.recorder import VideoRecorder
from eval.served.chat import ChatClient, Endpoint
from eval.served.prompts import Prompt, make_messages
from eval.served.video_chat import open_video_chat


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


class Answer(Protocol):
    """Puts a frame to an open model."""

    def __call__(self, picture: bytes, *, time_s: float, user: Sequence[str], history: Sequence[str]) -> str:
        """Return the answer to the picture, the user's new words and the earlier answers."""


@contextmanager
def open_model(served: Served, task: Task) -> Iterator[Answer]:
    """Open a model for one video. Raises ``ServedModelError`` if it cannot be reached."""
    endpoint, prompt = served.endpoint, served.prompt
    if not endpoint.is_stream:
        pictures: list[bytes] = []
        with ChatClient(endpoint) as client:

            def poll(picture: bytes, *, time_s: float, user: Sequence[str], history: Sequence[str]) -> str:
                pictures.append(picture)
                del pictures[: -prompt.num_pictures]
                text = prompt.fill(task, time_s=time_s, user=user, history=history)
                return client.complete(make_messages(text, pictures), max_tokens=served.max_tokens)

            yield poll
        return
    with open_video_chat(endpoint) as chat:

        def query(picture: bytes, *, time_s: float, user: Sequence[str], history: Sequence[str]) -> str:
            chat.send_frame(picture, time_s=time_s)
            return chat.query(prompt.fill(task, time_s=time_s, user=user, history=history))

        yield query


def stream_video(
    served: Served,
    frames: Iterable[Frame],
    task: Task,
    video: VideoRecorder,
    *,
    fps: float,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Put each frame to the model and record its answer; return the number of frames that were left out.

    A user turn is asked at the first frame at or after its time. Raises ``ServedModelError``.
    """
    history, num_late, asked = list[str](), 0, 0
    turns = sorted(task.user_turns, key=lambda turn: turn.time_s)
    with open_model(served, task) as answer:
        started_s = clock()
        for frame in frames:
            time_s = frame.index / fps
            if served.is_real_time:
                late_s = clock() - started_s - time_s
                if late_s >= 1 / fps:
                    num_late += 1
                    continue
                sleep(max(-late_s, 0.0))
            due = [turn.text for turn in turns[asked:] if turn.time_s <= time_s]
            asked += len(due)
            picture = encode_jpeg(frame.image, max_side=served.max_side)
            before_s = clock()
            text = answer(picture, time_s=time_s, user=due, history=history)
            latency_ms = 1000 * (clock() - before_s)
            is_silent = served.prompt.is_silence(text)
            history += [f"user: {words}" for words in due]
            history += [] if is_silent else [f"{time_s:g} s: {text.strip()}"]
            state, response = ("silent", None) if is_silent else ("respond", text.strip())
            video.frame(time_s, response=response, state=state, latency_ms=latency_ms)
    return num_late
