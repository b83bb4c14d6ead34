"""The teacher-forced pass: what the model thought at each frame and token while it was fed the reference.

The context is laid out as in training, which is as the stream lays it out; when it is full it begins anew from the
schema prompt, as a stream does. Per response the frames after it are read once more with the answer withheld.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from engine.model.kv_cache import KVCache
from engine.model.checkpoint import Checkpoint
from engine.config import StreamConfig
from engine.inference.readout import read_silence
from engine.records import frame_at
from engine.training.trainer import IGNORE_INDEX, TrainingClip, TrainingSequence, TrainingTurn, build_sequence
from engine.model.frame_encoder import FrameFeatures
from eval.metrics.videollm_online import LiveTurn
from eval.data.samples import Sample

Silence = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    """One reference response, read."""

    frame: int
    token_correct: tuple[bool, ...]
    token_nll: tuple[float, ...]
    late: tuple[Silence, ...]
    """Of the frames after it, up to the next response or to where the context began anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """What was read between two fresh starts of the context."""

    silences: tuple[Silence, ...]
    """Per frame."""
    responses: tuple[_Response, ...]


def live_turns(
    checkpoint: Checkpoint, config: StreamConfig, sample: Sample, frames: Iterable[FrameFeatures]
) -> tuple[LiveTurn, ...]:
    """Feed a sample's reference and its frames; return what was thought during each reference response.

    A turn's frames are those after the response before it, up to its own. Responses past the last frame are left out.

    Args:
        checkpoint: What ``load_model`` returned.
        config: Context sizes and decision policy of the stream.
        sample: The reference.
        frames: Encoded frames of its video at its frame rate.
    """
    segments = list(_segments(checkpoint, config, sample, iter(frames)))
    silences = [silence for segment in segments for silence in segment.silences]
    responses = [response for segment in segments for response in segment.responses]
    turns, first = [], 0
    for index, response in enumerate(responses):
        following = responses[index + 1].frame if index + 1 < len(responses) else response.frame
        fresh = silences[response.frame + 1 + len(response.late) : following + 1]  # read without the answer anyway
        turns.append(_live_turn(silences[first : response.frame + 1], response, [*response.late, *fresh]))
        first = response.frame + 1
    return tuple(turns)


def _live_turn(silences: list[Silence], response: _Response, late: list[Silence]) -> LiveTurn:
    return LiveTurn(
        silent_prob=tuple(silent for silent, _ in silences),
        other_prob=tuple(other for _, other in silences),
        token_correct=response.token_correct,
        token_nll=response.token_nll,
        late_silent_prob=tuple(silent for silent, _ in late),
        late_other_prob=tuple(other for _, other in late),
    )


def _segments(
    checkpoint: Checkpoint, config: StreamConfig, sample: Sample, frames: Iterator[FrameFeatures]
) -> Iterator[_Segment]:
    """Read stretches of frames that fit the context, one after the other."""
    per_frame, first = checkpoint.model.tokens_per_frame, 0
    waiting = list(islice(frames, config.max_seq_len // per_frame))
    while waiting:
        clip = _clip(sample, num_frames=first + len(waiting))
        sequence = build_sequence(clip, checkpoint.prompt, tokens_per_frame=per_frame, first_frame=first)
        count = next((n for n, end in enumerate(sequence.ends, 1) if end >= config.refresh_at), len(waiting))
        yield _read(checkpoint, config, sequence, torch.stack([frame.features for frame in waiting[:count]]), first)
        waiting = [*waiting[count:], *islice(frames, count)]
        first += count


def _clip(sample: Sample, *, num_frames: int) -> TrainingClip:
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
def _read(
    checkpoint: Checkpoint, config: StreamConfig, sequence: TrainingSequence, features: Tensor, first: int
) -> _Segment:
    """Feed one segment, then, backwards, each response's frames without it."""
    model, cache = checkpoint.model, KVCache(checkpoint.model.num_layers)
    length = sequence.ends[len(features) - 1]
    ids = torch.tensor(sequence.ids[:length], device=model.device)
    inputs = model.embed_tokens(ids).clone()
    inputs[torch.tensor(sequence.frames[:length]) != IGNORE_INDEX] = model.embed_frames(features).flatten(0, 1)
    hidden = model(inputs[None], cache)[0]

    def silences(states: Tensor) -> tuple[Silence, ...]:
        policy, silent_id = config.decision_policy, checkpoint.silent_id
        return tuple(read_silence(model, states, policy=policy, silent_id=silent_id)) if len(states) else ()

    looks = [position for position in range(length) if sequence.speak[position] != IGNORE_INDEX]
    spans = list(_response_spans(sequence, checkpoint.prompt.response_id, length))
    responses: list[_Response] = []
    for index, span in reversed(list(enumerate(spans))):
        until = spans[index + 1].start if index + 1 < len(spans) else length
        cache.crop_to(span.start)
        after = [position for position in looks if span.stop <= position < until]
        late = model(inputs[None, span.stop : after[-1] + 1], cache)[0] if after else inputs[:0]
        targets = torch.tensor(sequence.targets[span.start : span.stop - 1], device=model.device)
        logits = model.token_logits(hidden[span.start : span.stop - 1])
        nll = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        responses.append(
            _Response(
                frame=first + sum(position < span.start for position in looks) - 1,
                token_correct=tuple((logits.argmax(-1) == targets).tolist()),
                token_nll=tuple(nll.tolist()),
                late=silences(late[[position - span.stop for position in after]]),
            )
        )
    return _Segment(silences=silences(hidden[looks]), responses=tuple(reversed(responses)))


def _response_spans(sequence: TrainingSequence, response_id: int, length: int) -> Iterator[range]:
    """Yield the positions of each response, from its opening to its ``<eos>``."""
    start = 0
    while start < length:
        stop = start + 1
        if sequence.ids[start] == response_id and sequence.targets[start] != IGNORE_INDEX:
            while sequence.targets[stop] != IGNORE_INDEX:
                stop += 1
            stop += 1
            yield range(start, stop)
        start = stop
