r"""A reference conversation as the context of a stream, for the prompt of any model family.

The tokens stand as a stream would feed them if the model wrote the reference. A family that answers each user turn at
once (VideoLLM-online) reads it with the next reference response, at the frame of that response. Worked example of such
a context, with ``#`` for an image::

    ... [ # , # ]\nAssistant: Go. <eos> \n[ # , #
    frames    0   1                         2   3
    response      ^ start    ^ text     stop ^
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from stepscope.engine.control.prompt_codec import PromptCodec
from stepscope.engine.training.sequences import TrainingClip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceResponse:
    """One reference response in a context; positions count tokens."""

    frame: int
    start: int
    """Position of the first token of its opening, right after the image and the updates of its frame."""
    stop: int
    """Position after its last token and those that open the frames again."""
    predictors: tuple[int, ...]
    """For each token of its text and its end, the position at which the model predicts it."""
    targets: tuple[int, ...]
    """These tokens."""


@dataclass(slots=True, kw_only=True)
class ReferenceContext:
    """Consecutive frames of a conversation as one context."""

    ids: list[int] = field(default_factory=list)
    """Token ids; 0 for the tokens of an image."""
    is_image: list[bool] = field(default_factory=list)
    """Whether each token belongs to an image."""
    decisions: list[int] = field(default_factory=list)
    """For each frame, the position of its last image token."""
    ends: list[int] = field(default_factory=list)
    """For each frame, the number of tokens up to its end."""
    responses: list[ReferenceResponse] = field(default_factory=list)

    def append(self, tokens: Sequence[int], *, is_image: bool = False) -> None:
        """Append tokens."""
        self.ids += tokens
        self.is_image += [is_image] * len(tokens)


def build_context(
    clip: TrainingClip, codec: PromptCodec, *, tokens_per_frame: int, first_frame: int, refresh_at: int
) -> ReferenceContext:
    """Return the frames of a clip from ``first_frame`` on, up to the first one that fills the context.

    The context is full when it has ``refresh_at`` tokens or more after a frame, as in a stream that refreshes.
    """
    context = ReferenceContext()
    context.append(codec.schema(goal=clip.goal, steps=clip.steps, state=clip.state_before(first_frame)))
    texts = clip.list_texts()
    questions: list[str] = []
    for frame in range(first_frame, clip.num_frames):
        questions += texts[frame, "user"]
        if not codec.answers_user_turns:
            context.append(codec.user_turns(questions, after=context.ids))
            questions = []
        context.append([0] * tokens_per_frame, is_image=True)
        context.decisions.append(len(context.ids) - 1)
        if codec.update_opening:
            for text in texts[frame, "update"]:
                _append_turn(context, codec, (*codec.update_opening, *codec.words(text)))
        for text in texts[frame, "assistant"]:
            opening = codec.user_turns(questions) if questions else codec.response_opening
            _append_response(context, codec, frame, opening, codec.words(text))
            questions = []
        if not texts[frame, "assistant"]:
            context.append(codec.frame_separator)
        context.ends.append(len(context.ids))
        if context.ends[-1] >= refresh_at:
            break
    return context


def _append_turn(context: ReferenceContext, codec: PromptCodec, tokens: Sequence[int]) -> None:
    context.append(tokens)
    if codec.feeds_eos:
        context.append([codec.eos_id])


def _append_response(
    context: ReferenceContext, codec: PromptCodec, frame: int, opening: Sequence[int], words: Sequence[int]
) -> None:
    start = len(context.ids)
    first = start + len(opening) - 1  # predicts the first word
    _append_turn(context, codec, (*opening, *words))
    context.append(codec.stream_opening)
    context.responses.append(
        ReferenceResponse(
            frame=frame,
            start=start,
            stop=len(context.ids),
            predictors=tuple(range(first, first + len(words) + 1)),
            targets=(*words, codec.eos_id),
        )
    )
