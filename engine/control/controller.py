"""The streaming controller of one video: pure control flow, without torch and without I/O.

``StreamController.run`` is a generator. It yields requests (``engine.control.requests``) and receives their results;
between them it yields one ``FrameOutput`` per frame. ``engine.stream`` connects it to a runner.

Per frame the controller feeds the user turns and the image, and reads the decisions at the last image token. It then
generates updates while the update head triggers (read again after each ``<eos>``), and last the response. This module
defines streaming frame by frame and token by token. A pass may also carry drafts: silent next frames, and the tokens
of a turn (see ``engine.control.draft_buffer``). Drafts change the number of passes and nothing else.
"""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.context import StreamContext
from stepscope.engine.control.draft_buffer import ComputedItem, DraftBuffer, FeedItem
from stepscope.engine.control.drafter import ResponseMemory
from stepscope.engine.control.frames import Frames
from stepscope.engine.control.intervention import ForcedTurn, Intervention
from stepscope.engine.control.prompt_codec import PromptCodec, read_reply
from stepscope.engine.control.questions import (
    SPEAK_QUESTION,
    STEP_QUESTIONS,
    StateReader,
    decide_by_answers,
    list_update_questions,
)
from stepscope.engine.control.requests import Answer, ControlLoop, Decision, PassCounts, Request
from stepscope.engine.control.speculator import AssistantTurn, PriorRun, Speculator
from stepscope.engine.control.task import Task
from stepscope.engine.control.texts import TextWriter
from stepscope.engine.decisions.signals import RESPONSE
from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.errors import ContextError
from stepscope.engine.records import Forgotten, FrameOutput

_UNDECIDED = Decision(speak_prob=math.nan, update_prob=math.nan)
"""The decision at a frame without questions."""
_MIN_SUMMARY_PROB: Final = 0.5
TurnLoop = Generator[Request | FrameOutput, Answer, AssistantTurn]


class StreamController:
    """Controls one stream: its context, its dialogue state, and the items to feed next.

    ``memory`` has earlier responses, for drafts; ``prior_run`` is an earlier run of the same frames and task with other
    thresholds, or without the ``intervention``. With ``is_traced`` the trace keeps all contexts, not only the present
    one. With ``reports_text``, ``run`` yields a ``TextProgress`` after each token of a response.

    Raises:
        ValueError: Steps or initial states that are inconsistent.
        ContextError: A prompt or user turn that does not fit the context; ``run`` raises it, too.
    """

    def __init__(
        self,
        task: Task,
        *,
        config: StreamConfig,
        codec: PromptCodec,
        tokens_per_frame: int,
        memory: ResponseMemory | None = None,
        prior_run: PriorRun | None = None,
        intervention: Intervention | None = None,
        is_traced: bool = False,
        reports_text: bool = False,
    ) -> None:
        self.intervention = intervention or Intervention()
        self.states = StateReader(config, codec) if config.policy.reads_states else None
        if self.states is not None:
            codec = self.states.codec
        self.task, self.config, self.codec = task, config, codec
        self.tokens_per_frame = tokens_per_frame
        self.state = initial_state(task.steps, {**task.initial_state, **self.intervention.states.get(0, {})})
        self.is_traced = is_traced
        self.draft_buffer = DraftBuffer(
            tokens_per_frame,
            is_traced=is_traced,
            prior_trace=prior_run.trace if prior_run else None,
            decide=decide_by_answers if self.states is None else self.states.decide,
        )
        self.context = StreamContext(
            task, config=config, codec=codec, tokens_per_frame=tokens_per_frame, draft_buffer=self.draft_buffer
        )
        self.asks = config.policy.source == "answer"
        self._encode_question = cache(lambda text: (*codec.question(text), *codec.without_thought))
        self.speaking, self.updating = config.count_triggers("speak"), config.count_triggers("update")
        self.room = config.room - self._count_further_tokens()
        """Maximum context length after an image and its user turns, such that the longest turn still fits."""
        self.frames = Frames(
            task,
            config=config,
            codec=codec,
            list_questions=self.list_questions,
            has_prior_run=prior_run is not None or self.intervention.until > 0,
            intervention=self.intervention,
        )
        self.speculator = Speculator(
            config,
            codec=codec,
            task=task,
            memory=memory or ResponseMemory(),
            frames=self.frames,
            draft_buffer=self.draft_buffer,
            prior_run=prior_run,
            intervention=self.intervention,
            room=self.room,
        )
        self.writer = TextWriter(
            self.context,
            codec=codec,
            draft_buffer=self.draft_buffer,
            speculator=self.speculator,
            is_traced=is_traced,
            reports_text=reports_text,
        )
        self.context.begin(self.state)

    @property
    def counts(self) -> PassCounts:
        """Cost of the stream so far."""
        return self.draft_buffer.counts

    def run(self) -> ControlLoop:
        """Yield requests and, in order, one output per frame."""
        frame = 0
        while (yield from self.has_frame(frame)):
            time_s = self.frames.time_s(frame)
            forgotten = yield from self.make_room(frame)
            if self.is_traced:
                self.draft_buffer.mark_frame(frame)
            image = yield from self.step(frame)
            decision = image.decision or _UNDECIDED
            turn = yield from self.generate_turn(frame, image)
            signals, state = self.describe_state(decision, turn.response)
            if turn.response is None:
                self.context.pending_ids += self.frames.separator
            self.context.end_frame(has_user_turn=frame in self.frames.user_texts)
            yield FrameOutput(
                frame_index=frame,
                time_s=time_s,
                speak_prob=decision.speak_prob,
                update_prob=decision.update_prob,
                response=turn.response,
                updates=turn.updates,
                dst_state=dict(turn.state),
                cache_tokens=self.context.num_tokens,
                refreshed=forgotten is not None,
                latency_ms=0.0,
                legality=turn.legality,
                forgotten=forgotten,
                signals=signals,
                state=state,
                reasoning=turn.reasoning,
            )
            frame += 1

    def has_frame(self, frame: int) -> Generator[Request | FrameOutput, Answer, bool]:
        """Return whether the video has this frame. Without a pending draft, fetch the next frames first."""
        if self.draft_buffer.is_empty or frame >= self.frames.end:
            yield from self.frames.fetch(frame)
        return frame < self.frames.end

    def step(self, frame: int) -> Generator[Request | FrameOutput, Answer, ComputedItem]:
        """Feed the user turns that precede the image of a frame, and the image; return the results at the image."""
        pending_ids = self.context.pending_ids
        tokens = (*pending_ids, *self.frames.ids_before_image(frame, after=pending_ids))
        items = [*(FeedItem(piece=token) for token in tokens), self.frames.image_item(frame)]
        drafts = self.speculator.draft_after_image(frame, state=self.state)
        computed = yield from self.writer.feed(items, drafts, frame=frame)
        self.context.add_image(frame)
        self.frames.extend_lookahead()
        return computed

    def describe_state(self, decision: Decision, response: str | None) -> tuple[dict[str, float], str | None]:
        """Return the probability of each state and the state at a frame, if any; draft it for the next frames."""
        if self.states is None:
            return {}, None
        silent_state = self.states.find_silent_state(decision)
        if response is None:
            self.frames.separator = self.states.separators[silent_state]
        signals = self.states.signals(decision)
        return signals, (silent_state if response is None else RESPONSE) if signals else None

    def list_questions(self, frame: int, state: Mapping[str, str] | None = None) -> tuple[tuple[int, ...], ...]:
        """Return the ids of the questions behind an image: whether to speak, and about the steps.

        They depend on the state of the steps, by default the present one; at a later frame another may be expected.
        They are those of the states if the policy reads states, and none at a frame that has no decisions.
        """
        if self.states is not None:
            return self.states.branches
        if not self.asks or not self.config.decides_at(frame):
            return ()
        texts = (
            SPEAK_QUESTION,
            *(question.text for question in list_update_questions(self.task.steps, state or self.state)),
        )
        return tuple(map(self._encode_question, texts))

    def _count_further_tokens(self) -> int:
        """Return the tokens of the longest turn beyond those that ``StreamConfig.room`` reserves."""
        codec, config = self.codec, self.config
        num_tokens = max(0, len(codec.response_opening) + len(codec.stream_opening) + int(codec.feeds_eos) - 2)
        if self.states is not None:
            num_tokens += max(map(len, self.states.separators.values()))
        elif self.asks:
            steps = (*self.task.steps, *(self.intervention.task.steps if self.intervention.task else ()))
            texts = [question.format(name=step.name) for step in steps for question in STEP_QUESTIONS]
            num_tokens += max(len(self._encode_question(text)) for text in (SPEAK_QUESTION, *texts))
        if config.context_strategy == "summarize-and-drop":
            request = max(len(codec.summary_request(after=after)) for after in ((), codec.stream_opening))
            num_tokens += request + self.tokens_per_frame + len(codec.response_opening) + config.max_summary_tokens + 1
        return num_tokens

    def make_room(self, frame: int) -> Generator[Request | FrameOutput, Answer, Forgotten | None]:
        """Shorten the context before a frame if it is full, or if the frame does not fit; return the part forgotten.

        Raises ``ContextError`` if the frame does not fit in any case.
        """
        context, forgotten = self.context, self.intervene(frame)
        limit = self.room - self.frames.count_text_tokens(frame) - self.tokens_per_frame
        if context.num_fed > 0 and (context.is_full or context.num_tokens > limit):
            if self.config.context_strategy == "none":
                raise ContextError(
                    f"the context is full at frame {frame}: after its {context.num_tokens} tokens, the frame and the "
                    f"longest turn do not fit into {self.config.max_seq_len}; choose another context_strategy than "
                    "none, or raise max_seq_len"
                )
            summary = None
            if self.config.context_strategy == "summarize-and-drop":
                summary = yield from self.summarize(frame)
            forgotten = yield from context.shorten(self.state, limit=limit, summary=summary)
        if context.num_tokens > limit:
            has_text = frame in self.frames.user_texts
            name, cure = ("user turn at frame", "it") if has_text else ("frame", "goal and steps")
            needed = context.num_tokens - limit + self.room
            raise ContextError(
                f"the {name} {frame} does not fit: with the prompt and the image it takes {needed} tokens of "
                f"{self.room}; shorten {cure} or raise max_seq_len"
            )
        return forgotten

    def intervene(self, frame: int) -> Forgotten | None:
        """Set the states and the task that an intervention names before a frame; return what a new prompt forgets."""
        change = self.intervention
        if frame == 0:  # the first context began with them
            return None
        if change.task is not None and frame == change.task_from:
            self.task = change.task
            self.state = initial_state(change.task.steps, change.task.initial_state) | {
                step.id: self.state[step.id] for step in change.task.steps if step.id in self.state
            }
        self.state = {**self.state, **change.states.get(frame, {})}
        return self.context.restart(self.task, self.state) if frame in change.begins_context else None

    def generate_turn(self, frame: int, image: ComputedItem) -> TurnLoop:
        """Generate the updates and the response that the decisions at an image trigger, or a user turn demands.

        A forced turn takes their place. If it is probed, the model's own turn is generated first, and taken back.
        """
        decision, forced = image.decision or _UNDECIDED, self.intervention.find_turn(frame)
        must_answer, owns_response = self.frames.must_answer(frame), forced is None or forced.has_own_response
        speaks = None if forced is None or owns_response or must_answer else forced.response is not None
        updates = None if forced is None or forced.has_own_updates else bool(forced.updates)
        should_speak = self.speaking.add(decision.speak_prob, forced=speaks) or must_answer
        should_update = self.updating.add(decision.update_prob, forced=updates)
        if forced is None:
            return (yield from self.generate_own_turn(frame, image, should_speak, should_update))
        if not self.intervention.is_probed:
            return (yield from self.force_turn(frame, image, forced, should_speak, should_update))
        context, state, mark = self.context, self.state, self.draft_buffer.mark(self.context.num_fed)
        num_fed, pending_ids = context.num_fed, list(context.pending_ids)
        own = yield from self.generate_own_turn(frame, image, should_speak, should_update)
        self.draft_buffer.rewind(mark)
        context.num_fed, context.pending_ids, self.state = num_fed, pending_ids, state
        yield from self.force_turn(frame, image, forced, should_speak, should_update)
        return own

    def force_turn(
        self, frame: int, image: ComputedItem, forced: ForcedTurn, should_speak: bool, should_update: bool
    ) -> TurnLoop:
        """Write a forced turn, whose tokens wait for the next pass; generate the parts that are the model's own."""
        turn = AssistantTurn(frame=frame, should_speak=should_speak, state=self.state)
        update_ids, response_ids = self.speculator.find_forced_ids(frame)
        if forced.has_own_updates:
            turn = yield from self.generate_updates(turn, image, should_update)
        for text, ids in zip(forced.updates, update_ids, strict=True):
            if self.codec.update_opening and not self.asks:
                self.writer.force(frame, "update", self.codec.update_opening, ids, self.config.max_update_tokens)
            turn = self.apply(turn, text)
        if forced.has_own_response:
            return (yield from self.generate_response(turn, image)) if should_speak else turn
        opening = self.frames.answered_ids(frame)
        if response_ids is None and not opening:
            return turn
        # a user turn that is read behind its image opens a reply, if only an empty one
        opening, ids = opening or self.codec.response_opening, response_ids or ()
        self.writer.force(frame, "response", opening, ids, self.config.max_new_tokens)
        self.context.pending_ids += self.codec.stream_opening
        return replace(turn, response=forced.response, reasoning=read_reply(self.codec, ids)[1])

    def generate_own_turn(self, frame: int, image: ComputedItem, should_speak: bool, should_update: bool) -> TurnLoop:
        """Generate the model's own turn at a frame."""
        turn = AssistantTurn(frame=frame, should_speak=should_speak, state=self.state)
        if (should_update or should_speak) and self.frames.restart_lookahead() and self.speculator.is_drafting:
            # frames to draft after the end of the turn; the turn does not wait for them
            yield from self.frames.fetch(frame + 1, may_wait=False)
        turn = yield from self.generate_updates(turn, image, should_update)
        return (yield from self.generate_response(turn, image)) if should_speak else turn

    def generate_updates(self, turn: AssistantTurn, image: ComputedItem, should_update: bool) -> TurnLoop:
        """Generate the updates of a frame, and apply them to the state."""
        config, decision = self.config, image.decision or _UNDECIDED
        if self.asks and should_update:
            return self.apply_answers(turn, decision.answers)
        while should_update:
            self.context.pending_ids += self.codec.update_opening
            ids = yield from self.writer.generate(turn, "update", config.max_update_tokens)
            text = self.codec.text(ids)
            turn = self.apply(turn, text)
            has_room = len(turn.updates) < config.max_updates_per_frame
            should_update = has_room and (yield from self.should_update_again(turn))
            self.speculator.memory.record_update(text, is_followed=should_update)
        return turn

    def generate_response(self, turn: AssistantTurn, image: ComputedItem) -> TurnLoop:
        """Generate the response of a frame."""
        frame, config = turn.frame, self.config
        self.context.pending_ids += self.frames.answered_ids(frame) or self.codec.response_opening
        first = None if self.context.pending_ids else image.token
        ids = yield from self.writer.generate(turn, "response", config.max_new_tokens, first=first)
        self.context.pending_ids += self.codec.stream_opening
        self.speculator.record_response(self.codec.text(ids), turn=turn)
        response, reasoning = read_reply(self.codec, ids)
        return replace(turn, response=response, reasoning=reasoning)

    def apply_answers(self, turn: AssistantTurn, answers: Sequence[float]) -> AssistantTurn:
        """Apply the updates whose answers exceed the threshold, the most probable first; the model writes none."""
        config, questions = self.config, list_update_questions(self.task.steps, self.state)
        ranked = sorted(zip(answers, questions, strict=True), key=lambda found: -found[0])
        asked = [
            question.update
            for prob, question in ranked
            if config.policy.exceeds(prob, config.update_threshold, signal="update")
        ]
        for text in asked[: config.max_updates_per_frame]:
            turn = self.apply(turn, text)
        return turn

    def apply(self, turn: AssistantTurn, text: str) -> AssistantTurn:
        """Apply an update to the dialogue state, and return the turn with it."""
        change = apply_update(self.state, text, illegal=self.config.illegal_updates)
        self.state, legality = dict(change.state), (*turn.legality, change.legality)
        return replace(turn, updates=(*turn.updates, text), legality=legality, state=self.state)

    def should_update_again(self, turn: AssistantTurn) -> Generator[Request | FrameOutput, Answer, bool]:
        """Return whether a further update follows: the probability at the ``<eos>`` of the last one decides alone."""
        drafts = self.speculator.draft_after_update(turn)
        computed = yield from self.writer.feed_pending(drafts, frame=turn.frame, needs_decision=True)
        assert computed.decision is not None
        config, prob = self.config, computed.decision.update_prob
        return config.policy.exceeds(prob, config.update_threshold, signal="update")

    def summarize(self, frame: int) -> Generator[Request | FrameOutput, Answer, str]:
        """Ask for a summary of the context before a frame, with the frame before it, and return the text.

        A model that opens its own replies may refuse: with a probability of speaking below 0.5 the text is empty.

        **Source**: ``manage_kv_cache`` of ProAssist (mmassist/eval/runners/stream_inference.py) and its default of 0.5.
        """
        codec, context, last = self.codec, self.context, frame - 1
        request = codec.summary_request(after=context.pending_ids)
        ids = (*context.pending_ids, *(() if codec.answers_user_turns else request))
        image = self.frames.image_item(last)
        items = [*(FeedItem(piece=token) for token in ids), image]
        computed = yield from self.writer.feed(items, iter(()), frame=frame)
        context.pending_ids += request if codec.answers_user_turns else codec.response_opening
        if not context.pending_ids:
            assert computed.decision is not None, "a model that asks opens its replies"
            if computed.decision.speak_prob < _MIN_SUMMARY_PROB:
                return ""
        turn = AssistantTurn(frame=frame, should_speak=True, state={})
        first = None if context.pending_ids else computed.token
        written = yield from self.writer.generate(turn, "summary", self.config.max_summary_tokens, first=first)
        return read_reply(codec, written)[0]
