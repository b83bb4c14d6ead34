"""Inspects one frame of a finished run: the prompt of its context, and the tokens fed there with log-probabilities.

The tokens are those that the engine fed: they are taken from the trace of the stream, up to the frame.
One forward pass over the whole context gives all log-probabilities and both decisions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from engine.config import StreamConfig
from engine.control.controller import Task
from engine.control.draft_buffer import Read, Trace
from engine.control.policies import Decision
from engine.control.requests import Image
from engine.control.speculator import Past
from engine.errors import EngineError
from engine.inference.readout import read_decisions
from engine.inference.runner import embed
from engine.model.checkpoint import Checkpoint
from engine.model.frame_encoder import FrameFeatures
from engine.records import FrameOutput
from engine.streamer import Streamer, Video


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedToken:
    """One token of a frame, or its image."""

    token_id: int | None
    """Its id; None for the image."""
    text: str
    """Its text, of a special token too; ``<image>`` for the image."""
    logprob: float | None = None
    """Natural logarithm of its probability after all that stands before it; None for the image and the first token."""
    best_text: str = ""
    """The likeliest token at its place, one that is never generated too."""
    best_logprob: float | None = None
    """Its log-probability."""
    is_chosen: bool = False
    """Whether the model picked it. Otherwise it was forced, such as the words of the user, and the token that opens an
    update or a response once that is decided."""
    is_fed: bool = True
    """False for a token that was picked last and that the next frame feeds, such as the end of a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameInspection:
    """What the model read at one frame."""

    frame_index: int
    """The frame."""
    prompt: str
    """The text that its context begins with, special tokens too."""
    prompt_tokens: int
    """Its length in tokens."""
    first_frame: int
    """The first frame of its context."""
    earlier_tokens: int
    """Tokens of the context before those of the frame, with the prompt."""
    decision: Decision
    """Both probabilities at its image, of the same forward pass."""
    tokens: tuple[InspectedToken, ...]
    """What was fed at the frame, in order: the end of the last turn, user turns, the image, updates, response."""


def trace_frames(
    checkpoint: Checkpoint,
    frames: Sequence[FrameFeatures],
    *,
    task: Task,
    config: StreamConfig,
    outputs: Sequence[FrameOutput] = (),
) -> Trace:
    """Stream frames and return what was fed and read; ``outputs`` of the run guess it and need not be right.

    Raises as ``Streamer.run`` does.
    """
    past = Past(outputs=tuple(outputs[: len(frames)]))
    video = Video(video_id="", frames=tuple(frames), task=task, past=past, is_traced=True)
    for step in Streamer(checkpoint, config).run_many([video], rows=1):
        if step.error is not None:
            raise step.error
        if step.trace is not None:
            return step.trace
    raise EngineError("the stream ended without a trace")


@torch.inference_mode()
def inspect_frame(
    checkpoint: Checkpoint, frames: Sequence[FrameFeatures], trace: Trace, *, frame_index: int, config: StreamConfig
) -> FrameInspection:
    """Return what the model read at a frame.

    Args:
        checkpoint: What ``load_model`` returned.
        frames: The embedded frames of the video, at least up to the frame.
        trace: What the run fed, at least up to the frame.
        frame_index: The frame.
        config: The settings of the run.

    Raises ``ValueError`` for a frame that the trace does not have.
    """
    if frame_index not in trace.begins:
        raise ValueError(f"there is no frame {frame_index}; the run has {len(trace.begins)} frames")
    number, begin = trace.begins[frame_index]
    after = trace.begins.get(frame_index + 1)
    context = trace.contexts[number]
    end = after[1] if after is not None and after[0] == number else len(context)
    reads = context[:end]
    first = next(place for place, read in enumerate(reads) if isinstance(read.fed.piece, Image))
    prompt_size = trace.prompts[number]
    hidden, starts = _feed(checkpoint, frames, reads)
    shown = range(max(begin, prompt_size), end)
    return FrameInspection(
        frame_index=frame_index,
        prompt=_text(checkpoint, [read.fed.piece for read in reads[:prompt_size] if isinstance(read.fed.piece, int)]),
        prompt_tokens=prompt_size,
        first_frame=_frame_of(reads[first]),
        earlier_tokens=starts[shown.start],
        decision=_decide(checkpoint, hidden, reads, starts, frame_index, config),
        tokens=_tokens(checkpoint, hidden, reads, starts, shown),
    )


def _feed(checkpoint: Checkpoint, frames: Sequence[FrameFeatures], reads: Sequence[Read]) -> tuple[Tensor, list[int]]:
    """Return hidden states ``[L, D]`` of a context, and the position at which each piece begins, with ``L`` behind."""
    model = checkpoint.model
    known = {frame.index: frame.features for frame in frames}
    pieces = [read.fed.piece for read in reads]
    inputs = [known[piece.frame_index] if isinstance(piece, Image) else piece for piece in pieces]
    hidden: Tensor = model(embed(model, inputs)[None])[0]
    sizes = (model.tokens_per_frame if isinstance(piece, Image) else 1 for piece in pieces)
    return hidden, list(accumulate(sizes, initial=0))


def _decide(
    checkpoint: Checkpoint,
    hidden: Tensor,
    reads: Sequence[Read],
    starts: Sequence[int],
    frame_index: int,
    config: StreamConfig,
) -> Decision:
    place = next(n for n, read in enumerate(reads) if read.fed.piece == Image(frame_index=frame_index))
    at = hidden[starts[place + 1] - 1][None]
    policy, silent_id = config.decision_policy, checkpoint.silent_id
    return read_decisions(checkpoint.model, at, policy=policy, silent_id=silent_id)[0]


def _tokens(
    checkpoint: Checkpoint, hidden: Tensor, reads: Sequence[Read], starts: Sequence[int], shown: range
) -> tuple[InspectedToken, ...]:
    """Return the pieces of a frame, and the token that was picked at the last one, if any."""
    ids = [reads[place].fed.piece for place in shown]
    if shown and (picked := reads[shown.stop - 1].token) is not None:
        ids.append(picked)
    found = []
    for place, piece in zip(range(shown.start, shown.stop + 1), ids, strict=False):
        if isinstance(piece, Image):
            found.append(InspectedToken(token_id=None, text="<image>"))
            continue
        is_chosen = place > 0 and reads[place - 1].token == piece
        token = InspectedToken(
            token_id=piece, text=_text(checkpoint, [piece]), is_chosen=is_chosen, is_fed=place < shown.stop
        )
        found.append(_scored(checkpoint, hidden[starts[place] - 1], token) if starts[place] else token)
    return tuple(found)


def _scored(checkpoint: Checkpoint, before: Tensor, token: InspectedToken) -> InspectedToken:
    logprobs = checkpoint.model.token_logits(before[None])[0].log_softmax(-1)
    best = int(logprobs.argmax())
    assert token.token_id is not None
    return InspectedToken(
        token_id=token.token_id,
        text=token.text,
        logprob=float(logprobs[token.token_id]),
        best_text=_text(checkpoint, [best]),
        best_logprob=float(logprobs[best]),
        is_chosen=token.is_chosen,
        is_fed=token.is_fed,
    )


def _frame_of(read: Read) -> int:
    assert isinstance(read.fed.piece, Image)
    return read.fed.piece.frame_index


def _text(checkpoint: Checkpoint, ids: Sequence[int]) -> str:
    return str(checkpoint.prompt.tokenizer.decode(list(ids), skip_special_tokens=False))
