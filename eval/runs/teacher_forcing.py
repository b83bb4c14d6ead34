"""The teacher-forced pass: the model's probabilities at each frame and token while it is fed the reference.

The context has the layout of training and of the stream. A full context restarts from the schema prompt, as in a
stream. The frames after each response are read a second time without that response in the context.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from engine.config import StreamConfig
from engine.inference.readout import read_silence
from engine.model.checkpoint import Checkpoint
from engine.model.frame_encoder import FrameFeatures
from engine.model.kv_cache import KVCache
from engine.records import frame_at
from engine.training.trainer import IGNORE_INDEX, TrainingClip, TrainingSequence, TrainingTurn, build_sequence
from eval.data.samples import Sample
from eval.metrics.videollm_online import LiveTurn

Silence = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    """Probabilities of one reference response."""

    frame: int
    token_correct: tuple[bool, ...]
    token_nll: tuple[float, ...]
    late: tuple[Silence, ...]
    """Of the frames after it, up to the next response or the next restart of the context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """Probabilities between two restarts of the context."""

    silence_probs: tuple[Silence, ...]
    """Per frame."""
    responses: tuple[_Response, ...]


def read_live_turns(
    checkpoint: Checkpoint, config: StreamConfig, sample: Sample, frames: Iterable[FrameFeatures]
) -> tuple[LiveTurn, ...]:
    """Feed a sample's reference and its frames; return the probabilities of each reference response.

    The frames of a turn are those after the previous response, up to its own. Responses after the last frame are left
    out.

    Args:
        checkpoint: Checkpoint from ``load_model``.
        config: Context sizes and decision policy of the stream.
        sample: The reference.
        frames: Encoded frames of its video at its frame rate.
    """
    segments = list(_read_segments(checkpoint, config, sample, iter(frames)))
    silence_probs = [silence for segment in segments for silence in segment.silence_probs]
    responses = [response for segment in segments for response in segment.responses]
    turns, first = [], 0
    for index, response in enumerate(responses):
        following = responses[index + 1].frame if index + 1 < len(responses) else response.frame
        fresh = silence_probs[response.frame + 1 + len(response.late) : following + 1]  # read without the answer anyway
        turns.append(_make_live_turn(silence_probs[first : response.frame + 1], response, [*response.late, *fresh]))
        first = response.frame + 1
    return tuple(turns)


def _make_live_turn(silence_probs: list[Silence], response: _Response, late: list[Silence]) -> LiveTurn:
    return LiveTurn(
        silent_prob=tuple(silent for silent, _ in silence_probs),
        other_prob=tuple(other for _, other in silence_probs),
        token_correct=response.token_correct,
        token_nll=response.token_nll,
        late_silent_prob=tuple(silent for silent, _ in late),
        late_other_prob=tuple(other for _, other in late),
    )


def _read_segments(
    checkpoint: Checkpoint, config: StreamConfig, sample: Sample, frames: Iterator[FrameFeatures]
) -> Iterator[_Segment]:
    """Yield the probabilities of consecutive segments of frames, each as long as the context permits."""
    per_frame, first = checkpoint.model.tokens_per_frame, 0
    waiting = list(islice(frames, config.max_seq_len // per_frame))
    while waiting:
        clip = _make_clip(sample, num_frames=first + len(waiting))
        sequence = build_sequence(clip, checkpoint.prompt, tokens_per_frame=per_frame, first_frame=first)
        count = next((n for n, end in enumerate(sequence.ends, 1) if end >= config.refresh_at), len(waiting))
        yield _read_segment(
            checkpoint, config, sequence, torch.stack([frame.features for frame in waiting[:count]]), first
        )
        waiting = [*waiting[count:], *islice(frames, count)]
        first += count


def _make_clip(sample: Sample, *, num_frames: int) -> TrainingClip:
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
    checkpoint: Checkpoint, config: StreamConfig, sequence: TrainingSequence, features: Tensor, first: int
) -> _Segment:
    """Feed one segment, then the frames after each response without that response.

    The responses are processed from the last to the first, so that each needs one crop of the cache. For the context
    ``F F [hello] F F [done] F``, the cache is cropped before ``[done]`` and the last ``F`` is fed, then cropped before
    ``[hello]`` and the two ``F`` after it are fed.
    """
    model, cache = checkpoint.model, KVCache(checkpoint.model.num_layers)
    length = sequence.ends[len(features) - 1]
    ids = torch.tensor(sequence.ids[:length], device=model.device)
    inputs = model.embed_tokens(ids).clone()
    inputs[torch.tensor(sequence.frames[:length]) != IGNORE_INDEX] = model.embed_frames(features).flatten(0, 1)
    hidden = model(inputs[None], cache)[0]

    def read_silences(states: Tensor) -> tuple[Silence, ...]:
        silent_id = config.policy.token_to_read(checkpoint.silent_id)
        return tuple(read_silence(model, states, silent_id=silent_id)) if len(states) else ()

    decision_positions = [position for position in range(length) if sequence.speak[position] != IGNORE_INDEX]
    spans = list(_response_spans(sequence, checkpoint.prompt.response_id, length))
    responses: list[_Response] = []
    for index, span in reversed(list(enumerate(spans))):
        until = spans[index + 1].start if index + 1 < len(spans) else length
        cache.crop_to(span.start)
        after = [position for position in decision_positions if span.stop <= position < until]
        late = model(inputs[None, span.stop : after[-1] + 1], cache)[0] if after else inputs[:0]
        targets = torch.tensor(sequence.targets[span.start : span.stop - 1], device=model.device)
        logits = model.token_logits(hidden[span.start : span.stop - 1])
        nll = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        responses.append(
            _Response(
                frame=first + sum(position < span.start for position in decision_positions) - 1,
                token_correct=tuple((logits.argmax(-1) == targets).tolist()),
                token_nll=tuple(nll.tolist()),
                late=read_silences(late[[position - span.stop for position in after]]),
            )
        )
    return _Segment(silence_probs=read_silences(hidden[decision_positions]), responses=tuple(reversed(responses)))


def _response_spans(sequence: TrainingSequence, response_id: int, length: int) -> Iterator[range]:
    """Yield the positions of each response, from its first token to its ``<eos>``."""
    start = 0
    while start < length:
        stop = start + 1
        if sequence.ids[start] == response_id and sequence.targets[start] != IGNORE_INDEX:
            while sequence.targets[stop] != IGNORE_INDEX:
                stop += 1
            stop += 1
            yield range(start, stop)
        start = stop
