"""The teacher-forced pass: the model's probabilities at each frame and token while it is fed the reference.

The context has the layout of the stream, for the prompt of any model family. With every context strategy, a full
context restarts from the schema prompt. The frames after each response are read a second time without that response in
the context.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch import Tensor

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.prompt_codec import PromptCodec
from stepscope.engine.inference.readout import read_silence
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.records import frame_at
from stepscope.engine.training.sequences import TrainingClip, TrainingTurn
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.videollm_online import LiveTurn

Silence = tuple[float, float]


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


@dataclass(slots=True, kw_only=True)
class ReferenceContext:
    """Consecutive frames of a conversation as one context."""

    ids: list[int] = field(default_factory=list)
    """Token ids; 0 for the tokens of an image."""
    is_image: list[bool] = field(default_factory=list)
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
            context.append(codec.before_image(questions, after=context.ids))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    """Probabilities of one reference response."""

    frame: int
    token_correct: tuple[bool, ...]
    token_nll: tuple[float, ...]
    late: tuple[Silence, ...]
    """Of the frames after it, up to the next response or the next restart of the context."""


def check_positions(checkpoint: Checkpoint) -> None:
    """Raise ``ValueError`` for a model that gives an image's tokens positions of their own."""
    if checkpoint.model.place((0,), 0) is not None:
        raise ValueError(
            "the teacher-forced pass is for models whose tokens have consecutive positions; leave out --teacher-forced"
        )


def read_live_turns(
    checkpoint: Checkpoint, config: StreamConfig, sample: Sample, frames: Iterable[FrameFeatures]
) -> tuple[LiveTurn, ...]:
    """Feed a sample's reference and its frames; return the probabilities of each reference response.

    The frames of a turn are those after the previous response, up to its own. Responses after the last frame are left
    out.

    Raises as ``check_positions``.
    """
    check_positions(checkpoint)
    silence_probs, responses = list[Silence](), list[_Response]()
    for silences, said in _read_segments(checkpoint, config, sample, iter(frames)):
        silence_probs += silences
        responses += said
    turns, first = [], 0
    for index, response in enumerate(responses):
        following = responses[index + 1].frame if index + 1 < len(responses) else response.frame
        fresh = silence_probs[response.frame + 1 + len(response.late) : following + 1]  # read without the answer anyway
        learned, late = silence_probs[first : response.frame + 1], [*response.late, *fresh]
        turns.append(
            LiveTurn(
                silent_prob=tuple(silent for silent, _ in learned),
                other_prob=tuple(other for _, other in learned),
                token_correct=response.token_correct,
                token_nll=response.token_nll,
                late_silent_prob=tuple(silent for silent, _ in late),
                late_other_prob=tuple(other for _, other in late),
            )
        )
        first = response.frame + 1
    return tuple(turns)


def _read_segments(
    checkpoint: Checkpoint, config: StreamConfig, sample: Sample, frames: Iterator[FrameFeatures]
) -> Iterator[tuple[tuple[Silence, ...], list[_Response]]]:
    """Yield the probabilities of each frame and response between two restarts of the context."""
    per_frame, first = checkpoint.model.tokens_per_frame, 0
    waiting = list(islice(frames, config.max_seq_len // per_frame))
    while waiting:
        clip = make_clip(sample, num_frames=first + len(waiting))
        context = build_context(
            clip,
            checkpoint.prompt,
            tokens_per_frame=per_frame,
            first_frame=first,
            refresh_at=config.refresh_at,
        )
        count = len(context.ends)
        features = torch.stack([frame.features for frame in waiting[:count]])
        yield _read_segment(checkpoint, config, context, features)
        waiting = [*waiting[count:], *islice(frames, count)]
        first += count


def make_clip(sample: Sample, *, num_frames: int) -> TrainingClip:
    """Return the reference of a sample as a clip of its first ``num_frames`` frames, without later turns."""
    turns = (
        TrainingTurn(frame_index=frame_at(turn.time_s, sample.fps), role=turn.role, text=turn.text)
        for turn in sample.turns
    )
    return TrainingClip(
        goal=sample.goal,
        steps=sample.steps,
        turns=tuple(turn for turn in turns if turn.frame_index < num_frames),
        num_frames=num_frames,
        initial_state=sample.initial_state,
    )


@torch.inference_mode()
def _read_segment(
    checkpoint: Checkpoint, config: StreamConfig, context: ReferenceContext, features: Tensor
) -> tuple[tuple[Silence, ...], list[_Response]]:
    """Feed one segment, then the frames after each response without that response.

    The responses are processed from the last to the first, so that each needs one crop of the cache. For the context
    ``F F [hello] F F [done] F``, the cache is cropped before ``[done]`` and the last ``F`` is fed, then cropped before
    ``[hello]`` and the two ``F`` after it are fed. A separator of frames takes the place of the response.
    """
    model, cache = checkpoint.model, KVCache(checkpoint.model.num_layers)
    inputs = model.embed_tokens(torch.tensor(context.ids, device=model.device)).clone()
    inputs[torch.tensor(context.is_image)] = model.embed_frames(features).flatten(0, 1)
    separator = torch.tensor(checkpoint.prompt.frame_separator, dtype=torch.long, device=model.device)
    hidden = model(inputs[None], cache)[0]

    def read_silences(states: Tensor) -> tuple[Silence, ...]:
        silent_id = checkpoint.token_to_read(config.policy)
        return tuple(read_silence(model, states, silent_id=silent_id)) if len(states) else ()

    responses: list[_Response] = []
    for index, response in reversed(list(enumerate(context.responses))):
        until = context.responses[index + 1].start if index + 1 < len(context.responses) else len(context.ids)
        cache.crop_to(response.start)
        after = [position for position in context.decisions if response.stop <= position < until]
        late = inputs[:0]
        if after:
            fed = torch.cat([model.embed_tokens(separator), inputs[response.stop : after[-1] + 1]])
            late = model(fed[None], cache)[0, len(separator) :]
        targets = torch.tensor(response.targets, device=model.device)
        logits = model.token_logits(hidden[list(response.predictors)])
        nll = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        responses.append(
            _Response(
                frame=response.frame,
                token_correct=tuple((logits.argmax(-1) == targets).tolist()),
                token_nll=tuple(nll.tolist()),
                late=read_silences(late[[position - response.stop for position in after]]),
            )
        )
    return read_silences(hidden[context.decisions]), responses[::-1]
