"""The draft buffer of one stream: items that were fed ahead of their turn and await verification.

This is speculative decoding for a whole stream. A draft is either a frame that is expected to stay silent, or a token
that the model is expected to write. The controller requests items one at a time, in the order of the definition. An
item that an earlier pass has already fed costs nothing more. At the first mismatch the buffer is dropped, and the
next pass crops the draft out of the cache.

Worked example, with one token per frame, a prompt of 10 tokens and a look-ahead of 4 frames. The first pass feeds the
prompt and ``#0 #1 #2 #3``, and reads a decision at each image::

    request: prompt #0   pass: keep 0, feed prompt #0 | #1 #2 #3     buffer: prompt #0 #1 #2 #3
    accept prompt #0: silent                                         buffer: #1 #2 #3
    request: #1          matches, no pass; the decision is to speak  buffer: #2 #3
    request: [ASST]      mismatch with #2                            buffer: empty
                         pass: keep 12 (prompt #0 #1), feed [ASST] | draft of the response

The tokens of ``#2`` and ``#3`` were wasted; the outputs are those of frame-by-frame streaming.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from stepscope.engine.control.questions import decide_by_answers
from stepscope.engine.control.requests import (
    Answer,
    Branch,
    Decision,
    EvictRequest,
    ForwardRequest,
    ForwardResult,
    Image,
    PassCounts,
    Piece,
    Request,
)
from stepscope.engine.records import Forgotten, FrameOutput

TurnKind = Literal["update", "response", "summary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedItem:
    """One piece to feed, and the values to read at its last token."""

    piece: Piece
    needs_decision: bool = False
    needs_token: bool = False
    is_draft: bool = False
    """Whether it is a draft of a token that the model has yet to sample."""
    questions: tuple[tuple[int, ...], ...] = ()
    """Ids of the questions or states behind the piece that give its decisions."""
    step: int = -1
    """Tokens of a reply before the one that is sampled here; -1 outside a reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedItem:
    """A fed item with the results of its forward pass."""

    item: FeedItem
    decision: Decision | None
    token: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameStart:
    """The first item of a frame in a trace: ``trace.contexts[context][item]``."""

    context: int
    item: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextStart:
    """The beginning of a context, before its items."""

    prompt_tokens: int = 0
    """Tokens of the system prompt, which are its first items; 0 if it has none of its own."""
    eviction: EvictRequest | None = None
    """How it was cut out of the context before; None if it began empty."""
    forgotten: Forgotten | None = None
    """The part of the context before that it lacks; None for the first one."""

    @property
    def num_kept(self) -> int:
        """Tokens of the context before with which it began."""
        return 0 if self.eviction is None else self.eviction.num_kept


@dataclass(slots=True, kw_only=True)
class Trace:
    """All confirmed items of a run, context by context. An untraced run keeps only its present context."""

    contexts: list[list[ComputedItem]] = field(default_factory=list)
    """Confirmed items of each context, in the order of feeding, without those kept from the context before."""
    num_cached: int = 0
    """Tokens of the last context that the KV cache of the run holds."""
    starts: list[ContextStart] = field(default_factory=list)
    frame_starts: dict[int, FrameStart] = field(default_factory=dict)
    """For each frame of a traced run, its first item."""
    written: dict[int, list[tuple[TurnKind, tuple[int, ...]]]] = field(default_factory=dict)
    """For each frame of a traced run that has some, kind and ids of its updates and its response, without their end.
    The tokenizer may split their texts in another way."""

    def find_root(self, context: int) -> int:
        """Return the last context up to ``context`` that began empty; all after it were cut out of one another."""
        return next(number for number in range(context, -1, -1) if self.starts[number].eviction is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferMark:
    """A place in a stream to go back to."""

    num_items: int
    """Confirmed items of the present context."""
    num_fed: int
    """Their tokens, with those that the context kept."""
    num_passes: int
    unverified: tuple[ComputedItem, ...]


class DraftBuffer:
    """Feeds the items of one stream together with drafts, and verifies the drafts later.

    The results of ``prior_trace``, of an earlier run of the same frames, are reused up to the first item that differs.
    ``decide`` returns the decision for the answers to all questions of an item. The trace of a run that is not traced
    keeps the present context alone.
    """

    def __init__(
        self,
        tokens_per_frame: int,
        *,
        is_traced: bool = False,
        prior_trace: Trace | None = None,
        decide: Callable[[Sequence[float]], Decision] = decide_by_answers,
    ) -> None:
        self.trace = Trace()
        self.counts = PassCounts()
        self.context_end = 0
        """Length of the context in tokens, with all drafts of the pass that is being built."""
        self._tokens_per_frame, self._is_traced = tokens_per_frame, is_traced
        self._unverified: deque[ComputedItem] = deque()
        self._prior_trace, self._num_contexts = prior_trace, 0
        self._decide = decide

    @property
    def is_empty(self) -> bool:
        """Whether no item awaits verification."""
        return not self._unverified

    def cut_context(
        self, eviction: EvictRequest, forgotten: Forgotten
    ) -> Generator[Request | FrameOutput, Answer, None]:
        """Begin a new context with a part of the present one, which the cache then holds as well."""
        is_cached = self.trace.num_cached >= eviction.num_cached
        if not self.start_context(ContextStart(eviction=eviction, forgotten=forgotten)) and is_cached:
            yield eviction
            self.trace.num_cached = eviction.num_kept

    def start_context(self, start: ContextStart) -> bool:
        """Begin a new, empty context; return whether its items are those of an earlier run, which needs no passes."""
        number = self._num_contexts
        self._num_contexts += 1
        self._unverified.clear()
        self.trace.num_cached = 0
        if not self._is_traced and self._prior_trace is None:
            self.trace.contexts.clear()
            self.trace.starts.clear()
        self.trace.contexts.append([])
        self.trace.starts.append(start)
        prior = self._prior_trace
        if prior is None or number >= len(prior.contexts):
            return False
        if prior.starts[number].eviction != start.eviction:  # other tokens were kept: no result holds any more
            self._prior_trace = None
            return False
        # the earlier run's results become drafts that are already computed
        self._unverified.extend(prior.contexts[number])
        is_last = number == len(prior.contexts) - 1
        self.trace.num_cached = prior.num_cached if is_last else 0
        return True

    def mark_frame(self, frame: int) -> None:
        """Record in the trace that the next confirmed item is the first of a frame."""
        start = FrameStart(context=len(self.trace.contexts) - 1, item=len(self.trace.contexts[-1]))
        self.trace.frame_starts[frame] = start

    def count_tokens(self, pieces: Iterable[Piece]) -> int:
        """Return the number of tokens of pieces."""
        return sum(self._tokens_per_frame if isinstance(piece, Image) else 1 for piece in pieces)

    def matches(self, items: Sequence[FeedItem]) -> bool:
        """Return whether the buffer begins with these items, with the values that the last one needs."""
        front = list(islice(self._unverified, len(items)))
        if [computed.item.piece for computed in front] != [item.piece for item in items]:
            return False
        last, wanted = front[-1].item, items[-1]
        return (
            last.questions == wanted.questions
            and last.needs_decision >= wanted.needs_decision
            and last.needs_token >= wanted.needs_token
        )

    def accept(self, count: int) -> ComputedItem:
        """Confirm the next ``count`` items; return the last of them."""
        accepted = [self._unverified.popleft() for _ in range(count)]
        if self._prior_trace is None:  # items of an earlier run are no drafts of this one
            self.counts += PassCounts(accepted=sum(computed.item.is_draft for computed in accepted))
        self.trace.contexts[-1] += accepted
        return accepted[-1]

    def mark(self, num_fed: int) -> "BufferMark":
        """Return the present place, at which the context has ``num_fed`` tokens, to go back to."""
        return BufferMark(
            num_items=len(self.trace.contexts[-1]),
            num_fed=num_fed,
            num_passes=self.counts.passes,
            unverified=tuple(self._unverified),
        )

    def rewind(self, mark: "BufferMark") -> None:
        """Go back to a place in the present context. The results that were there remain, without their cache."""
        del self.trace.contexts[-1][mark.num_items :]
        self._unverified = deque(mark.unverified)
        if self.counts.passes > mark.num_passes:
            self.trace.num_cached = min(self.trace.num_cached, mark.num_fed)

    def forward(
        self, items: Iterable[FeedItem], drafts: Iterator[FeedItem], *, num_cached: int, frame: int
    ) -> Generator[Request | FrameOutput, Answer, None]:
        """Request one pass for items and drafts, and refill the buffer with its results.

        ``items`` must be fed next, ``drafts`` may follow; their iterator may read ``context_end`` to stop before the
        context is full. ``num_cached`` are the confirmed tokens of the context, ``frame`` is the first frame that the
        pass serves.
        """
        self._unverified.clear()
        self._prior_trace = None  # the run has diverged from the earlier one
        recomputed: list[FeedItem] = []
        if self.trace.num_cached < num_cached:
            # confirmed items come from an earlier run or pass whose cache is gone: feed them again in this pass
            num_kept = self.trace.starts[-1].num_kept
            if self.trace.num_cached < max(num_kept, 1):
                yield from self._refeed_earlier(frame)
                self.trace.num_cached = num_kept
            num_cached = self.trace.num_cached
            recomputed = self._list_behind(num_cached - num_kept)
        self.context_end = num_cached
        fed: list[FeedItem] = []
        decision_positions, sample_positions, branches = list[int](), list[int](), list[Branch]()
        sample_steps = list[int]()
        last_frame = frame
        for source in (recomputed, items, drafts):
            for item in source:
                self.context_end += self.count_tokens((item.piece,))
                fed.append(item)
                last_position = self.context_end - num_cached - 1  # of the item, in tokens of this pass
                if item.needs_decision:
                    decision_positions.append(last_position)
                if item.needs_token:
                    sample_positions.append(last_position)
                    sample_steps.append(item.step)
                branches += [Branch(position=last_position, ids=ids) for ids in item.questions]
                if isinstance(item.piece, Image):
                    last_frame = max(last_frame, item.piece.frame_index)
        result = yield ForwardRequest(
            num_cached=num_cached,
            inputs=tuple(item.piece for item in fed),
            frames=range(frame, last_frame + 1),
            decision_positions=tuple(decision_positions),
            sample_positions=tuple(sample_positions),
            sample_steps=tuple(sample_steps),
            branches=tuple(branches),
        )
        assert isinstance(result, ForwardResult)
        decisions, tokens, answers = iter(result.decisions), iter(result.tokens), iter(result.answers)
        self.trace.num_cached = self.context_end
        for item in fed[len(recomputed) :]:
            decision = next(decisions) if item.needs_decision else None
            token = next(tokens) if item.needs_token else None
            if item.questions:
                decision = self._decide(tuple(islice(answers, len(item.questions))))
            self._unverified.append(ComputedItem(item=item, decision=decision, token=token))
        num_drafted = sum(item.is_draft for item in fed)
        num_tokens = self.context_end - num_cached + sum(len(branch.ids) for branch in branches)
        self.counts += PassCounts(passes=1, tokens=num_tokens, drafted=num_drafted)

    def _list_behind(self, num_tokens: int) -> list[FeedItem]:
        """Return the confirmed items of the present context behind its first tokens."""
        found = list[FeedItem]()
        for computed in self.trace.contexts[-1]:
            if num_tokens <= 0:
                found.append(FeedItem(piece=computed.item.piece))
            num_tokens -= self.count_tokens((computed.item.piece,))
        return found

    def _refeed_earlier(self, frame: int) -> Generator[Request | FrameOutput, Answer, None]:
        """Feed the contexts that the present one was cut out of, one pass each, and cut them again."""
        last = len(self.trace.contexts) - 1
        for number in range(self.trace.find_root(last), last):
            pieces = tuple(computed.item.piece for computed in self.trace.contexts[number])
            num_cached = self.trace.starts[number].num_kept
            yield ForwardRequest(num_cached=num_cached, inputs=pieces, frames=range(frame, frame + 1))
            self.counts += PassCounts(passes=1, tokens=self.count_tokens(pieces))
            eviction = self.trace.starts[number + 1].eviction
            assert eviction is not None
            yield eviction
