"""Prompts of questions: the context of a run up to a frame, then the conversation. No torch.

A prompt is a tuple of pieces. A piece is a token id, or the content digest of a picture, which stands for its
``tokens_per_frame`` tokens. Two videos with equal ids but other pixels therefore have different prompts.

A turn of a conversation is ``[user turn][pictures][ASST] answer <eos>``. The model was trained on user turns that
precede an image, so a question about a video carries the frame at the playhead.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.config import StreamConfig
from engine.control.context import EVICTING
from engine.control.prompt_codec import PromptCodec
from engine.control.task import Task
from engine.dialogue import initial_state
from engine.plurals import format_count
from engine.records import Forgotten, FrameOutput, frame_at

ContextPiece = int | str
"""A token id, or the content digest of a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTurn:
    """One question and its answer."""

    question: str
    pictures: tuple[str, ...] = ()
    """Content digests of the pictures after the question, in order."""
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
    codec: PromptCodec,
    task: Task,
    outputs: Sequence[FrameOutput],
    *,
    config: StreamConfig,
    digests: Sequence[str],
) -> tuple[ContextPiece, ...]:
    """Return the context of a run after its last output: schema prompt, user turns, frames, updates and responses.

    Of a context that was cut, it has the frames that were kept; they are read again, without the dropped ones.

    Args:
        codec: Texts to ids.
        task: The task of the run.
        outputs: The outputs up to the playhead, from frame 0.
        config: Settings of the run.
        digests: Content digest of each frame.

    Raises:
        ValueError: Fewer digests than outputs.
    """
    if len(digests) < len(outputs):
        raise ValueError(f"the video has only {format_count(len(digests), 'frame')} now; the run has {len(outputs)}")
    state: Mapping[str, str] = initial_state(task.steps, task.initial_state)
    texts: defaultdict[int, list[str]] = defaultdict(list)
    for turns in (task.user_turns, task.questions):
        for turn in sorted(turns, key=lambda turn: turn.time_s):
            texts[frame_at(turn.time_s, config.fps)].append(turn.text)
    user_ids = {frame: codec.user_turns(turns) for frame, turns in texts.items()}
    end = _end_of_turn(codec)
    prompt = codec.schema(goal=task.goal, steps=task.steps, state=state)
    frames: dict[int, list[ContextPiece]] = {}  # the pieces of each frame in the context
    num_tokens = 0
    for output, digest in zip(outputs, digests, strict=False):
        if output.refreshed:
            waiting = _waiting_ids(frames, num_tokens, output.forgotten)
            frames = _keep_frames(frames, output.forgotten, config)
            if config.context_strategy == "drop-all":
                prompt = waiting
            elif config.context_strategy not in EVICTING:
                summary = None if output.forgotten is None else output.forgotten.summary
                prompt = codec.schema(goal=task.goal, steps=task.steps, state=state, summary=summary)
        question = user_ids.get(output.frame_index, ())
        pieces = frames[output.frame_index] = list[ContextPiece]()
        pieces += [digest] if codec.answers_user_turns else [*question, digest]
        for update in output.updates:
            pieces += [*codec.update_opening, *codec.words(update), *end]
        if output.response is not None:
            opening = (codec.answers_user_turns and question) or codec.response_opening
            pieces += [*opening, *codec.words(output.response), *end, *codec.stream_opening]
        else:
            pieces += codec.frame_separator
        state, num_tokens = output.dst_state, output.cache_tokens
    return (*prompt, *(piece for pieces in frames.values() for piece in pieces))


def _waiting_ids(
    frames: Mapping[int, list[ContextPiece]], num_tokens: int, forgotten: Forgotten | None
) -> tuple[int, ...]:
    """Return the last ids that were not fed when a context was cut, such as ``<eos>``; ``drop-all`` keeps them."""
    last = [*frames.values()][-1] if frames else []
    count = 0 if forgotten is None else num_tokens - forgotten.tokens
    return tuple(piece for piece in last[-count:] if isinstance(piece, int)) if count > 0 else ()


def _keep_frames(
    frames: Mapping[int, list[ContextPiece]], forgotten: Forgotten | None, config: StreamConfig
) -> dict[int, list[ContextPiece]]:
    """Return the frames that an evicting strategy kept whole; no frame for all other strategies."""
    if config.context_strategy not in EVICTING or forgotten is None:
        return {}
    if forgotten.first_frame is None or forgotten.last_frame is None:
        return dict(frames)
    first, last = forgotten.first_frame, forgotten.last_frame
    return {frame: pieces for frame, pieces in frames.items() if not first <= frame <= last}


def _end_of_turn(codec: PromptCodec) -> tuple[int, ...]:
    return (codec.eos_id,) if codec.feeds_eos else ()


def render_conversation(
    codec: PromptCodec, conversation: Conversation, *, base: Sequence[ContextPiece]
) -> tuple[ContextPiece, ...]:
    """Return the prompt of a conversation after ``base``; its open question ends with the token of a response."""
    pieces = list(base)
    for turn in conversation.turns:
        opening = () if codec.answers_user_turns else codec.response_opening
        pieces += [*codec.user_turns([turn.question]), *turn.pictures, *opening]
        if turn.answer is not None:
            pieces += [*codec.words(turn.answer), *_end_of_turn(codec)]
    return tuple(pieces)
