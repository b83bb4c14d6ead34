"""Inspects one frame of a finished run: the prompt of its context, and the tokens fed there with log-probabilities.

The tokens come from the trace of the stream up to the frame. One forward pass over the whole context gives all
log-probabilities and both decisions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.draft_buffer import ComputedItem, ContextStart, Trace
from stepscope.engine.control.intervention import Intervention
from stepscope.engine.control.requests import Decision, Image
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.errors import EngineError
from stepscope.engine.inference.fed_context import feed_context, list_starts, read_context
from stepscope.engine.inference.readout import make_readout_spec, read_decisions
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.plurals import format_count
from stepscope.engine.records import Forgotten, FrameOutput
from stepscope.engine.stream import Streamer, StreamRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedToken:
    """One token of a frame, or its image."""

    token_id: int | None
    text: str
    """Text, also of a special token; ``<image>`` for the image."""
    logprob: float | None = None
    """Natural log-probability given all tokens before it; None for the image and the first token."""
    best_text: str = ""
    """Text of the most likely token at this position, suppressed tokens included."""
    best_logprob: float | None = None
    is_chosen: bool = False
    """Whether the model sampled it. False for forced tokens: user turns, and the token that opens an update or a
    response after the decision."""
    is_fed: bool = True
    """False for a token that was sampled last and is fed at the next frame, such as the end of a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameInspection:
    """The context of one frame, its decision and its tokens."""

    frame_index: int
    prompt: str
    """The system prompt of its context, with special tokens."""
    prompt_tokens: int
    first_frame: int
    """The first frame of its context, or the first after the part that was forgotten last."""
    earlier_tokens: int
    """Tokens of the context before those of the frame, with the prompt."""
    decision: Decision
    """Both probabilities at its image, from the same forward pass."""
    tokens: tuple[InspectedToken, ...]
    """The tokens fed at the frame, in order: end of the last turn, user turns, image, updates, response."""
    forgotten: Forgotten | None = None
    """The part that was dropped when its context began; None for the first context of a run."""


def trace_frames(
    checkpoint: Checkpoint,
    features: Sequence[FrameFeatures],
    *,
    task: Task,
    config: StreamConfig,
    outputs: Sequence[FrameOutput] = (),
    intervention: Intervention | None = None,
) -> Trace:
    """Stream frames again and return the trace. ``outputs`` of the run serve as drafts and need not be right.

    Raises as ``Streamer.run`` does.
    """
    prior_run = PriorRun(outputs=tuple(outputs[: len(features)]))
    video = StreamRequest(
        video_id="",
        features=tuple(features),
        task=task,
        prior_run=prior_run,
        intervention=intervention or Intervention(),
        is_traced=True,
    )
    for event in Streamer(checkpoint, config).run_many([video], max_batch_size=1):
        if event.error is not None:
            raise event.error
        if event.trace is not None:
            return event.trace
    raise EngineError("the stream ended without a trace")


@torch.inference_mode()
def inspect_frame(
    checkpoint: Checkpoint, features: Sequence[FrameFeatures], trace: Trace, *, frame_index: int, config: StreamConfig
) -> FrameInspection:
    """Return the context, decision and tokens of a frame; ``features`` and ``trace`` must reach up to it.

    Raises ``ValueError`` for a frame that the trace does not have.
    """
    if frame_index not in trace.frame_starts:
        raise ValueError(
            f"frame {frame_index} does not exist; the run has {format_count(len(trace.frame_starts), 'frame')}"
        )
    start = trace.frame_starts[frame_index]
    following = trace.frame_starts.get(frame_index + 1)
    # the items of the frame end where those of the next begin, unless a refresh put the next into a new context
    items = trace.contexts[start.context]
    if following is not None and following.context == start.context:
        items = items[: following.item]
    began = trace.starts[start.context]
    fed = read_context(trace, start.context, num_items=len(items))
    by_frame = {frame.index: frame.features for frame in features}
    hidden = feed_context(checkpoint.model, fed, by_frame, KVCache(checkpoint.model.num_layers))
    starts = list_starts(fed.segments[-1], image_tokens=checkpoint.model.count_tokens(features[0].features))
    shown = range(max(start.item, began.prompt_tokens), len(items))
    number = next(n for n in range(start.item, len(items)) if isinstance(items[n].item.piece, Image))
    last = hidden[starts[number + 1] - 1][None]  # the decision is at the last token of the frame's image
    decision = items[number].decision if config.policy.reads_branches else None  # read behind the image
    root = trace.find_root(start.context)
    prompt_tokens = trace.starts[root].prompt_tokens
    prompt = [computed.item.piece for computed in trace.contexts[root][:prompt_tokens]]
    return FrameInspection(
        frame_index=frame_index,
        prompt=_decode(checkpoint, [piece for piece in prompt if isinstance(piece, int)]),
        prompt_tokens=prompt_tokens,
        first_frame=_find_first_frame(began, items),
        earlier_tokens=began.num_kept + starts[shown.start],
        decision=decision or read_decisions(checkpoint.model, last, make_readout_spec(checkpoint, config))[0],
        tokens=_inspect_tokens(checkpoint, hidden, items, starts, shown),
        forgotten=began.forgotten,
    )


def _find_first_frame(began: ContextStart, items: Sequence[ComputedItem]) -> int:
    if began.eviction is not None and began.forgotten is not None and began.forgotten.last_frame is not None:
        return began.forgotten.last_frame + 1
    return next(computed.item.piece.frame_index for computed in items if isinstance(computed.item.piece, Image))


def _inspect_tokens(
    checkpoint: Checkpoint, hidden: Tensor, items: Sequence[ComputedItem], starts: Sequence[int], shown: range
) -> tuple[InspectedToken, ...]:
    """Return the items of a frame, and the token that was sampled at the last one, if any."""
    pieces = [items[number].item.piece for number in shown]
    if shown and (sampled := items[shown.stop - 1].token) is not None:
        pieces.append(sampled)
    tokens = []
    for number, piece in zip(range(shown.start, shown.stop + 1), pieces, strict=False):
        if isinstance(piece, Image):
            tokens.append(InspectedToken(token_id=None, text="<image>"))
            continue
        is_chosen = number > 0 and items[number - 1].token == piece
        token = InspectedToken(
            token_id=piece, text=_decode(checkpoint, [piece]), is_chosen=is_chosen, is_fed=number < shown.stop
        )
        if starts[number]:  # the hidden state before a token predicts it; the first token of a context has none
            logprobs = checkpoint.model.token_logits(hidden[starts[number] - 1][None])[0].log_softmax(-1)
            best = int(logprobs.argmax())
            best_text, best_logprob = _decode(checkpoint, [best]), float(logprobs[best])
            token = replace(token, logprob=float(logprobs[piece]), best_text=best_text, best_logprob=best_logprob)
        tokens.append(token)
    return tuple(tokens)


def _decode(checkpoint: Checkpoint, ids: Sequence[int]) -> str:
    return str(checkpoint.prompt.tokenizer.decode(list(ids), skip_special_tokens=False))
