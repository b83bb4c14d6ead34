"""The context of one frame of a trace, which is fed again: as it was, or changed.

An evicting cut keeps keys of tokens that were computed with tokens which are dropped now. So the contexts that a
context was cut out of are fed before it, one segment each, and cut again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from torch import Tensor

from stepscope.engine.control.draft_buffer import Trace
from stepscope.engine.control.requests import EvictRequest, Image, Piece
from stepscope.engine.inference.runner import embed_inputs, evict_tokens
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.model.vision_language import VisionLanguageModel

Tag = tuple[int, int, int]
"""A token of a context: its segment, its piece there, and its place in the piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FedContext:
    """The pieces of a context, and of those that it was cut out of."""

    segments: tuple[tuple[Piece, ...], ...]
    """The pieces of each context since the last one that began empty, without those kept from the context before."""
    evictions: tuple[EvictRequest, ...] = ()
    """The cut after each segment except the last."""

    def list_tags(self, *, image_tokens: int) -> list[Tag]:
        """Return the tokens that are in the context at its end."""
        held = list[Tag]()
        for number in range(len(self.segments)):
            if number:
                held = _cut(held, self.evictions[number - 1])
            held += self._tag(number, image_tokens)
        return held

    def show(self, pictures: Mapping[tuple[int, int], int]) -> "FedContext":
        """Return the context with other pictures, by segment and piece."""
        segments = list(self.segments)
        for number in {segment for segment, _ in pictures}:
            segments[number] = tuple(
                Image(frame_index=pictures[number, item]) if (number, item) in pictures else piece
                for item, piece in enumerate(segments[number])
            )
        return replace(self, segments=tuple(segments))

    def splice(self, segment: int, items: range, ids: Sequence[int], *, image_tokens: int) -> "FedContext":
        """Return the context with other tokens in place of some; the cuts after them keep the same other tokens."""
        old, new, evictions = list[Tag](), list[Tag](), list[EvictRequest]()
        for number in range(len(self.segments)):
            if number:
                cut = self.evictions[number - 1]
                head, tail = set(old[: cut.head]), set(old[len(old) - cut.tail :])
                num_head, num_tail = (sum(tag in part for tag in new) for part in (head, tail))
                evictions.append(replace(cut, num_cached=len(new), head=num_head, tail=num_tail))
                old, new = _cut(old, cut), _cut(new, evictions[-1])
            own = self._tag(number, image_tokens)
            old += own
            if number == segment:  # the new tokens are kept or dropped as the first of those that they replace
                inserted = [(number, items.start, 0)] * len(ids)
                own = [
                    *(tag for tag in own if tag[1] < items.start),
                    *inserted,
                    *(tag for tag in own if tag[1] >= items.stop),
                ]
            new += own
        pieces = self.segments[segment]
        changed = (*pieces[: items.start], *ids, *pieces[items.stop :])
        segments = (*self.segments[:segment], changed, *self.segments[segment + 1 :])
        return FedContext(segments=segments, evictions=tuple(evictions))

    def _tag(self, number: int, image_tokens: int) -> list[Tag]:
        sizes = (image_tokens if isinstance(piece, Image) else 1 for piece in self.segments[number])
        return [(number, item, place) for item, size in enumerate(sizes) for place in range(size)]


def _cut(held: list[Tag], cut: EvictRequest) -> list[Tag]:
    return held[: cut.head] + held[len(held) - cut.tail :]


def read_context(trace: Trace, context: int, *, num_items: int) -> FedContext:
    """Return the first items of a context of a trace, with the contexts that it was cut out of."""
    numbers = range(trace.find_root(context), context + 1)
    segments = [tuple(computed.item.piece for computed in trace.contexts[number]) for number in numbers]
    segments[-1] = segments[-1][:num_items]
    evictions = [eviction for number in numbers[1:] if (eviction := trace.starts[number].eviction) is not None]
    return FedContext(segments=tuple(segments), evictions=tuple(evictions))


def list_starts(pieces: Sequence[Piece], *, image_tokens: int) -> list[int]:
    """Return the first token of each piece, counted from the first piece, and last the number of tokens."""
    sizes = (image_tokens if isinstance(piece, Image) else 1 for piece in pieces)
    return list(accumulate(sizes, initial=0))


def feed_pieces(
    model: VisionLanguageModel, pieces: Sequence[Piece], features: Mapping[int, Tensor], cache: KVCache
) -> Tensor:
    """Feed pieces after the cached tokens; return their hidden states ``[L, D]``. ``features`` are by picture."""
    inputs = [features[piece.frame_index] if isinstance(piece, Image) else piece for piece in pieces]
    place = model.place(inputs, cache.next_position)
    states: Tensor = model(embed_inputs(model, inputs)[None], cache, place and place[0])[0]
    cache.ends += place[1] if place else []
    return states


def feed_context(
    model: VisionLanguageModel, context: FedContext, features: Mapping[int, Tensor], cache: KVCache
) -> Tensor:
    """Feed a context into an empty cache; return the hidden states ``[L, D]`` of its last segment."""
    *earlier, last = context.segments
    for pieces, eviction in zip(earlier, context.evictions, strict=True):
        feed_pieces(model, pieces, features, cache)
        evict_tokens(model, cache, eviction)
    return feed_pieces(model, last, features, cache)
