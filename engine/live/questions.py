"""Questions that are asked while a stream runs, each answered at a frame of it. Any thread may ask."""

from collections.abc import Callable, Generator, Iterable
from contextlib import closing, nullcontext
from dataclasses import replace
from threading import Lock
from typing import Final

from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import UserTurn

MAX_WAITING_QUESTIONS: Final = 8
MAX_QUESTION_LENGTH: Final = 300


def check_question(text: str) -> str:
    """Return a question with single spaces. Raises ``ValueError`` if it is empty or too long."""
    text = " ".join(text.split())
    if not text:
        raise ValueError("the question is empty; type it first")
    if len(text) > MAX_QUESTION_LENGTH:
        raise ValueError(f"the question has {len(text)} characters; shorten it to {MAX_QUESTION_LENGTH}")
    return text


class AskedQuestions:
    """The questions of one stream: those that wait for their frame, and those that a frame has taken.

    The time of a question is ``frame / fps``. ``on_taken`` is called for each with this time, in the thread of the
    stream.
    """

    def __init__(self, *, fps: float, on_taken: Callable[[UserTurn], None] | None = None) -> None:
        self.turns: list[UserTurn] = []
        """The questions that a frame has taken, in order."""
        self._fps, self._on_taken = fps, on_taken
        self._waiting: list[tuple[int, str]] = []
        self._lock = Lock()

    def ask(self, text: str, *, frame: int = 0) -> None:
        """Ask a question: the first frame from ``frame`` on takes it. Raises ``ValueError`` if it cannot be asked."""
        text = check_question(text)
        with self._lock:
            if len(self._waiting) >= MAX_WAITING_QUESTIONS:
                raise ValueError(f"{MAX_WAITING_QUESTIONS} questions wait for a frame; wait for their answers")
            self._waiting.append((frame, text))

    def take(self, frame: int) -> tuple[str, ...]:
        """Return the questions that a frame answers, which wait no longer."""
        with self._lock:
            texts = tuple(text for first, text in self._waiting if first <= frame)
            self._waiting = [(first, text) for first, text in self._waiting if first > frame]
        for text in texts:
            turn = UserTurn(time_s=frame / self._fps, text=text)
            self.turns.append(turn)
            if self._on_taken is not None:
                self._on_taken(turn)
        return texts

    def take_waiting(self) -> tuple[str, ...]:
        """Return the questions that no frame has taken, which wait no longer."""
        with self._lock:
            texts, self._waiting = tuple(text for _, text in self._waiting), []
        return texts

    def attach(self, features: Iterable[FrameFeatures]) -> Generator[FrameFeatures]:
        """Yield the frames of a stored video, each with the questions that it takes; closing it closes ``features``."""
        with closing(features) if isinstance(features, Generator) else nullcontext():
            for frame in features:
                texts = self.take(frame.index)
                yield replace(frame, questions=(*frame.questions, *texts)) if texts else frame
