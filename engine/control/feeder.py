"""Feeds the context of a stream: items that must be fed, and the texts that the model writes."""

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.context import StreamContext
from stepscope.engine.control.draft_buffer import ComputedItem, DraftBuffer, FeedItem, TurnKind
from stepscope.engine.control.frames import Frames
from stepscope.engine.control.prompt_codec import PromptCodec
from stepscope.engine.control.requests import Answer, Request, TextProgress
from stepscope.engine.control.speculator import AssistantTurn, Speculator
from stepscope.engine.records import FrameOutput

_MIN_SUMMARY_PROB: Final = 0.5
TextLoop = Generator[Request | FrameOutput, Answer, str]
"""Yields the requests of a text and returns it."""


class Feeder:
    """Feeds the context of one stream, with the drafts of its speculator."""

    def __init__(
        self,
        config: StreamConfig,
        *,
        codec: PromptCodec,
        context: StreamContext,
        draft_buffer: DraftBuffer,
        frames: Frames,
        speculator: Speculator,
        reports_text: bool,
    ) -> None:
        self.config, self.codec, self.frames = config, codec, frames
        self.context, self.draft_buffer, self.speculator = context, draft_buffer, speculator
        self.reports_text = reports_text

    def forward(
        self, items: Sequence[FeedItem], drafts: Iterator[FeedItem], *, frame: int
    ) -> Generator[Request | FrameOutput, Answer, ComputedItem]:
        """Feed items, unless they were fed as a draft before; return the results at the last one."""
        if not self.draft_buffer.matches(items):
            yield from self.draft_buffer.forward(items, drafts, num_cached=self.context.num_fed, frame=frame)
        computed = self.draft_buffer.accept(len(items))
        self.context.num_fed += self.draft_buffer.count_tokens(item.piece for item in items)
        self.context.pending_ids = []
        return computed

    def generate_text(
        self, turn: AssistantTurn, kind: TurnKind, max_tokens: int, *, first: int | None = None
    ) -> TextLoop:
        """Generate one update or response of at most ``max_tokens`` tokens after its pending opening.

        ``first`` is the first token if it was read at the image. The end of the turn stays pending.
        """
        ids: list[int] = [] if first is None else [first]
        if first is not None:
            self.context.pending_ids = [first]
        while len(ids) < max_tokens:
            drafts = self.speculator.draft_text(turn, kind, ids)
            step = len(ids) if kind == "response" else -1
            items = self.pending_items(needs_token=True, kind=kind if ids else None, step=step)
            computed = yield from self.forward(items, drafts, frame=turn.frame)
            assert computed.token is not None
            if computed.token == self.codec.eos_id:
                break
            ids.append(computed.token)
            self.context.pending_ids = [computed.token]
            if self.reports_text and kind == "response":
                yield TextProgress(frame_index=turn.frame, text=self.codec.text(ids))
        if self.codec.feeds_eos:
            self.context.pending_ids.append(self.codec.eos_id)
        else:
            self.context.pending_ids = []  # nor does the last token of a text at its limit enter the context
        return self.codec.text(ids)

    def summarize(self, frame: int) -> TextLoop:
        """Ask for a summary of the context before a frame, with the frame before it, and return the text.

        A model that opens its own replies may refuse: with a probability of speaking below 0.5 the text is empty.

        **Source**: ``manage_kv_cache`` of ProAssist (mmassist/eval/runners/stream_inference.py) and its default of 0.5.
        """
        codec, context, last = self.codec, self.context, frame - 1
        request = codec.summary_request(after=context.pending_ids)
        ids = (*context.pending_ids, *(() if codec.answers_user_turns else request))
        image = self.frames.image_item(last)
        computed = yield from self.forward([*(FeedItem(piece=token) for token in ids), image], iter(()), frame=frame)
        context.pending_ids += request if codec.answers_user_turns else codec.response_opening
        if not context.pending_ids:
            assert computed.decision is not None, "a model that asks opens its replies"
            if computed.decision.speak_prob < _MIN_SUMMARY_PROB:
                return ""
        turn = AssistantTurn(frame=frame, should_speak=True, state={})
        first = None if context.pending_ids else computed.token
        return (yield from self.generate_text(turn, "summary", self.config.max_summary_tokens, first=first))

    def pending_items(
        self,
        *,
        needs_decision: bool = False,
        needs_token: bool = False,
        kind: TurnKind | None = None,
        step: int = -1,
    ) -> list[FeedItem]:
        """Return the pending tokens as items; the values are read at the last one, a token of a turn of ``kind``."""
        *front, last = self.context.pending_ids
        last_item = FeedItem(piece=last, needs_decision=needs_decision, needs_token=needs_token, step=step, turn=kind)
        return [*(FeedItem(piece=token) for token in front), last_item]
