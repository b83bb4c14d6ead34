"""The streaming controller of one video: pure control flow, without torch and without I/O.

``StreamController.run`` is a generator. It yields requests (``engine.control.requests``) and receives their results;
between them it yields one ``FrameOutput`` per frame. ``engine.streamer`` connects it to a runner.

Per frame the controller feeds the user turns and the image, and reads the decisions at the last image token. It then
generates updates while the update head triggers (read again after each ``<eos>``), and last the response. This module
defines streaming frame by frame and token by token. A pass may also carry drafts: silent next frames, and the tokens
of a turn (see ``engine.control.draft_buffer``). Drafts change the number of passes and nothing else.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from engine.config import StreamConfig
from engine.control.draft_buffer import ComputedItem, DraftBuffer, FeedItem
from engine.control.drafter import ResponseMemory
from engine.control.prompt_codec import PromptCodec
from engine.control.requests import Answer, ControlLoop, Decision, FrameTimesRequest, Image, PassCounts, Request
from engine.control.speculator import AssistantTurn, PriorRun, Speculator
from engine.dialogue import apply_update, initial_state
from engine.errors import ContextError
from engine.records import FrameOutput, Step, UserTurn, frame_at

_MIN_LOOKAHEAD = 8
"""Frames per pass after a trigger; it then grows with the number of silent frames since."""
_MAX_PRIOR_FRAMES = 512
"""Frames per pass where an earlier run predicts their decisions."""
_TextLoop = Generator[Request | FrameOutput, Answer, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The task of a stream: all inputs except the frames."""

    goal: str = ""
    """The goal; may be empty."""
    steps: tuple[Step, ...] = ()
    """The steps; none for a video without a task."""
    user_turns: tuple[UserTurn, ...] = ()
    """User turns; each is fed before the image of frame ``floor(time_s * fps)``."""
    initial_state: Mapping[str, str] = field(default_factory=dict)
    """Initial states by step id; steps without an entry are not started."""


def find_late_turns(task: Task, *, fps: float, num_frames: int) -> tuple[UserTurn, ...]:
    """Return the user turns after the end of a video of ``num_frames`` frames, which are never fed."""
    return tuple(turn for turn in task.user_turns if frame_at(turn.time_s, fps) >= num_frames)


class StreamController:
    """Controls one stream: its context, its dialogue state, and the items to feed next.

    Args:
        task: The task.
        config: Stream settings.
        codec: Texts to ids and back.
        tokens_per_frame: Tokens of an image.
        memory: Earlier responses, for drafts.
        prior_run: An earlier run of the same frames and task with other thresholds.
        is_traced: Whether the trace keeps all contexts, not only the present one.

    Raises:
        ValueError: Steps or initial states that contradict one another.
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
    ) -> None:
        self.task, self.config, self.codec = task, config, codec
        self.tokens_per_frame = tokens_per_frame
        self.state = initial_state(task.steps, task.initial_state)
        self.num_fed = 0
        """Confirmed tokens of the context."""
        self.pending_ids: list[int] = []
        """Tokens of the context that wait for the next pass, such as the ``<eos>`` of the last turn."""
        self.refreshed = False
        self.is_traced = is_traced
        self.draft_buffer = DraftBuffer(tokens_per_frame, prior_trace=prior_run.trace if prior_run else None)
        self.first_frame, self.frame_times = 0, cast(tuple[float, ...], ())
        self.lookahead = config.prefill_frames
        self.has_prior_run = prior_run is not None
        self.num_silent_frames = 0
        self.speaking, self.updating = config.count_triggers("speak"), config.count_triggers("update")
        self.user_ids: dict[int, tuple[int, ...]] = {}
        for turn in sorted(task.user_turns, key=lambda turn: turn.time_s):
            frame = frame_at(turn.time_s, config.fps)
            self.user_ids[frame] = self.user_ids.get(frame, ()) + codec.user_turn(turn.text)
        self.speculator = Speculator(
            config,
            codec=codec,
            goal=task.goal,
            steps=task.steps,
            memory=memory or ResponseMemory(),
            user_ids=self.user_ids,
            draft_buffer=self.draft_buffer,
            prior_run=prior_run,
        )
        self.reset_context()

    @property
    def counts(self) -> PassCounts:
        """Cost of the stream so far."""
        return self.draft_buffer.counts

    def run(self) -> ControlLoop:
        """Yield requests and, in order, one output per frame."""
        frame = 0
        while (yield from self.has_frame(frame)):
            time_s = self.frame_times[frame - self.first_frame]
            self.make_room(frame)
            if self.is_traced:
                self.draft_buffer.mark_frame(frame)
            decision = yield from self.step(frame)
            turn, response = yield from self.generate_turn(frame, decision)
            yield FrameOutput(
                frame_index=frame,
                time_s=time_s,
                speak_prob=decision.speak_prob,
                update_prob=decision.update_prob,
                response=response,
                updates=turn.updates,
                dst_state=dict(self.state),
                cache_tokens=self.context_tokens,
                refreshed=self.refreshed,
                latency_ms=0.0,
                legality=turn.legality,
            )
            self.refreshed = self.context_tokens >= self.config.refresh_at
            if self.refreshed:
                self.reset_context()
            frame += 1

    def reset_context(self) -> None:
        """Begin a new context: the schema prompt with the present state is pending."""
        prompt = self.codec.schema(goal=self.task.goal, steps=self.task.steps, state=self.state)
        if len(prompt) + self.tokens_per_frame >= self.config.refresh_at:
            raise ContextError(
                f"the schema prompt takes {len(prompt)} tokens, but the context has room for "
                f"{self.config.refresh_at - self.tokens_per_frame - 1}; shorten goal and steps or raise max_seq_len"
            )
        self.num_fed, self.pending_ids = 0, list(prompt)
        self.draft_buffer.start_context(is_traced=self.is_traced, num_prompt_tokens=len(prompt))

    def has_frame(self, frame: int) -> Generator[Request | FrameOutput, Answer, bool]:
        """Return whether the video has this frame. Without a pending draft, fetch the next frames first."""
        if self.draft_buffer.is_empty or frame >= self.speculator.frames_end:
            yield from self.fetch_frame_times(frame)
        return frame < self.speculator.frames_end

    def fetch_frame_times(self, first: int) -> Generator[Request | FrameOutput, Answer, None]:
        """Request the times of the next frames, as many as one pass may feed."""
        max_frames = _MAX_PRIOR_FRAMES if self.has_prior_run else self.lookahead
        answer = yield FrameTimesRequest(first=first, max_frames=max_frames)
        self.frame_times = cast(tuple[float, ...], answer)
        self.first_frame, self.speculator.frames_end = first, first + len(self.frame_times)

    def step(self, frame: int) -> Generator[Request | FrameOutput, Answer, Decision]:
        """Feed the user turns and the image of a frame; return its decisions."""
        tokens = (*self.pending_ids, *self.user_ids.get(frame, ()))
        image = FeedItem(piece=Image(frame_index=frame), needs_decision=True)
        items = [*(FeedItem(piece=token) for token in tokens), image]
        computed = yield from self.forward(items, self.speculator.draft_frames(frame + 1), frame=frame)
        self.num_silent_frames += 1
        self.lookahead = min(self.config.lookahead, max(_MIN_LOOKAHEAD, self.num_silent_frames))
        assert computed.decision is not None
        return computed.decision

    def forward(
        self, items: Sequence[FeedItem], drafts: Iterator[FeedItem], *, frame: int
    ) -> Generator[Request | FrameOutput, Answer, ComputedItem]:
        """Feed items, unless they were fed as a draft before; return the results at the last one."""
        if not self.draft_buffer.matches(items):
            yield from self.draft_buffer.forward(items, drafts, num_cached=self.num_fed, frame=frame)
        computed = self.draft_buffer.accept(len(items))
        self.num_fed += self.draft_buffer.count_tokens(item.piece for item in items)
        self.pending_ids = []
        return computed

    def make_room(self, frame: int) -> None:
        """Refresh the context early if a user turn would not fit. Raises ``ContextError`` if it never fits."""
        needed = len(self.user_ids.get(frame, ())) + self.tokens_per_frame
        if self.context_tokens + needed > self.config.room and self.num_fed > 0:
            self.reset_context()
            self.refreshed = True
        if self.context_tokens + needed > self.config.room:
            raise ContextError(
                f"the user turn at frame {frame} does not fit: with the prompt and the image it takes "
                f"{self.context_tokens + needed} tokens of {self.config.room}; shorten it or raise max_seq_len"
            )

    def generate_turn(
        self, frame: int, decision: Decision
    ) -> Generator[Request | FrameOutput, Answer, tuple[AssistantTurn, str | None]]:
        """Generate the updates and the response that a decision triggers."""
        config = self.config
        should_speak = self.speaking.add(decision.speak_prob)
        should_update = self.updating.add(decision.update_prob)
        turn = AssistantTurn(frame=frame, should_speak=should_speak, state=self.state)
        if should_update or should_speak:
            self.num_silent_frames, self.lookahead = 0, min(config.lookahead, _MIN_LOOKAHEAD)
            if self.speculator.is_drafting and (self.lookahead > 1 or self.has_prior_run):
                yield from self.fetch_frame_times(frame + 1)  # frames to draft after the end of the turn
        while should_update:
            text = yield from self.generate_text(turn, self.codec.update_id, config.max_update_tokens)
            change = apply_update(self.state, text, illegal=config.illegal_updates)
            self.state = dict(change.state)
            legality = (*turn.legality, change.legality)
            turn = replace(turn, updates=(*turn.updates, text), legality=legality, state=self.state)
            has_room = len(turn.updates) < config.max_updates_per_frame
            should_update = has_room and (yield from self.should_update_again(turn))
            self.speculator.record_update(text, is_followed=should_update)
        if not should_speak:
            return turn, None
        response = yield from self.generate_text(turn, self.codec.response_id, config.max_new_tokens)
        self.speculator.record_response(response, turn=turn)
        return turn, response

    def generate_text(self, turn: AssistantTurn, opening: int, max_tokens: int) -> _TextLoop:
        """Generate one update or response of at most ``max_tokens`` tokens. Its ``<eos>`` stays pending."""
        ids: list[int] = []
        self.pending_ids.append(opening)
        while len(ids) < max_tokens:
            drafts = self.speculator.draft_text(turn, opening, ids)
            computed = yield from self.forward(self.pending_items(needs_token=True), drafts, frame=turn.frame)
            assert computed.token is not None
            if computed.token == self.codec.eos_id:
                break
            ids.append(computed.token)
            self.pending_ids = [computed.token]
        self.pending_ids.append(self.codec.eos_id)
        return self.codec.text(ids)

    def should_update_again(self, turn: AssistantTurn) -> Generator[Request | FrameOutput, Answer, bool]:
        """Return whether a further update follows: the probability at the ``<eos>`` of the last one decides alone."""
        drafts = self.speculator.draft_after_update(turn)
        computed = yield from self.forward(self.pending_items(needs_decision=True), drafts, frame=turn.frame)
        assert computed.decision is not None
        config, prob = self.config, computed.decision.update_prob
        return config.policy.exceeds(prob, config.update_threshold, signal="update")

    def pending_items(self, *, needs_decision: bool = False, needs_token: bool = False) -> list[FeedItem]:
        """Return the pending tokens as items; the values are read at the last one."""
        *front, last = self.pending_ids
        last_item = FeedItem(piece=last, needs_decision=needs_decision, needs_token=needs_token)
        return [*(FeedItem(piece=token) for token in front), last_item]

    @property
    def context_tokens(self) -> int:
        """Length of the context in tokens, pending tokens included."""
        return self.num_fed + len(self.pending_ids)
