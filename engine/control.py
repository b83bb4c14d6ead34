"""The loop as control alone: it decides what happens next, and calls neither torch nor the model.

``control`` is a generator. It yields *requests* and is sent their answers: ``Frames`` asks which frames there
are and is sent their times; ``Pass`` asks for one model pass and is sent a ``Reading``. Between them it yields a
``FrameOutput`` per frame, answered by nothing. ``engine.stream`` joins it with a runner.

Per frame: user turns, the image, decisions at its last token; an update for as long as the update head fires
(read again after each ``<eos>``), then the response. A chunk of several frames is one pass: up to the first
trigger its decisions are those of frame-by-frame feeding, and what was fed after the trigger is cropped.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from engine.config import StreamConfig
from engine.decide import Decision, triggers
from engine.dialogue import apply_update, initial_state
from engine.errors import ContextError
from engine.records import FrameOutput, Step, UserTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Request: which of the frames from ``first`` on are there, ``most`` at most? Answered by their times."""

    first: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The image tokens of one frame, as a piece of a pass."""

    frame_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Request: crop the cache, feed, read."""

    keep: int
    """Cached tokens to keep; the cache is cropped to this length first."""
    feed: tuple[int | Image, ...]
    """Token ids and images, in order."""
    frames: range
    """Frames that this pass serves."""
    decide_at: tuple[int, ...] = ()
    """Positions, counted in tokens of this pass, at which the decisions are read."""
    pick_token: bool = False
    """Whether the next token is picked at the last position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Answer to a pass."""

    decisions: tuple[Decision, ...] = ()
    """One per position asked for."""
    token: int | None = None
    """The token picked, if one was asked for."""


Request = Frames | Pass
Answer = tuple[float, ...] | Reading | None
Control = Generator[Request | FrameOutput, Answer, None]


class Script(Protocol):
    """What control needs of ``engine.prompt.Prompt``."""

    update_id: int
    response_id: int
    eos_id: int

    def schema(self, *, goal: str, steps: Sequence[Step], state: Mapping[str, str]) -> tuple[int, ...]:
        """Return the ids of the system prompt."""

    def user_turn(self, text: str) -> tuple[int, ...]:
        """Return the ids of a user turn."""

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is streamed besides the frames."""

    goal: str = ""
    """What is being made or done; may be empty."""
    steps: tuple[Step, ...] = ()
    """The steps; none for a bare video."""
    user_turns: tuple[UserTurn, ...] = ()
    """What the user says; a turn enters before the image of frame ``floor(time_s * fps)``."""
    initial_state: Mapping[str, str] = field(default_factory=dict)
    """States at the start; steps that are not named have not started."""


def find_late_turns(task: Task, *, fps: float, num_frames: int) -> tuple[UserTurn, ...]:
    """Return the user turns that lie behind the end of a video of ``num_frames`` frames, and so are never fed."""
    return tuple(turn for turn in task.user_turns if int(turn.time_s * fps) >= num_frames)


def control(task: Task, *, config: StreamConfig, script: Script, tokens_per_frame: int) -> Control:
    """Return the control of one stream.

    Raises:
        ValueError: Steps or initial states that contradict one another.
        ContextError: A prompt or user turn that does not fit the context (raised while streaming).
    """
    return _Control(task, config=config, script=script, tokens_per_frame=tokens_per_frame).run()


class _Control:
    """The state of one stream: the context's length, what waits to be fed, what is believed."""

    def __init__(self, task: Task, *, config: StreamConfig, script: Script, tokens_per_frame: int) -> None:
        self.task, self.config, self.script = task, config, script
        self.tokens_per_frame = tokens_per_frame
        self.state = initial_state(task.steps, task.initial_state)
        self.length = 0
        self.pending: list[int] = []
        self.refreshed = False
        self.user_ids: dict[int, tuple[int, ...]] = {}
        for turn in sorted(task.user_turns, key=lambda turn: turn.time_s):
            frame = int(turn.time_s * config.fps)
            self.user_ids[frame] = self.user_ids.get(frame, ()) + script.user_turn(turn.text)
        self.begin()

    def run(self) -> Control:
        index, width = 0, self.config.prefill_frames
        while times := cast(tuple[float, ...], (yield Frames(first=index, most=width))):
            index += yield from self.chunk(index, times)
            width = self.config.lookahead

    def begin(self) -> None:
        """Drop the context; the schema prompt with the present state waits to be fed."""
        prompt = self.script.schema(goal=self.task.goal, steps=self.task.steps, state=self.state)
        if len(prompt) + self.tokens_per_frame >= self.config.refresh_at:
            raise ContextError(
                f"the schema prompt takes {len(prompt)} tokens, but the context has room for "
                f"{self.config.refresh_at - self.tokens_per_frame - 1}; shorten goal and steps or raise max_seq_len"
            )
        self.length, self.pending = 0, list(prompt)

    def chunk(self, first: int, times: tuple[float, ...]) -> Generator[Request | FrameOutput, Answer, int]:
        """Feed frames in one pass up to the first trigger. Returns how many are done with."""
        self.make_room(first)
        feed, ends = self.layout(first, len(times))
        base = self.length
        reading = yield Pass(
            keep=base,
            feed=feed,
            frames=range(first, first + len(ends)),
            decide_at=tuple(end - base - 1 for end in ends),
        )
        assert isinstance(reading, Reading)
        self.pending = []
        for frame, end, decision in zip(range(first, first + len(ends)), ends, reading.decisions, strict=True):
            self.length = end
            updates, response = yield from self.turn(frame, decision)
            yield self.output(frame, times[frame - first], decision, updates=updates, response=response)
            self.refreshed = self.context_tokens >= self.config.refresh_at
            if self.refreshed:
                self.begin()
            if self.refreshed or updates or response is not None:
                return frame - first + 1
        return len(ends)

    def layout(self, first: int, most: int) -> tuple[tuple[int | Image, ...], list[int]]:
        """Lay frames out after the pending tokens, until the context is full.

        Returns what is fed, and the context's length at the end of each frame.
        """
        feed: list[int | Image] = list(self.pending)
        length, ends = self.context_tokens, list[int]()
        for frame in range(first, first + most):
            user_ids = self.user_ids.get(frame, ())
            if ends and length + len(user_ids) + self.tokens_per_frame > self.room:
                break
            feed += [*user_ids, Image(frame_index=frame)]
            length += len(user_ids) + self.tokens_per_frame
            ends.append(length)
            if length >= self.config.refresh_at:
                break
        return tuple(feed), ends

    def make_room(self, frame: int) -> None:
        """Refresh early when a user turn would not fit any more."""
        needed = len(self.user_ids.get(frame, ())) + self.tokens_per_frame
        if self.context_tokens + needed > self.room and self.length > 0:
            self.begin()
            self.refreshed = True
        if self.context_tokens + needed > self.room:
            raise ContextError(
                f"the user turn at frame {frame} does not fit: with the prompt and the image it takes "
                f"{self.context_tokens + needed} tokens of {self.room}; shorten it or raise max_seq_len"
            )

    def turn(
        self, frame: int, decision: Decision
    ) -> Generator[Request | FrameOutput, Answer, tuple[tuple[str, ...], str | None]]:
        """Write the updates and the response that a decision triggers."""
        updates: list[str] = []
        fires = self.fires(decision.update_prob, self.config.update_threshold)
        while fires:
            text = yield from self.write(frame, self.script.update_id, self.config.max_update_tokens)
            updates.append(text)
            self.state = dict(apply_update(self.state, text, illegal=self.config.illegal_updates).state)
            fires = len(updates) < self.config.max_updates_per_frame and (yield from self.fires_again(frame))
        response = None
        if self.fires(decision.speak_prob, self.config.speak_threshold):
            response = yield from self.write(frame, self.script.response_id, self.config.max_new_tokens)
        return tuple(updates), response

    def write(self, frame: int, opening: int, most: int) -> Generator[Request | FrameOutput, Answer, str]:
        """Generate one turn of at most ``most`` tokens. Its ``<eos>`` waits to be fed."""
        ids: list[int] = []
        self.pending.append(opening)
        while len(ids) < most:
            reading = yield from self.feed_pending(frame, pick_token=True)
            assert reading.token is not None
            if reading.token == self.script.eos_id:
                break
            ids.append(reading.token)
            self.pending = [reading.token]
        self.pending.append(self.script.eos_id)
        return self.script.text(ids)

    def fires_again(self, frame: int) -> Generator[Request | FrameOutput, Answer, bool]:
        """Read the update head once more, at the ``<eos>`` of the update."""
        reading = yield from self.feed_pending(frame, decide=True)
        return self.fires(reading.decisions[0].update_prob, self.config.update_threshold)

    def feed_pending(
        self, frame: int, *, pick_token: bool = False, decide: bool = False
    ) -> Generator[Request | FrameOutput, Answer, Reading]:
        last = len(self.pending) - 1
        reading = yield Pass(
            keep=self.length,
            feed=tuple(self.pending),
            frames=range(frame, frame + 1),
            decide_at=(last,) if decide else (),
            pick_token=pick_token,
        )
        assert isinstance(reading, Reading)
        self.length += len(self.pending)
        self.pending = []
        return reading

    def output(
        self,
        frame: int,
        time_s: float,
        decision: Decision,
        *,
        updates: tuple[str, ...],
        response: str | None,
    ) -> FrameOutput:
        return FrameOutput(
            frame_index=frame,
            time_s=time_s,
            speak_prob=decision.speak_prob,
            update_prob=decision.update_prob,
            response=response,
            updates=updates,
            dst_state=dict(self.state),
            cache_tokens=self.context_tokens,
            refreshed=self.refreshed,
            latency_ms=0.0,
        )

    def fires(self, prob: float, threshold: float) -> bool:
        return triggers(prob, threshold, policy=self.config.decision_policy)

    @property
    def context_tokens(self) -> int:
        return self.length + len(self.pending)

    @property
    def room(self) -> int:
        """Longest context that an image may end at: the longest turn still fits behind it."""
        return self.config.max_seq_len - self.config.longest_turn
