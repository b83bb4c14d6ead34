"""Speculation for one stream: generators of the items that will probably be fed next.

After a silent frame the next frames are drafted as silent. Inside a turn its remaining tokens are drafted. After the
drafted end of a turn come the rest of the frame and the next frames. The generators run while ``DraftBuffer.forward``
builds a pass: each reads ``context_end`` and stops when the context is full or nothing more can be predicted.

Worked example. The decision at ``#4`` triggers an update and a response. The draft of one pass may be::

    [DST] | S2 -> complete <eos> [ASST] Good . Now ... <eos> #5 #6 #7

``[DST]`` must be fed, so it is no draft. All else is verified item by item, and an early mismatch drops the rest.
"""

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from engine.config import StreamConfig
from engine.control.draft_buffer import DraftBuffer, FeedItem, Trace
from engine.control.drafter import Drafter, ResponseMemory, classify_update
from engine.control.prompt_codec import PromptCodec
from engine.control.requests import Image
from engine.dialogue import apply_update
from engine.records import FrameOutput, Step, UpdateLegality

_MAX_ITEMS_AFTER_RESPONSE = 8
"""Items that are drafted after a drafted response; a frame with turns of an earlier run takes several."""
_TurnIds = tuple[int, tuple[int, ...]]
"""A turn as its opening token and the ids after it, without the end of turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantTurn:
    """The updates of one frame so far, and whether a response follows."""

    frame: int
    should_speak: bool
    """Whether a response follows the updates."""
    updates: tuple[str, ...] = ()
    """Texts of the updates so far."""
    legality: tuple[UpdateLegality, ...] = ()
    """Whether each of them is legal, illegal or malformed; not known of drafts."""
    state: Mapping[str, str]
    """The dialogue state after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorRun:
    """An earlier run of the same frames, with other thresholds."""

    outputs: tuple[FrameOutput, ...]
    """Its outputs. They serve as drafts, so they need not be right."""
    trace: Trace | None = None
    """Its trace. Results in it are reused without verification, so it must be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PriorFrame:
    """The turns of an earlier run at one frame, as token ids without the end of turn."""

    should_update: bool
    """Whether its probability of an update triggers at the thresholds of this run."""
    should_speak: bool
    """Whether its probability of speaking triggers at the thresholds of this run."""
    updates: tuple[tuple[int, ...], ...]
    response: tuple[int, ...] | None


class Speculator:
    """Drafts the items of one stream.

    Args:
        config: Stream settings. ``draft_tokens`` is the longest draft; sampling switches drafts off.
        codec: Texts to ids and back.
        goal: The goal of the task.
        steps: The steps of the task.
        memory: Earlier responses.
        user_ids: Token ids of the user turns, by frame.
        draft_buffer: The buffer whose passes the drafts extend.
        prior_run: An earlier run.
    """

    def __init__(
        self,
        config: StreamConfig,
        *,
        codec: PromptCodec,
        goal: str,
        steps: Sequence[Step],
        memory: ResponseMemory,
        user_ids: Mapping[int, tuple[int, ...]],
        draft_buffer: DraftBuffer,
        prior_run: PriorRun | None = None,
    ) -> None:
        self.frames_end = 0
        """Frames before this index are known to exist."""
        self.is_drafting = config.draft_tokens > 0 and not config.do_sample
        """Whether turns are drafted; silent frames are drafted in any case."""
        self._config, self._codec, self._user_ids, self._draft_buffer = config, codec, user_ids, draft_buffer
        self._prior_frames = _index_prior_run(prior_run, codec, config) if prior_run else {}
        self._drafter = Drafter(
            codec.words, eos_id=codec.eos_id, goal=goal, steps=steps, max_tokens=config.draft_tokens, memory=memory
        )

    def record_update(self, text: str, *, is_followed: bool) -> None:
        """Store whether a second update followed this one at its frame."""
        self._drafter.memory.record_update(text, is_followed=is_followed)

    def record_response(self, text: str, *, turn: AssistantTurn) -> None:
        """Store a finished response for later drafts."""
        self._drafter.record_response(text, event=self._classify_event(turn), state=turn.state)

    def draft_frames(self, first: int) -> Iterator[FeedItem]:
        """Yield the known frames from ``first`` on as silent ones, until the context is full."""
        buffer = self._draft_buffer
        for frame in range(first, self.frames_end):
            user_ids = self._user_ids.get(frame, ())
            image = Image(frame_index=frame)
            is_full = buffer.context_end + buffer.count_tokens((*user_ids, image)) > self._config.room
            if is_full or buffer.context_end >= self._config.refresh_at:
                return
            yield from (FeedItem(piece=token) for token in user_ids)
            yield FeedItem(piece=image, needs_decision=True)
            if frame in self._prior_frames and not (yield from self._replay_frame(self._prior_frames[frame])):
                return

    def _replay_frame(self, prior: _PriorFrame) -> Generator[FeedItem, None, bool]:
        """Yield the turns of an earlier run at a frame, if they trigger now; return whether the frame is predicted."""
        codec = self._codec
        if (prior.should_update or prior.should_speak) and not self.is_drafting:
            return False
        if (prior.should_update and not prior.updates) or (prior.should_speak and prior.response is None):
            return False  # it triggers now and did not then: the text is unknown
        turns = [(codec.update_id, ids) for ids in prior.updates if prior.should_update]
        turns += [(codec.response_id, prior.response)] if prior.should_speak and prior.response is not None else []
        if not self._is_within_limits(turns):
            return False
        for opening, ids in turns:
            yield FeedItem(piece=opening, needs_token=True)
            yield from (FeedItem(piece=token, needs_token=True, is_draft=True) for token in ids)
            yield FeedItem(piece=codec.eos_id, needs_decision=opening == codec.update_id, is_draft=True)
        return True

    def _is_within_limits(self, turns: Sequence[_TurnIds]) -> bool:
        """Return whether this run may write these turns; the limits of the earlier run may have been higher."""
        config, update_id = self._config, self._codec.update_id
        updates = [ids for opening, ids in turns if opening == update_id]
        responses = [ids for opening, ids in turns if opening != update_id]
        return (
            len(updates) <= config.max_updates_per_frame
            and all(len(ids) <= config.max_update_tokens for ids in updates)
            and all(len(ids) <= config.max_new_tokens for ids in responses)
        )

    def draft_text(self, turn: AssistantTurn, opening: int, ids: Sequence[int]) -> Iterator[FeedItem]:
        """Yield the rest of an update or response that begins with ``ids``, then the items after its end."""
        if not self.is_drafting:
            return
        is_update = opening == self._codec.update_id
        draft, max_tokens = self._draft_ids(turn, ids, is_update=is_update)
        for number, token in enumerate(draft, start=len(ids) + 1):
            is_end = token == self._codec.eos_id
            yield FeedItem(piece=token, needs_token=not is_end, needs_decision=is_end and is_update, is_draft=True)
            if number == max_tokens and not is_end:  # a text at its limit is closed by an <eos> that is not sampled
                yield FeedItem(piece=self._codec.eos_id, needs_decision=is_update)
                draft = (*draft[: max_tokens - len(ids)], self._codec.eos_id)
                break
        if draft and draft[-1] == self._codec.eos_id:
            if is_update:
                text = self._codec.text([*ids, *draft[:-1]])
                state = apply_update(turn.state, text, illegal=self._config.illegal_updates).state
                yield from self.draft_after_update(replace(turn, updates=(*turn.updates, text), state=state))
            elif turn.frame in self._prior_frames or ids or self._is_predictable(turn):
                yield from islice(self.draft_frames(turn.frame + 1), _MAX_ITEMS_AFTER_RESPONSE)

    def draft_after_update(self, turn: AssistantTurn) -> Iterator[FeedItem]:
        """Yield the items after the end of an update: a second update, the response or the next frames."""
        if not self.is_drafting:
            return
        has_room = len(turn.updates) < self._config.max_updates_per_frame
        if has_room and self._drafter.memory.is_followed(turn.updates[-1]):
            opening = self._codec.update_id
        elif turn.should_speak:
            opening = self._codec.response_id
        else:
            yield from self.draft_frames(turn.frame + 1)
            return
        yield FeedItem(piece=opening, needs_token=True)
        yield from self.draft_text(turn, opening, ())

    def _draft_ids(self, turn: AssistantTurn, ids: Sequence[int], *, is_update: bool) -> tuple[tuple[int, ...], int]:
        """Return a draft, and the limit of the whole text in tokens."""
        prior = self._prior_frames.get(turn.frame)
        if is_update:
            candidates = prior.updates[len(turn.updates) :][:1] if prior else ()
            draft = self._drafter.draft_update(ids, state=turn.state, candidates=candidates)
            return draft, self._config.max_update_tokens
        candidates = (prior.response,) if prior and prior.response is not None else ()
        event = self._classify_event(turn)
        draft = self._drafter.draft_response(ids, event=event, state=turn.state, candidates=candidates)
        return draft, self._config.max_new_tokens

    def _is_predictable(self, turn: AssistantTurn) -> bool:
        return self._drafter.memory.is_predictable(self._classify_event(turn))

    def _classify_event(self, turn: AssistantTurn) -> str:
        """Return the event that a response answers: the kind of the last update, ``user`` or ``frame``."""
        if turn.updates:
            return classify_update(turn.updates[-1])
        return "user" if turn.frame in self._user_ids else "frame"


def _index_prior_run(prior_run: PriorRun, codec: PromptCodec, config: StreamConfig) -> dict[int, _PriorFrame]:
    """Return the turns of an earlier run by frame: the ids of its trace, or else its texts tokenized again.

    Its probabilities predict the triggers of this run. The prediction may fail after the first different decision, when
    the contexts differ or, with several frames in a row, the counts.
    """
    frames = {}
    turns = _split_turns(prior_run.trace, codec) if prior_run.trace else {}
    speaking, updating = config.count_triggers("speak"), config.count_triggers("update")
    for output in prior_run.outputs:
        frame = output.frame_index
        updates = tuple(ids for opening, ids in turns.get(frame, ()) if opening == codec.update_id)
        responses = [ids for opening, ids in turns.get(frame, ()) if opening == codec.response_id]
        if prior_run.trace is None:
            updates = tuple(codec.words(text) for text in output.updates)
            responses = [codec.words(output.response)] if output.response is not None else []
        frames[frame] = _PriorFrame(
            should_update=updating.add(output.update_prob),
            should_speak=speaking.add(output.speak_prob),
            updates=updates,
            response=responses[0] if responses else None,
        )
    return frames


def _split_turns(trace: Trace, codec: PromptCodec) -> dict[int, list[_TurnIds]]:
    """Return the turns of a trace, each with its opening token, by the frame before them."""
    turns: defaultdict[int, list[_TurnIds]] = defaultdict(list)
    for context in trace.contexts:
        frame, is_open = 0, False
        for computed in context:
            piece = computed.item.piece
            if isinstance(piece, Image):
                frame, is_open = piece.frame_index, False
            elif piece in (codec.update_id, codec.response_id):
                turns[frame].append((piece, ()))
                is_open = True
            elif piece == codec.eos_id:
                is_open = False
            elif is_open:
                opening, ids = turns[frame][-1]
                turns[frame][-1] = (opening, (*ids, piece))
    return turns
