"""Feeds the tokens of one stream, and writes its texts token by token: the model's own, and forced ones."""

from collections.abc import Generator, Iterator, Sequence

from stepscope.engine.control.context import StreamContext
from stepscope.engine.control.draft_buffer import ComputedItem, DraftBuffer, FeedItem, TurnKind
from stepscope.engine.control.prompt_codec import PromptCodec, read_reply
from stepscope.engine.control.requests import Answer, Request, TextProgress
from stepscope.engine.control.speculator import AssistantTurn, Speculator
from stepscope.engine.records import FrameOutput


class TextWriter:
    """Writes the texts of one stream behind the pending tokens of its context.

    With ``is_traced`` the trace keeps the ids of each text. With ``reports_text``, a ``TextProgress`` is yielded after
    each token of a response.
    """

    def __init__(
        self,
        context: StreamContext,
        *,
        codec: PromptCodec,
        draft_buffer: DraftBuffer,
        speculator: Speculator,
        is_traced: bool,
        reports_text: bool,
    ) -> None:
        self._context, self._codec = context, codec
        self._draft_buffer, self._speculator = draft_buffer, speculator
        self._is_traced, self._reports_text = is_traced, reports_text

    def feed(
        self, items: Sequence[FeedItem], drafts: Iterator[FeedItem], *, frame: int
    ) -> Generator[Request | FrameOutput, Answer, ComputedItem]:
        """Feed items, unless they were fed as a draft before; return the results at the last one."""
        if not self._draft_buffer.matches(items):
            yield from self._draft_buffer.forward(items, drafts, num_cached=self._context.num_fed, frame=frame)
        computed = self._draft_buffer.accept(len(items))
        self._context.num_fed += self._draft_buffer.count_tokens(item.piece for item in items)
        self._context.pending_ids = []
        return computed

    def feed_pending(
        self,
        drafts: Iterator[FeedItem],
        *,
        frame: int,
        needs_decision: bool = False,
        needs_token: bool = False,
        step: int = -1,
    ) -> Generator[Request | FrameOutput, Answer, ComputedItem]:
        """Feed the pending tokens; return the results at the last one, with the values that it needs."""
        *front, last = self._context.pending_ids
        last_item = FeedItem(piece=last, needs_decision=needs_decision, needs_token=needs_token, step=step)
        items = [*(FeedItem(piece=token) for token in front), last_item]
        return (yield from self.feed(items, drafts, frame=frame))

    def generate(
        self, turn: AssistantTurn, kind: TurnKind, max_tokens: int, *, first: int | None = None
    ) -> Generator[Request | FrameOutput, Answer, tuple[int, ...]]:
        """Generate one text of at most ``max_tokens`` tokens after its pending opening, and return its ids.

        ``first`` is the first token if it was read at the image. The end of the turn stays pending.
        """
        context, codec, ends = self._context, self._codec, (self._codec.eos_id, *self._codec.other_ends)
        is_ended = first in codec.other_ends
        ids: list[int] = [] if first is None or is_ended else [first]
        if first is not None:
            context.pending_ids = [first]
        while not is_ended and len(ids) < max_tokens:
            drafts = self._speculator.draft_text(turn, kind, ids)
            step = len(ids) if kind == "response" else -1
            computed = yield from self.feed_pending(drafts, frame=turn.frame, needs_token=True, step=step)
            assert computed.token is not None
            if computed.token in ends:
                break
            ids.append(computed.token)
            context.pending_ids = [computed.token]
            if self._reports_text and kind == "response":
                yield TextProgress(frame_index=turn.frame, text=read_reply(codec, ids)[0])
        self._remember(turn.frame, kind, ids)
        if codec.feeds_eos:
            context.pending_ids.append(codec.eos_id)
        elif not codec.feeds_last_token:
            context.pending_ids = []
        return tuple(ids)

    def force(self, frame: int, kind: TurnKind, opening: Sequence[int], ids: Sequence[int], max_tokens: int) -> None:
        """Append a forced text with its opening and end to the pending tokens, as ``generate`` leaves the model's."""
        context, codec = self._context, self._codec
        context.pending_ids += [*opening, *ids]
        self._remember(frame, kind, ids)
        if codec.feeds_eos:
            context.pending_ids.append(codec.eos_id)
        elif len(ids) == max_tokens and not codec.feeds_last_token:
            context.pending_ids.pop()

    def _remember(self, frame: int, kind: TurnKind, ids: Sequence[int]) -> None:
        if self._is_traced:
            self._draft_buffer.trace.written.setdefault(frame, []).append((kind, tuple(ids)))
