"""Prompts of questions: the context of a run up to a frame, then the conversation. No torch.

A prompt is a tuple of pieces. A piece is a token id, or the name of a picture: its tokens, and the digest of its
content, such as ``66-3f2a...``. Two videos with equal ids but other pixels therefore have different prompts.

A turn of a conversation is ``[user turn][pictures][ASST] answer <eos>``, or ``[pictures][user turn] answer <eos>`` for
a model that answers behind the image. A question about a video carries the frame at the playhead.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.context import EVICTING, keeps_head
from stepscope.engine.control.prompt_codec import PromptCodec
from stepscope.engine.control.questions import StateReader
from stepscope.engine.control.task import Task
from stepscope.engine.decisions.signals import SILENCE
from stepscope.engine.dialogue import initial_state
from stepscope.engine.plurals import format_count
from stepscope.engine.records import GAP_REASONS, FrameOutput, frame_at

ContextPiece = int | str
"""A token id, or the name of a picture."""


def count_tokens(pieces: Iterable[ContextPiece]) -> int:
    """Return the number of tokens of pieces."""
    return sum(int(piece.partition("-")[0]) if isinstance(piece, str) else 1 for piece in pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTurn:
    """One question and its answer."""

    question: str
    pictures: tuple[str, ...] = ()
    """Names of the pictures after the question, in order."""
    answer: str | None = None
    """None while it is open. A stopped answer is the text up to the stop."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """An immutable conversation: an edit returns a new one, so the earlier one remains as a branch."""

    turns: tuple[ChatTurn, ...] = ()

    def ask(self, question: str, *, pictures: Sequence[str] = ()) -> "Conversation":
        """Return the conversation with a further question. Raises ``ValueError`` for a blank one."""
        if not question.strip():
            raise ValueError("the question is empty; type one")
        if self.turns and self.turns[-1].answer is None:
            raise ValueError("the last question has no answer yet; wait for it or stop it")
        return Conversation((*self.turns, ChatTurn(question=question.strip(), pictures=tuple(pictures))))

    def answered(self, text: str) -> "Conversation":
        """Return the conversation with the answer to its open question. Raises ``ValueError`` without one."""
        if not self.turns or self.turns[-1].answer is not None:
            raise ValueError("there is no open question")
        return Conversation((*self.turns[:-1], replace(self.turns[-1], answer=text)))

    def edit(self, index: int, question: str) -> "Conversation":
        """Return the conversation before a turn with a new question there. Raises ``ValueError`` without it."""
        self._check(index)
        return Conversation(self.turns[:index]).ask(question, pictures=self.turns[index].pictures)

    def regenerate(self) -> "Conversation":
        """Return the conversation with its last question open again. Raises ``ValueError`` without a turn."""
        self._check(len(self.turns) - 1)
        return Conversation((*self.turns[:-1], replace(self.turns[-1], answer=None)))

    def _check(self, index: int) -> None:
        if not 0 <= index < len(self.turns):
            raise ValueError(f"there is no turn {index}; the conversation has {len(self.turns)}")


def render_run(
    codec: PromptCodec, task: Task, outputs: Sequence[FrameOutput], *, config: StreamConfig, pictures: Sequence[str]
) -> tuple[ContextPiece, ...]:
    """Return the context of a run after its last output: schema prompt, user turns, frames, updates and responses.

    Of a context that was cut, it has the frames that were kept; they are read again, without the dropped ones.
    ``outputs`` are those up to the playhead, from frame 0; ``pictures`` names the picture of each frame.

    Raises:
        ValueError: Fewer pictures than outputs.
    """
    if len(pictures) < len(outputs):
        raise ValueError(f"the video has only {format_count(len(pictures), 'frame')} now; the run has {len(outputs)}")
    state: Mapping[str, str] = initial_state(task.steps, task.initial_state)
    user_texts = _list_user_turns(task, fps=config.fps)
    first_question = min(user_texts, default=None)
    states = StateReader(config, codec) if config.policy.reads_states else None
    codec = states.codec if states else codec
    end = _end_of_turn(codec)
    max_fed = None if codec.feeds_last_token else config.max_new_tokens - 1
    # one entry per token: a picture is its name and Nones, so that a cut through it leaves Nones only
    system = partial(codec.schema, goal=task.goal, steps=task.steps, instructions=config.system_prompt)
    context: list[ContextPiece | None] = [*system(state=state)]
    head = 0 if config.context_strategy == "drop-all" else len(context)  # tokens before a part that is dropped
    num_tokens = 0
    size = count_tokens(pictures[:1])
    for output, name in zip(outputs, pictures, strict=False):
        if output.state in GAP_REASONS and math.isnan(output.speak_prob):  # of a live session, which did not feed it
            continue
        if output.refreshed:
            forgotten = output.forgotten
            if forgotten is not None and config.context_strategy in (*EVICTING, "drop-all"):
                # counted from the end, since texts with other tokens than those of the stream shift the beginning
                num_last = num_tokens - forgotten.tokens - head
                del context[head : len(context) - num_last]
            else:
                summary = None if forgotten is None else forgotten.summary
                context = [*system(state=state, summary=summary)]
        texts = user_texts.get(output.frame_index, [])
        turns = () if codec.answers_user_turns else texts
        context += codec.before_image(turns, config.text_before(output.frame_index), after=context)
        context += [name, *[None] * (size - 1)]
        for update in () if config.policy.source == "answer" else output.updates:  # answers are not in the context
            context += [*codec.update_opening, *codec.words(update), *end]
        if output.response is not None:
            opening = codec.user_turns(texts) if texts and codec.answers_user_turns else codec.response_opening
            context += [*opening, *codec.words(output.response)[:max_fed], *end, *codec.stream_opening]
        else:
            context += states.separators[output.state or SILENCE] if states else codec.frame_separator
        state, num_tokens = output.dst_state, output.cache_tokens
        if output.frame_index == first_question and keeps_head(num_tokens, config, tokens_per_frame=size):
            head = len(context)
    return tuple(piece for piece in context if piece is not None)


def _list_user_turns(task: Task, *, fps: float) -> dict[int, list[str]]:
    texts: defaultdict[int, list[str]] = defaultdict(list)
    for turns in (task.user_turns, task.questions):
        for turn in sorted(turns, key=lambda turn: turn.time_s):
            texts[frame_at(turn.time_s, fps)].append(turn.text)
    return dict(texts)


def _end_of_turn(codec: PromptCodec) -> tuple[int, ...]:
    return (codec.eos_id,) if codec.feeds_eos else ()


def render_conversation(
    codec: PromptCodec, conversation: Conversation, *, base: Sequence[ContextPiece]
) -> tuple[ContextPiece, ...]:
    """Return the prompt of a conversation after ``base``; its open question ends with the token of a response."""
    pieces = list(base)
    for turn in conversation.turns:
        if codec.answers_user_turns:
            pieces += [*turn.pictures, *codec.user_turns([turn.question])]
        elif turn.pictures:
            question = codec.user_turns([turn.question], after=pieces)
            pieces += [*question, *turn.pictures, *codec.response_opening]
        else:
            pieces += codec.question(turn.question, after=pieces)
        if turn.answer is not None:
            pieces += [*codec.words(turn.answer), *_end_of_turn(codec), *codec.stream_opening]
    return tuple(pieces)
