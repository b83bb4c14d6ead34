"""Scores changed contexts of one decision: only the tokens from the first change on are fed.

Changes in the last segment of a context are branches of one KV cache, many of which share a pass. Other changes, and
long ones, are fed into a copy of a cache.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stepscope.engine.control.requests import Image, Piece
from stepscope.engine.evidence.targets import Probe, Reading
from stepscope.engine.inference.fed_context import FedContext, feed_pieces, list_starts
from stepscope.engine.inference.runner import PackedStream, embed_inputs, evict_tokens, forward_packed
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.model.vision_language import VisionLanguageModel

_MAX_BRANCH_TOKENS = 512
"""Tokens of branches that share a pass; each hides the keys of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    """Tokens behind the first ``seen`` of a cache."""

    cache: KVCache
    seen: int
    inputs: Sequence[int | Tensor]
    num_tokens: int
    reads: Sequence[int]


class ContextScorer:
    """Reads a probe behind a context and its changes. ``features`` are by picture."""

    def __init__(
        self, model: VisionLanguageModel, context: FedContext, probe: Probe, features: Mapping[int, Tensor]
    ) -> None:
        self._model, self._context, self._probe, self._features = model, context, probe, features
        self._image_tokens = model.count_tokens(next(iter(features.values())))
        self._cut_cache, self._cache = KVCache(model.num_layers), KVCache(model.num_layers)
        *earlier, last = context.segments
        with torch.inference_mode():
            for number, pieces in enumerate(earlier):
                feed_pieces(model, pieces, features, self._cache)
                if number == len(earlier) - 1:  # the frames of a context are rarely older than its last cut
                    self._cut_cache = self._cache.fork()
                evict_tokens(model, self._cache, context.evictions[number])
            self._num_kept = self._cache.length
            feed_pieces(model, last, features, self._cache)

    @torch.inference_mode()
    def score(self, contexts: Sequence[FedContext]) -> list[Reading]:
        """Return the reading behind each changed context."""
        hidden, group = list[Tensor](), list[_Branch]()
        for branch in self._list_branches(contexts):
            num_tokens = sum(other.num_tokens for other in group) + branch.num_tokens
            if group and (branch.cache is not group[0].cache or num_tokens > _MAX_BRANCH_TOKENS):
                hidden += self._forward(group)
                group = []
            group.append(branch)
        hidden += self._forward(group) if group else ()
        count = len(self._probe.tails)
        starts = range(0, len(hidden), count)
        return [self._probe.read(self._model, hidden[start : start + count]) for start in starts]

    def _list_branches(self, contexts: Sequence[FedContext]) -> Iterator[_Branch]:
        for context in contexts:
            cache, seen, pieces = self._feed_front(context)
            inputs = [self._features[piece.frame_index] if isinstance(piece, Image) else piece for piece in pieces]
            count = list_starts(pieces, image_tokens=self._image_tokens)[-1]
            for tail in self._probe.tails:
                yield _Branch(
                    cache=cache,
                    seen=seen,
                    inputs=[*inputs, *tail.ids],
                    num_tokens=count + len(tail.ids),
                    reads=[count + at for at in tail.reads],
                )

    def _feed_front(self, context: FedContext) -> tuple[KVCache, int, Sequence[Piece]]:
        """Return a cache, the number of its first tokens that the context has, and the pieces that follow them."""
        segment, item = self._find_change(context)
        last = len(context.segments) - 1
        if segment == last:
            starts = list_starts(context.segments[last][: item + 1], image_tokens=self._image_tokens)
            seen, pieces = self._num_kept + starts[item], context.segments[last][item:]
            if list_starts(pieces, image_tokens=self._image_tokens)[-1] <= _MAX_BRANCH_TOKENS:
                return self._cache, seen, pieces
            cache = self._cache.fork(length=seen)
        elif segment == last - 1:
            num_kept = context.evictions[segment - 1].num_kept if segment else 0
            starts = list_starts(context.segments[segment][:item], image_tokens=self._image_tokens)
            cache = self._cut_cache.fork(length=num_kept + starts[-1])
        else:
            cache, segment, item = KVCache(self._model.num_layers), 0, 0
        for number in range(segment, last):
            feed_pieces(self._model, context.segments[number][item:], self._features, cache)
            evict_tokens(self._model, cache, context.evictions[number])
            item = 0
        *front, end = context.segments[last][item:]
        if front:
            feed_pieces(self._model, front, self._features, cache)
        return cache, cache.length, [end]

    def _find_change(self, context: FedContext) -> tuple[int, int]:
        """Return segment and piece of the first change; without one, the last piece."""
        for number, (old, new) in enumerate(zip(self._context.segments, context.segments, strict=True)):
            if old != new:
                shared = zip(old, new, strict=False)
                return number, next((n for n, (a, b) in enumerate(shared) if a != b), min(len(old), len(new)) - 1)
        return len(context.segments) - 1, len(context.segments[-1]) - 1

    def _forward(self, group: Sequence[_Branch]) -> list[Tensor]:
        """Return the hidden states ``[R, D]`` that are read of each branch."""
        cache, inputs = group[0].cache, [piece for branch in group for piece in branch.inputs]
        placed = [self._model.place(branch.inputs, cache.position_at(branch.seen)) for branch in group]
        positions = [place[0] for place in placed if place is not None]
        reads, start = list[int](), 0
        for branch in group:
            reads += [start + at for at in branch.reads]
            start += branch.num_tokens
        stream = PackedStream(
            inputs=embed_inputs(self._model, inputs),
            cache=cache,
            reads=reads,
            positions=torch.cat(positions, dim=1) if positions else None,
            branches=[(branch.seen, branch.num_tokens) for branch in group],
        )
        return list(forward_packed(self._model, [stream]).split([len(branch.reads) for branch in group]))


def randomize(model: VisionLanguageModel, *, seed: int = 0) -> VisionLanguageModel:
    """Return a model whose text model and heads have random weights of the same mean and spread in each tensor.

    The vision tower and its connector are those of ``model``, so pictures have the same features.
    """
    drawn = {id(weight) for part in (model.text_model, model.lm_head) for weight in part.parameters()}
    drawn |= {id(weight) for name, weight in model.named_parameters() if "head" in name.split(".")[0]}
    kept = {id(weight): weight for weight in model.parameters() if id(weight) not in drawn}
    new = copy.deepcopy(model, kept)  # shares what it keeps
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for (_, weight), old in zip(new.named_parameters(), model.parameters(), strict=True):
            if id(old) in drawn and weight.is_floating_point():
                values = torch.randn(weight.shape, generator=random)
                spread = old.float().std(correction=0)
                weight.copy_(values.to(weight.device) * spread + old.float().mean())
    return new
