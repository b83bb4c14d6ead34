"""The streaming controller of one video: pure control flow, without torch and without I/O.

``StreamController.run`` is a generator. It yields requests (``engine.control.requests``) and receives their results;
between them it yields one ``FrameOutput`` per frame. ``engine.streamer`` connects it to a runner.

Per frame the controller feeds the user turns and the image, and reads the decisions at the last image token. It then
generates updates while the update head triggers (read again after each ``<eos>``), and last the response. This module
defines streaming frame by frame and token by token. A pass may also carry drafts: silent next frames, and the tokens
of a turn (see ``engine.control.draft_buffer``). Drafts change the number of passes and nothing else.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import cache

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.context import StreamContext
from stepscope.engine.control.draft_buffer import ComputedItem, DraftBuffer, FeedItem
from stepscope.engine.control.drafter import ResponseMemory
from stepscope.engine.control.feeder import Feeder
from stepscope.engine.control.frames import Frames
from stepscope.engine.control.prompt_codec import PromptCodec, count_overhead, count_summary
from stepscope.engine.control.questions import (
    SPEAK_QUESTION,
    STEP_QUESTIONS,
    StateReader,
    decide_by_answers,
    list_update_questions,
)
from stepscope.engine.control.requests import (
    Answer,
    ControlLoop,
    Decision,
    PassCounts,
    Request,
)
from stepscope.engine.control.speculator import AssistantTurn, PriorRun, Speculator
from stepscope.engine.control.task import Task
from stepscope.engine.decisions.signals import RESPONSE
from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.errors import ContextError
from stepscope.engine.records import Forgotten, FrameOutput

_UNDECIDED = Decision(speak_prob=math.nan, update_prob=math.nan)
"""The decision at a frame without questions."""


class StreamController:
    """Controls one stream: its context, its dialogue state, and the items to feed next.

    ``memory`` has earlier responses, for drafts; ``prior_run`` is an earlier run of the same frames and task with other
    thresholds. With ``is_traced`` the trace keeps all contexts, not only the present one. With ``reports_text``,
    ``run`` yields a ``TextProgress`` after each token of a response.

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
        is_traced: bool = False,
        reports_text: bool = False,
    ) -> None:
        self.states = StateReader(config, codec) if config.policy.reads_states else None
        if self.states is not None:
            codec = self.states.codec
        self.task, self.config, self.codec = task, config, codec
        self.tokens_per_frame = tokens_per_frame
        self.state = initial_state(task.steps, task.initial_state)
        self.is_traced = is_traced
        self.draft_buffer = DraftBuffer(
            tokens_per_frame,
            prior_trace=prior_run.trace if prior_run else None,
            decide=decide_by_answers if self.states is None else self.states.decide,
        )
        self.context = StreamContext(
            task,
            config=config,
            codec=codec,
            tokens_per_frame=tokens_per_frame,
            draft_buffer=self.draft_buffer,
            is_traced=is_traced,
        )
        self.asks = config.policy.source == "answer"
        self._encode_question = cache(lambda text: codec.question(text))
        self.speaking, self.updating = config.count_triggers("speak"), config.count_triggers("update")
        summary_tokens = count_summary(codec, config, tokens_per_frame=tokens_per_frame)
        self.room = config.room - count_overhead(codec) - summary_tokens - self._count_question_tokens()
        """Maximum context length after an image and its user turns, such that the longest turn still fits."""
        self.frames = Frames(
            task,
            config=config,
            codec=codec,
            list_questions=self.list_questions,
            has_prior_run=prior_run is not None,
        )
        self.speculator = Speculator(
            config,
            codec=codec,
            goal=task.goal,
            steps=task.steps,
            memory=memory or ResponseMemory(),
            frames=self.frames,
            draft_buffer=self.draft_buffer,
            prior_run=prior_run,
            room=self.room,
        )
        self.feeder = Feeder(
            config,
            codec=codec,
            context=self.context,
            draft_buffer=self.draft_buffer,
            frames=self.frames,
            speculator=self.speculator,
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
            turn, response = yield from self.generate_turn(frame, image)
            signals, state = self.describe_state(decision, response)
            if response is None:
                self.context.pending_ids += self.frames.separator
            self.context.end_frame(has_user_turn=frame in self.frames.user_texts)
            yield FrameOutput(
                frame_index=frame,
                time_s=time_s,
                speak_prob=decision.speak_prob,
                update_prob=decision.update_prob,
                response=response,
                updates=turn.updates,
                dst_state=dict(self.state),
                cache_tokens=self.context.num_tokens,
                refreshed=forgotten is not None,
                latency_ms=0.0,
                legality=turn.legality,
                forgotten=forgotten,
                signals=signals,
                state=state,
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
        computed = yield from self.feeder.forward(items, self.speculator.draft_frames(frame + 1), frame=frame)
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

    def list_questions(self, frame: int) -> tuple[tuple[int, ...], ...]:
        """Return the ids of the questions behind an image: whether to speak, and about the steps in the present state.

        They are those of the states if the policy reads states, and none at a frame that has no decisions.
        """
        if self.states is not None:
            return self.states.branches
        if not self.asks or not self.config.decides_at(frame):
            return ()
        texts = (SPEAK_QUESTION, *(question.text for question in list_update_questions(self.task.steps, self.state)))
        return tuple(map(self._encode_question, texts))

    def _count_question_tokens(self) -> int:
        if self.states is not None:
            return max(map(len, self.states.separators.values()))
        if not self.asks:
            return 0
        texts = [question.format(name=step.name) for step in self.task.steps for question in STEP_QUESTIONS]
        return max(len(self._encode_question(text)) for text in (SPEAK_QUESTION, *texts))

    def make_room(self, frame: int) -> Generator[Request | FrameOutput, Answer, Forgotten | None]:
        """Shorten the context before a frame if it is full, or if the frame does not fit; return the part forgotten.

        Raises ``ContextError`` if the frame does not fit in any case.
        """
        context, forgotten = self.context, None
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
                summary = yield from self.feeder.summarize(frame)
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

    def generate_turn(
        self, frame: int, image: ComputedItem
    ) -> Generator[Request | FrameOutput, Answer, tuple[AssistantTurn, str | None]]:
        """Generate the updates and the response that the decisions at an image trigger, or a user turn demands."""
        config, decision = self.config, image.decision or _UNDECIDED
        should_speak = self.speaking.add(decision.speak_prob) or self.frames.must_answer(frame)
        should_update = self.updating.add(decision.update_prob)
        turn = AssistantTurn(frame=frame, should_speak=should_speak, state=self.state)
        if (should_update or should_speak) and self.frames.restart_lookahead() and self.speculator.is_drafting:
            # frames to draft after the end of the turn; the turn does not wait for them
            yield from self.frames.fetch(frame + 1, may_wait=False)
        if self.asks and should_update:
            turn, should_update = self.apply_answers(turn, decision.answers), False
        while should_update:
            self.context.pending_ids += self.codec.update_opening
            text = yield from self.feeder.generate_text(turn, "update", config.max_update_tokens)
            change = apply_update(self.state, text, illegal=config.illegal_updates)
            self.state = dict(change.state)
            legality = (*turn.legality, change.legality)
            turn = replace(turn, updates=(*turn.updates, text), legality=legality, state=self.state)
            has_room = len(turn.updates) < config.max_updates_per_frame
            should_update = has_room and (yield from self.should_update_again(turn))
            self.speculator.memory.record_update(text, is_followed=should_update)
        if not should_speak:
            return turn, None
        self.context.pending_ids += self.frames.answered_ids(frame) or self.codec.response_opening
        first = None if self.context.pending_ids else image.token
        response = yield from self.feeder.generate_text(turn, "response", config.max_new_tokens, first=first)
        self.context.pending_ids += self.codec.stream_opening
        self.speculator.record_response(response, turn=turn)
        return turn, response

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
            change = apply_update(self.state, text, illegal=config.illegal_updates)
            self.state = dict(change.state)
            legality = (*turn.legality, change.legality)
            turn = replace(turn, updates=(*turn.updates, text), legality=legality, state=self.state)
        return turn

    def should_update_again(self, turn: AssistantTurn) -> Generator[Request | FrameOutput, Answer, bool]:
        """Return whether a further update follows: the probability at the ``<eos>`` of the last one decides alone."""
        drafts = self.speculator.draft_after_update(turn)
        items = self.feeder.pending_items(needs_decision=True)
        computed = yield from self.feeder.forward(items, drafts, frame=turn.frame)
        assert computed.decision is not None
        config, prob = self.config, computed.decision.update_prob
        return config.policy.exceeds(prob, config.update_threshold, signal="update")
