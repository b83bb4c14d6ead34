"""The teacher-forced pass: the model's probabilities at each frame and token while it is fed the reference.

The context has the layout of the stream, for the prompt of any model family. With every context strategy, a full
context restarts from the schema prompt. The frames after each response are read a second time without that response in
the context.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from stepscope.engine.config import StreamConfig
from stepscope.engine.inference.readout import read_silence
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.records import frame_at
from stepscope.engine.training.sequences import (
    IGNORE_INDEX,
    ContextRules,
    TrainingClip,
    TrainingSequence,
    TrainingTurn,
    build_sequence,
)
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.videollm_online import LiveTurn

Silence = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    """Probabilities of one reference response."""

    frame: int
    token_correct: tuple[bool, ...]
    token_nll: tuple[float, ...]
    late: tuple[Silence, ...]
    """Silence at the frames after it, read without it, up to the next response or restart of the context."""


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
        rules = ContextRules(refresh_at=config.refresh_at)
        context = build_sequence(clip, checkpoint.prompt, rules, tokens_per_frame=per_frame, first_frame=first)
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
    checkpoint: Checkpoint, config: StreamConfig, context: TrainingSequence, features: Tensor
) -> tuple[tuple[Silence, ...], list[_Response]]:
    """Feed one segment, then the frames after each response without that response.

    The responses are processed from the last to the first, so that each needs one crop of the cache. For the context
    ``F F [hello] F F [done] F``, the cache is cropped before ``[done]`` and the last ``F`` is fed, then cropped before
    ``[hello]`` and the two ``F`` after it are fed. A separator of frames takes the place of the response.
    """
    model, cache = checkpoint.model, KVCache(checkpoint.model.num_layers)
    inputs = model.embed_tokens(torch.tensor(context.ids, device=model.device)).clone()
    inputs[torch.tensor(context.frames) != IGNORE_INDEX] = model.embed_frames(features).flatten(0, 1)
    decisions = [position for position, label in enumerate(context.speak) if label != IGNORE_INDEX]
    separator = torch.tensor(checkpoint.prompt.frame_separator, dtype=torch.long, device=model.device)
    hidden = model(inputs[None], cache)[0]

    def read_silences(states: Tensor) -> tuple[Silence, ...]:
        silent_id = checkpoint.token_to_read(config.policy)
        return tuple(read_silence(model, states, silent_id=silent_id)) if len(states) else ()

    responses: list[_Response] = []
    for index, response in reversed(list(enumerate(context.responses))):
        until = context.responses[index + 1].start if index + 1 < len(context.responses) else len(context.ids)
        cache.crop_to(response.start)
        after = [position for position in decisions if response.stop <= position < until]
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
    return read_silences(hidden[decisions]), responses[::-1]
