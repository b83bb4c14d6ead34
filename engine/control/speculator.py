"""Speculation for one stream: generators of the items that will probably be fed next.

After a silent frame the next frames are drafted as silent. Inside a turn its remaining tokens are drafted. After the
drafted end of a turn come the rest of the frame and the next frames. The generators run while ``DraftBuffer.forward``
builds a pass: each reads ``context_end`` and stops when the context is full or nothing more can be predicted.

Worked example. The decision at ``#4`` triggers an update and a response. The draft of one pass may be::

    [DST] | S2 -> complete <eos> [ASST] Good . Now ... <eos> #5 #6 #7

``[DST]`` must be fed, so it is no draft. All else is verified item by item, and an early mismatch drops the rest.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.draft_buffer import DraftBuffer, FeedItem, Trace, TurnKind
from stepscope.engine.control.drafter import Drafter, ResponseMemory, classify_update
from stepscope.engine.control.frames import Frames
from stepscope.engine.control.intervention import SILENCE, ForcedTurn, Intervention
from stepscope.engine.control.prompt_codec import PromptCodec, read_reply
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import apply_update
from stepscope.engine.records import FrameOutput, Reasoning, UpdateLegality

_MAX_ITEMS_AFTER_RESPONSE = 8
"""Items that are drafted after a drafted response; a frame with turns of an earlier run takes several."""
_TurnIds = tuple[TurnKind, tuple[int, ...]]
"""A turn as its kind and the ids of its text, without opening and end."""
_ForcedIds = tuple[tuple[tuple[int, ...], ...], tuple[int, ...] | None]
"""The ids of the updates of a forced turn, and those of its response; None for silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantTurn:
    """The updates of one frame so far, whether a response follows, and the response."""

    frame: int
    should_speak: bool
    updates: tuple[str, ...] = ()
    legality: tuple[UpdateLegality, ...] = ()
    """Whether each of them is legal, illegal or malformed; not known of drafts."""
    state: Mapping[str, str]
    """The dialogue state after them."""
    response: str | None = None
    reasoning: Reasoning | None = None
    """What the model wrote before the message of its response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorRun:
    """An earlier run of the same frames, with other thresholds or without an intervention."""

    outputs: tuple[FrameOutput, ...]
    """Its outputs. They serve as drafts, so they need not be right."""
    trace: Trace | None = None
    """Its trace. Results in it are reused without verification, so it must be right."""
    written: Mapping[int, Sequence[_TurnIds]] = field(default_factory=dict)
    """The ids of its turns by frame; see ``Trace``. A forced turn of the same text has these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PriorFrame:
    """The turns of an earlier run at one frame, as token ids without the end of turn."""

    should_update: bool
    """Whether its probability of an update triggers at the thresholds of this run."""
    should_speak: bool
    updates: tuple[tuple[int, ...], ...]
    response: tuple[int, ...] | None
    answered: tuple[str, ...]
    """Updates that answers of the model gave, without text."""


class Speculator:
    """Drafts the items of one stream.

    ``config.draft_tokens`` is the longest draft; sampling switches drafts off. ``room`` is the maximum context length
    after an image.
    """

    def __init__(
        self,
        config: StreamConfig,
        *,
        codec: PromptCodec,
        task: Task,
        memory: ResponseMemory,
        frames: Frames,
        draft_buffer: DraftBuffer,
        prior_run: PriorRun | None,
        intervention: Intervention,
        room: int,
    ) -> None:
        self.memory = memory
        self.is_drafting = config.draft_tokens > 0 and not config.do_sample
        """Whether turns are drafted; silent frames are drafted in any case."""
        self._config, self._codec, self._frames, self._draft_buffer = config, codec, frames, draft_buffer
        self._room = room
        self._prior_frames = _index_prior_run(prior_run, codec, config) if prior_run else {}
        self._intervention = intervention
        self._written = prior_run.written if prior_run else {}
        self._forced_ids: dict[int, _ForcedIds] = {}
        self._drafter = Drafter(
            codec.words,
            eos_id=codec.eos_id,
            task=task,
            max_tokens=config.draft_tokens,
            memory=memory,
            instructions=config.system_prompt,
        )

    def find_forced_ids(self, frame: int) -> _ForcedIds:
        """Return the ids of the updates and of the response that an intervention writes at a frame.

        They are those of the earlier run for a text that it wrote there, which its tokenizer may split in another way.
        """
        if frame not in self._forced_ids:
            self._forced_ids[frame] = self._encode_forced(frame, self._intervention.find_turn(frame) or SILENCE)
        return self._forced_ids[frame]

    def _encode_forced(self, frame: int, forced: ForcedTurn) -> _ForcedIds:
        config, codec = self._config, self._codec
        known = index_written(codec, self._written.get(frame, ()))

        def encode(kind: TurnKind, text: str, max_tokens: int) -> tuple[int, ...]:
            ids = known.get((kind, text))
            return (codec.words(text) if ids is None else ids)[:max_tokens]

        updates = tuple(encode("update", text, config.max_update_tokens) for text in forced.updates)
        response = None if forced.response is None else encode("response", forced.response, config.max_new_tokens)
        return updates, response

    def _find_prior(self, frame: int) -> _PriorFrame | None:
        """Return the turns that are expected at a frame: forced ones, or those of an earlier run."""
        forced = self._intervention.find_turn(frame)
        if forced is None or forced.has_own_updates or forced.has_own_response:
            return self._prior_frames.get(frame)
        updates, response = self.find_forced_ids(frame)
        asks = self._config.policy.source == "answer"
        return _PriorFrame(
            should_update=bool(updates) and bool(self._codec.update_opening) and not asks,
            should_speak=response is not None,
            updates=updates,
            response=response,
            answered=(forced or SILENCE).updates if asks else (),
        )

    def record_response(self, text: str, *, turn: AssistantTurn) -> None:
        """Store a finished response for later drafts."""
        self._drafter.record_response(text, event=self._classify_event(turn), state=turn.state)

    def draft_frames(
        self, first: int, *, state: Mapping[str, str], opening: tuple[int, ...] | None = None
    ) -> Iterator[FeedItem]:
        """Yield the known frames from ``first`` on as silent ones, until the context is full.

        ``state`` is that of the steps before the first frame, ``opening`` are the tokens before its image; by default
        those after a silent frame.
        """
        buffer, codec, frames = self._draft_buffer, self._codec, self._frames
        if self._config.do_sample and not codec.response_opening:
            return  # a token is sampled at each image, so that drafts would use up random numbers
        opening = frames.separator if opening is None else opening
        for frame in range(first, frames.end):
            if frame in frames.context_starts:
                return
            if buffer.context_end + len(opening) >= self._config.shorten_at:
                return
            image, num_needed = frames.image_item(frame, state), len(opening) + frames.count_text_tokens(frame)
            if buffer.context_end + num_needed + buffer.count_tokens((image.piece,)) > self._room:
                return
            yield from (FeedItem(piece=token) for token in (*opening, *frames.ids_before_image(frame, after=opening)))
            yield image
            predicted = yield from self._draft_turn(frame, state)
            if predicted is None:
                return
            opening, state = predicted

    def draft_after_image(self, frame: int, *, state: Mapping[str, str]) -> Iterator[FeedItem]:
        """Yield the items after the image of a frame: its expected turn and the next frames."""
        predicted = yield from self._draft_turn(frame, state)
        if predicted is not None:
            opening, state = predicted
            yield from self.draft_frames(frame + 1, state=state, opening=opening)

    def _draft_turn(
        self, frame: int, state: Mapping[str, str]
    ) -> Generator[FeedItem, None, tuple[tuple[int, ...], Mapping[str, str]] | None]:
        """Yield the expected turn of a frame; return the tokens after it and the state, None if it is not predicted."""
        if self._codec.answers_user_turns and frame in self._frames.user_texts:
            return None  # the answer is next
        prior = self._find_prior(frame)
        if prior is None:
            return self._frames.separator, state
        if not (yield from self._replay_frame(prior)):
            return None
        for text in prior.answered:
            state = apply_update(state, text, illegal=self._config.illegal_updates).state
        return self._codec.stream_opening if prior.should_speak else self._frames.separator, state

    def _replay_frame(self, prior: _PriorFrame) -> Generator[FeedItem, None, bool]:
        """Yield the turns of an earlier run at a frame, if they trigger now; return whether the frame is predicted."""
        if (prior.should_update or prior.should_speak) and not self.is_drafting:
            return False
        if (prior.should_update and not prior.updates) or (prior.should_speak and prior.response is None):
            return False  # it triggers now and did not then: the text is unknown
        turns: list[_TurnIds] = [("update", ids) for ids in prior.updates if prior.should_update]
        turns += [("response", prior.response)] if prior.should_speak and prior.response is not None else []
        if not self._is_within_limits(turns):
            return False
        for kind, ids in turns:
            yield from self._open_turn(kind)
            yield from (_draft_item(token, kind, step) for step, token in enumerate(ids, start=1))
            yield from self._close_turn(kind)
        return True

    def _open_turn(self, kind: TurnKind) -> Iterator[FeedItem]:
        """Yield the opening of a turn; the first token of its text is read at the last one."""
        opening = self._codec.update_opening if kind == "update" else self._codec.response_opening
        for number, token in enumerate(opening, start=1):
            step = 0 if kind == "response" else -1
            yield FeedItem(piece=token, needs_token=number == len(opening), step=step)

    def _close_turn(self, kind: TurnKind, *, is_draft: bool = True) -> Iterator[FeedItem]:
        """Yield the end of a turn, if it enters the context."""
        if self._codec.feeds_eos:
            yield FeedItem(piece=self._codec.eos_id, needs_decision=kind == "update", is_draft=is_draft)

    def _is_within_limits(self, turns: Sequence[_TurnIds]) -> bool:
        """Return whether this run may write these turns; the limits of the earlier run may have been higher."""
        config = self._config
        updates = [ids for kind, ids in turns if kind == "update"]
        responses = [ids for kind, ids in turns if kind == "response"]
        return (
            len(updates) <= config.max_updates_per_frame
            and all(len(ids) <= config.max_update_tokens for ids in updates)
            and all(len(ids) <= config.max_new_tokens for ids in responses)
        )

    def draft_text(self, turn: AssistantTurn, kind: TurnKind, ids: Sequence[int]) -> Iterator[FeedItem]:
        """Yield the rest of an update or response that begins with ``ids``, then the items after its end."""
        if not self.is_drafting or kind == "summary":
            return
        draft, max_tokens = self._draft_ids(turn, ids, is_update=kind == "update")
        is_ended, num_drafted = False, 0
        for token in draft:
            if token == self._codec.eos_id:
                is_ended = True
                yield from self._close_turn(kind)
                break
            if len(ids) + num_drafted == max_tokens - 1 and not self._codec.feeds_last_token:
                return
            num_drafted += 1
            yield _draft_item(token, kind, len(ids) + num_drafted)
            if len(ids) + num_drafted == max_tokens:  # closed by an <eos> that is not sampled
                is_ended = True
                yield from self._close_turn(kind, is_draft=False)
                break
        if not is_ended:
            return
        if kind == "update":
            text = self._codec.text([*ids, *draft[:num_drafted]])
            state = apply_update(turn.state, text, illegal=self._config.illegal_updates).state
            yield from self.draft_after_update(replace(turn, updates=(*turn.updates, text), state=state))
        elif self._find_prior(turn.frame) is not None or ids or self.memory.is_predictable(self._classify_event(turn)):
            frames = self.draft_frames(turn.frame + 1, state=turn.state, opening=self._codec.stream_opening)
            yield from islice(frames, _MAX_ITEMS_AFTER_RESPONSE)

    def draft_after_update(self, turn: AssistantTurn) -> Iterator[FeedItem]:
        """Yield the items after the end of an update: a second update, the response or the next frames."""
        if not self.is_drafting:
            return
        has_room = len(turn.updates) < self._config.max_updates_per_frame
        kind: TurnKind
        if has_room and self.memory.is_followed(turn.updates[-1]):
            kind = "update"
        elif turn.should_speak:
            kind = "response"
        else:
            yield from self.draft_frames(turn.frame + 1, state=turn.state)
            return
        yield from self._open_turn(kind)
        yield from self.draft_text(turn, kind, ())

    def _draft_ids(self, turn: AssistantTurn, ids: Sequence[int], *, is_update: bool) -> tuple[tuple[int, ...], int]:
        """Return a draft, and the limit of the whole text in tokens."""
        prior = self._find_prior(turn.frame)
        if is_update:
            candidates = prior.updates[len(turn.updates) :][:1] if prior else ()
            draft = self._drafter.draft_update(ids, state=turn.state, candidates=candidates)
            return draft, self._config.max_update_tokens
        candidates = (prior.response,) if prior and prior.response is not None else ()
        event = self._classify_event(turn)
        draft = self._drafter.draft_response(ids, event=event, state=turn.state, candidates=candidates)
        return draft, self._config.max_new_tokens

    def _classify_event(self, turn: AssistantTurn) -> str:
        """Return the event that a response answers: the kind of the last update, ``user`` or ``frame``."""
        if turn.updates:
            return classify_update(turn.updates[-1])
        return "user" if turn.frame in self._frames.user_texts else "frame"


def index_written(codec: PromptCodec, written: Sequence[_TurnIds]) -> dict[tuple[TurnKind, str], tuple[int, ...]]:
    """Return the ids of the texts of a frame by kind and text; those of a response have its reasoning, too."""
    return {(kind, codec.text(ids) if kind == "update" else read_reply(codec, ids)[0]): ids for kind, ids in written}


def _draft_item(token: int, kind: TurnKind, step: int) -> FeedItem:
    step = step if kind == "response" else -1
    return FeedItem(piece=token, needs_token=True, is_draft=True, step=step)


def _index_prior_run(prior_run: PriorRun, codec: PromptCodec, config: StreamConfig) -> dict[int, _PriorFrame]:
    """Return the turns of an earlier run by frame, with their texts tokenized again.

    Its probabilities predict the triggers of this run. The prediction may fail after the first different decision, when
    the contexts differ or, with several frames in a row, the counts.
    """
    frames, asks = {}, config.policy.source == "answer"
    speaking, updating = config.count_triggers("speak"), config.count_triggers("update")
    for output in prior_run.outputs:
        should_update = updating.add(output.update_prob)
        frames[output.frame_index] = _PriorFrame(
            should_update=should_update and not asks,
            should_speak=speaking.add(output.speak_prob),
            updates=tuple(map(codec.words, output.updates)),
            response=None if output.response is None else codec.words(output.response),
            answered=output.updates if asks else (),
        )
    return frames
