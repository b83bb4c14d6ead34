"""The control of one answer: prefill in parts, then greedy decoding token by token. No torch.

The runner of a stream serves it.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stepscope.engine.chat.prefix_store import Lease, PrefixCache, PrefixStore
from stepscope.engine.chat.prompts import ContextPiece, count_tokens
from stepscope.engine.control.prompt_codec import PromptCodec, read_reply
from stepscope.engine.control.requests import ForwardRequest, ForwardResult, Image

C = TypeVar("C", bound=PrefixCache)
PREFILL_TOKENS = 256
"""Maximum number of tokens per prefill pass; cancellation takes effect between two passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefilling:
    """A part of the prompt is in the cache; more parts follow."""

    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefilled:
    """The prompt is in the cache: ``cached_tokens + prefilled_tokens == prompt_tokens``."""

    prompt_tokens: int
    cached_tokens: int
    prefilled_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDelta:
    """The next part of the answer."""

    text: str
    """New characters; joined, the parts are the answer. May be empty within a multi-byte character."""
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerEnd:
    """The end of an answer."""

    text: str
    """The whole answer, or the part up to a stop."""
    ids: tuple[int, ...]
    is_stopped: bool


AnswerEvent = Prefilling | Prefilled | AnswerDelta | AnswerEnd
Forward = Callable[[ForwardRequest], ForwardResult]
"""Runs one forward pass, as ``engine.inference.runner.Runner.forward`` does."""


def answer_prompt(
    prompt: Sequence[ContextPiece],
    *,
    store: PrefixStore[C],
    owner: str = "",
    codec: PromptCodec,
    open_cache: Callable[[Lease[C]], Forward],
    max_new_tokens: int,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Generator[AnswerEvent]:
    """Yield the events of one answer, which continues the longest known prefix; commit its tokens at its end.

    The cache is restored after an error or when the generator is closed. It continues caches of ``owner`` alone.
    ``open_cache`` returns the passes in a leased cache, with the pictures that it lacks: the ``n``-th of them is
    ``Image(frame_index=n)``. A prefill pass has at most ``PREFILL_TOKENS``; a picture is never divided.
    """
    with store.acquire(prompt, owner=owner) as lease:
        forward = open_cache(lease)
        cached, fed_pieces, token = lease.num_cached, lease.num_pieces, None
        length, chunks = cached, _split(prompt[fed_pieces:], PREFILL_TOKENS)
        for number, (inputs, num_tokens) in enumerate(chunks):
            is_last = number == len(chunks) - 1
            positions = (num_tokens - 1,) if is_last else ()
            request = ForwardRequest(num_cached=length, inputs=inputs, frames=range(1), sample_positions=positions)
            result = forward(request)
            length, fed_pieces = length + num_tokens, fed_pieces + len(inputs)
            if is_last:
                token = result.tokens[0]
                break
            yield Prefilling(num_tokens=length)
            if is_stopped():
                lease.commit(prompt[:fed_pieces])
                yield AnswerEnd(text="", ids=(), is_stopped=True)
                return
        yield Prefilled(prompt_tokens=length, cached_tokens=cached, prefilled_tokens=length - cached)
        ids: list[int] = []
        num_fed, shown, ends = 0, "", (codec.eos_id, *codec.other_ends)
        stopped = is_stopped()
        while not stopped and token is not None and token not in ends and len(ids) < max_new_tokens:
            ids.append(token)
            text, _ = read_reply(codec, ids)
            is_whole = text.startswith(shown) and not text.endswith("\ufffd")  # else a character is incomplete
            yield AnswerDelta(text=text[len(shown) :] if is_whole else "", num_tokens=len(ids))
            shown = text if is_whole else shown
            if stopped := is_stopped():
                break
            if len(ids) < max_new_tokens:
                request = ForwardRequest(num_cached=length, inputs=(token,), frames=range(1), sample_positions=(0,))
                length, num_fed, token = length + 1, num_fed + 1, forward(request).tokens[0]
        text, _ = read_reply(codec, ids)
        if text != shown and text.startswith(shown):
            yield AnswerDelta(text=text[len(shown) :], num_tokens=len(ids))
        lease.commit((*prompt[:fed_pieces], *ids[:num_fed]))
        yield AnswerEnd(text=text, ids=tuple(ids), is_stopped=stopped)


def _split(pieces: Sequence[ContextPiece], max_tokens: int) -> list[tuple[tuple[int | Image, ...], int]]:
    """Return the inputs of each prefill pass and their number of tokens."""
    chunks: list[tuple[tuple[int | Image, ...], int]] = []
    inputs: list[int | Image] = []
    num_tokens = num_pictures = 0
    for piece in pieces:
        size = count_tokens((piece,))
        if inputs and num_tokens + size > max_tokens:
            chunks.append((tuple(inputs), num_tokens))
            inputs, num_tokens = [], 0
        inputs.append(Image(frame_index=num_pictures) if isinstance(piece, str) else piece)
        num_pictures += isinstance(piece, str)
        num_tokens += size
    return [*chunks, (tuple(inputs), num_tokens)]
