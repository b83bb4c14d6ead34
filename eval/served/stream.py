"""Streams a video to a served model, frame by frame, and records its answers as a run."""

import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.questions import SPEAK_QUESTION, list_update_questions
from stepscope.engine.control.task import Task
from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.video.reader import Frame
from stepscope.engine.video.stills import encode_jpeg
from stepscope.eval.recorder import VideoRecorder
from stepscope.eval.served.answer_log import AnswerLog, KeptAnswer
from stepscope.eval.served.answers import Completion
from stepscope.eval.served.chat import ChatClient, Endpoint, NoAnswerError
from stepscope.eval.served.probabilities import read_silence_prob, read_yes_prob
from stepscope.eval.served.prompts import CONTEXT, FramePrompt, make_messages
from stepscope.eval.served.video_chat import open_video_chat

NOT_SILENT: Final = "not_silent_prob"
YES_SPEAK: Final = "yes_speak_prob"
YES_UPDATE: Final = "yes_update_prob"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A served model and how it is used."""

    endpoint: Endpoint
    """Address and limits. An address ``ws://`` or ``wss://`` is a session of vLLM-Omni; any other is polled."""
    prompt: FramePrompt = field(default_factory=FramePrompt)
    max_side: int = 512
    """Longest side of a picture that is sent, in pixels."""
    config: StreamConfig = field(default_factory=StreamConfig)
    """Its thresholds are those of the signals, ``max_new_tokens`` is the longest answer of a polled model; with the
    policy ``answer``, questions may be asked."""
    asks: bool = False
    """Whether the model is asked questions at each frame; see ``can_ask``."""
    is_real_time: bool = False
    """Whether frames are sent at their times; a frame that is late by its length or more is left out."""

    @property
    def has_questions(self) -> bool:
        """Whether its policy reads answers to questions."""
        return self.config.policy.source == "answer"

    def describe_signals(self) -> tuple[SignalSpec, ...]:
        """Return the signals of a recording; they have no values where the server gives no probabilities."""
        missing = "vLLM-Omni's stream has no logprobs" if self.endpoint.is_stream else "the server gives no logprobs"
        speak = partial(SignalSpec, decides="speak", threshold=self.config.speak_threshold, missing=missing)
        update = partial(SignalSpec, decides="update", threshold=self.config.update_threshold, missing=missing)
        asked = (speak(name=YES_SPEAK, label="P(yes) to speak"), update(name=YES_UPDATE, label="P(yes) of steps"))
        return (speak(name=NOT_SILENT, label="1 - P(silence)"), *(asked if self.has_questions else ()))


class Model(Protocol):
    """An open model, which sees each frame and is asked after it."""

    def see(self, picture: bytes, *, time_s: float) -> None:
        """Show a picture, without a question."""

    def ask(self, text: str) -> Completion:
        """Return the answer to a text about the pictures so far."""

    def ask_yes(self, question: str) -> float:
        """Return the probability of yes to a question about the pictures so far; nan if it is unknown."""


class _PolledModel:
    """An endpoint that gets the latest pictures with each text."""

    def __init__(self, client: ChatClient, served: Served) -> None:
        self._client, self._max_tokens, self._prompt = client, served.config.max_new_tokens, served.prompt
        self._question_tokens = 1
        self._pictures: deque[bytes] = deque(maxlen=served.prompt.num_pictures)

    def see(self, picture: bytes, *, time_s: float) -> None:
        self._pictures.append(picture)

    def ask(self, text: str) -> Completion:
        answer = self._complete(text, self._max_tokens)
        if not answer.has_stopped:
            if self._prompt.read(answer.text) == ("silent", None):
                raise NoAnswerError(
                    f"the answer {answer.text!r} is cut, so it may not be silence; raise --max-new-tokens"
                )
            warnings.warn(
                f"an answer is cut at --max-new-tokens {self._max_tokens}; it may lack its end, or be reasoning",
                stacklevel=2,
            )
        return answer

    def ask_yes(self, question: str) -> float:
        """Return P(yes). A model that does not answer with its first token is given those of an answer."""
        try:
            answer = self._complete(question, self._question_tokens)
        except NoAnswerError:
            if self._question_tokens == self._max_tokens:
                raise
            answer = Completion(text="", has_stopped=False)
        if answer.has_stopped or answer.text.strip(".").casefold() in ("yes", "no"):
            return read_yes_prob(answer.tokens)
        if self._question_tokens == self._max_tokens:
            return math.nan
        self._question_tokens = self._max_tokens
        return self.ask_yes(question)

    def _complete(self, text: str, max_tokens: int) -> Completion:
        messages = make_messages(text, tuple(self._pictures), system=self._prompt.system)
        return self._client.complete(messages, max_tokens=max_tokens, needs_logprobs=True)


def can_ask(served: Served) -> bool:
    """Return whether there are questions, and the server gives the probabilities of answers, which one request shows.

    Raises ``ServedModelError`` if it cannot be reached.
    """
    if not served.has_questions or served.endpoint.is_stream:
        return False
    with open_model(served) as model:
        return not math.isnan(model.ask_yes("Is this a question? Answer yes or no."))


@contextmanager
def open_model(served: Served) -> Iterator[Model]:
    """Open a model for one video. Raises ``ServedModelError`` if it cannot be reached."""
    if served.endpoint.is_stream:
        with open_video_chat(served.endpoint, system=served.prompt.system) as chat:
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
    state = initial_state(task.steps, task.initial_state)
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
                fill = partial(FramePrompt.fill, task=task, time_s=time_s, user=due, history=history)
                answer = model.ask(fill(served.prompt))
                thought = answer.reasoning and replace(answer.reasoning, latency_ms=1000 * (clock() - before_s))
                signals = {NOT_SILENT: 1 - read_silence_prob(answer.tokens, served.prompt.silence)}
                updates: tuple[str, ...] = ()
                if served.asks:
                    about = fill(replace(served.prompt, template=CONTEXT))
                    of_questions, updates = _ask_questions(model, served.config, about, task, state)
                    signals |= of_questions
                known = {name: value for name, value in signals.items() if not math.isnan(value)}
                latency_ms = 1000 * (clock() - before_s)
                kept = KeptAnswer(
                    frame_index=frame.index,
                    text=answer.text,
                    latency_ms=latency_ms,
                    signals=known,
                    updates=updates,
                    reasoning=thought,
                )
                answers.add(kept)
            of_model, response = served.prompt.read(kept.text)
            history += [f"user: {words}" for words in due]
            history += [] if response is None else [f"{time_s:g} s: {response}"]
            for text in kept.updates:
                state = dict(apply_update(state, text).state)
            video.frame(
                time_s,
                response=response,
                state=of_model,
                latency_ms=kept.latency_ms,
                signals=kept.signals,
                updates=kept.updates,
                reasoning=kept.reasoning,
            )
    return num_late


def _ask_questions(
    model: Model, config: StreamConfig, about: str, task: Task, state: Mapping[str, str]
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Ask whether to speak, and about the steps; return P(yes) by signal, and the updates above their threshold."""
    questions = list_update_questions(task.steps, state)
    speak = model.ask_yes(about + SPEAK_QUESTION)
    probs = [model.ask_yes(about + question.text) for question in questions]
    known = [prob for prob in probs if not math.isnan(prob)]
    asked = sorted(zip(probs, questions, strict=True), key=lambda pair: -pair[0])
    updates = [question.update for prob, question in asked if prob > config.update_threshold]
    signals = {YES_SPEAK: speak, YES_UPDATE: max(known, default=math.nan)}
    return signals, tuple(updates[: config.max_updates_per_frame])
