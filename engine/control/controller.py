"""The loop as control alone: it decides what happens next, and calls neither torch nor the model.

``control`` is a generator. It yields *requests* (``engine.control.requests``) and is sent their answers; between them
it yields a ``FrameOutput`` per frame, answered by nothing. ``engine.streamer`` joins it with a runner.

Per frame: user turns, the image, decisions at its last token; an update for as long as the update head fires
(read again after each ``<eos>``), then the response. What stands here is the definition, frame by frame and token by
token. Behind what must be fed, a pass may feed guesses: that the next frames are silent, and what a turn says (see
``engine.control.draft_buffer``). They change how many passes are made, and nothing else.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from engine.config import StreamConfig
from engine.control.draft_buffer import Ahead, Fed, Read
from engine.control.drafter import Sayings
from engine.control.policies import Decision, triggers, triggers_update
from engine.control.requests import Answer, Control, Frames, Image, PassCounts, Request
from engine.control.speculator import Guesser, Past, Turn
from engine.dialogue import apply_update, initial_state
from engine.errors import ContextError
from engine.records import FrameOutput, Step, UserTurn, frame_at

_FIRST_WIDTH = 8
"""Frames that are fed together after a trigger; later as many as have stayed silent since."""
_RETOLD_WIDTH = 512
"""Frames that are fed together where an earlier run tells what they trigger."""
Writing = Generator[Request | FrameOutput, Answer, str]


class Script(Protocol):
    """What control needs of ``engine.model.prompt.Prompt``."""

    update_id: int
    response_id: int
    eos_id: int

    def schema(self, *, goal: str, steps: Sequence[Step], state: Mapping[str, str]) -> tuple[int, ...]:
        """Return the ids of the system prompt."""

    def user_turn(self, text: str) -> tuple[int, ...]:
        """Return the ids of a user turn."""

    def words(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text."""

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
    return tuple(turn for turn in task.user_turns if frame_at(turn.time_s, fps) >= num_frames)


def control(task: Task, *, config: StreamConfig, script: Script, tokens_per_frame: int) -> Control:
    """Return the requests and outputs of one stream, in order; see ``Steering``."""
    return Steering(task, config=config, script=script, tokens_per_frame=tokens_per_frame).run()


class Steering:
    """The control of one stream: the context's length, what waits to be fed, what is believed.

    Args:
        task: What is streamed besides the frames.
        config: How.
        script: Texts to ids and back.
        tokens_per_frame: Tokens of an image.
        sayings: What streams said before, to guess from.
        past: An earlier run of the same frames and task, with other thresholds.
        is_traced: Whether ``trace`` keeps all that is fed and read, not only the present context.

    Raises:
        ValueError: Steps or initial states that contradict one another.
        ContextError: A prompt or user turn that does not fit the context (raised while streaming, too).
    """

    def __init__(
        self,
        task: Task,
        *,
        config: StreamConfig,
        script: Script,
        tokens_per_frame: int,
        sayings: Sayings | None = None,
        past: Past | None = None,
        is_traced: bool = False,
    ) -> None:
        self.task, self.config, self.script = task, config, script
        self.tokens_per_frame = tokens_per_frame
        self.state = initial_state(task.steps, task.initial_state)
        self.length = 0
        self.pending: list[int] = []
        self.refreshed = False
        self.is_traced = is_traced
        self.ahead = Ahead(tokens_per_frame, past=past.trace if past else None)
        self.first, self.times = 0, cast(tuple[float, ...], ())
        self.width = config.prefill_frames
        self.is_retold = past is not None
        self.num_silent = 0
        self.user_ids: dict[int, tuple[int, ...]] = {}
        for turn in sorted(task.user_turns, key=lambda turn: turn.time_s):
            frame = frame_at(turn.time_s, config.fps)
            self.user_ids[frame] = self.user_ids.get(frame, ()) + script.user_turn(turn.text)
        self.guesser = Guesser(
            config,
            script=script,
            goal=task.goal,
            steps=task.steps,
            sayings=sayings or Sayings(),
            user_ids=self.user_ids,
            ahead=self.ahead,
            past=past,
        )
        self.begin()

    @property
    def counts(self) -> PassCounts:
        """What the stream has cost so far."""
        return self.ahead.counts

    def run(self) -> Control:
        """Return the requests and outputs, in order."""
        frame = 0
        while (yield from self.is_there(frame)):
            time_s = self.times[frame - self.first]
            self.make_room(frame)
            if self.is_traced:
                self.ahead.enter(frame)
            decision = yield from self.see(frame)
            turn, response = yield from self.turn(frame, decision)
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
            )
            self.refreshed = self.context_tokens >= self.config.refresh_at
            if self.refreshed:
                self.begin()
            frame += 1

    def begin(self) -> None:
        """Drop the context; the schema prompt with the present state waits to be fed."""
        prompt = self.script.schema(goal=self.task.goal, steps=self.task.steps, state=self.state)
        if len(prompt) + self.tokens_per_frame >= self.config.refresh_at:
            raise ContextError(
                f"the schema prompt takes {len(prompt)} tokens, but the context has room for "
                f"{self.config.refresh_at - self.tokens_per_frame - 1}; shorten goal and steps or raise max_seq_len"
            )
        self.length, self.pending = 0, list(prompt)
        self.ahead.begin(is_traced=self.is_traced, prompt_tokens=len(prompt))

    def is_there(self, frame: int) -> Generator[Request | FrameOutput, Answer, bool]:
        """Whether the video has this frame. Where nothing is guessed, look ``width`` frames ahead."""
        if not self.ahead or frame >= self.guesser.frames_end:
            yield from self.look(frame)
        return frame < self.guesser.frames_end

    def look(self, first: int) -> Generator[Request | FrameOutput, Answer, None]:
        """Ask which frames are there, ``width`` at most."""
        most = _RETOLD_WIDTH if self.is_retold else self.width
        self.times = cast(tuple[float, ...], (yield Frames(first=first, most=most)))
        self.first, self.guesser.frames_end = first, first + len(self.times)

    def see(self, frame: int) -> Generator[Request | FrameOutput, Answer, Decision]:
        """Feed the user turns and the image of a frame; read its decisions."""
        tokens = (*self.pending, *self.user_ids.get(frame, ()))
        pieces = [*(Fed(piece=token) for token in tokens), Fed(piece=Image(frame_index=frame), decides=True)]
        read = yield from self.feed(pieces, self.guesser.frames(frame + 1), frame=frame)
        self.num_silent += 1
        self.width = min(self.config.lookahead, max(_FIRST_WIDTH, self.num_silent))
        assert read.decision is not None
        return read.decision

    def feed(
        self, pieces: Sequence[Fed], guesses: Iterator[Fed], *, frame: int
    ) -> Generator[Request | FrameOutput, Answer, Read]:
        """Feed pieces, unless they were guessed and fed before. Returns what was read at the last."""
        if not self.ahead.holds(pieces):
            yield from self.ahead.feed(pieces, guesses, keep=self.length, frame=frame)
        read = self.ahead.take(len(pieces))
        self.length += self.ahead.size(fed.piece for fed in pieces)
        self.pending = []
        return read

    def make_room(self, frame: int) -> None:
        """Refresh early when a user turn would not fit any more."""
        needed = len(self.user_ids.get(frame, ())) + self.tokens_per_frame
        if self.context_tokens + needed > self.config.room and self.length > 0:
            self.begin()
            self.refreshed = True
        if self.context_tokens + needed > self.config.room:
            raise ContextError(
                f"the user turn at frame {frame} does not fit: with the prompt and the image it takes "
                f"{self.context_tokens + needed} tokens of {self.config.room}; shorten it or raise max_seq_len"
            )

    def turn(self, frame: int, decision: Decision) -> Generator[Request | FrameOutput, Answer, tuple[Turn, str | None]]:
        """Write the updates and the response that a decision triggers."""
        config = self.config
        speaks = triggers(decision.speak_prob, config.speak_threshold, policy=config.decision_policy)
        turn = Turn(frame=frame, speaks=speaks, state=self.state)
        fires = self.fires(decision)
        if fires or speaks:
            self.num_silent, self.width = 0, min(config.lookahead, _FIRST_WIDTH)
            if self.guesser.drafts and (self.width > 1 or self.is_retold):
                yield from self.look(frame + 1)
        while fires:
            text = yield from self.write(turn, self.script.update_id, config.max_update_tokens)
            self.state = dict(apply_update(self.state, text, illegal=config.illegal_updates).state)
            turn = replace(turn, updates=(*turn.updates, text), state=self.state)
            fires = len(turn.updates) < config.max_updates_per_frame and (yield from self.fires_again(turn))
            self.guesser.updated(text, is_followed=fires)
        if not speaks:
            return turn, None
        response = yield from self.write(turn, self.script.response_id, config.max_new_tokens)
        self.guesser.said(response, turn=turn)
        return turn, response

    def write(self, turn: Turn, opening: int, most: int) -> Writing:
        """Generate one turn of at most ``most`` tokens. Its ``<eos>`` waits to be fed."""
        ids: list[int] = []
        self.pending.append(opening)
        while len(ids) < most:
            pieces = [Fed(piece=token) for token in self.pending]
            pieces[-1] = Fed(piece=self.pending[-1], picks=True)
            read = yield from self.feed(pieces, self.guesser.rest(turn, opening, ids), frame=turn.frame)
            assert read.token is not None
            if read.token == self.script.eos_id:
                break
            ids.append(read.token)
            self.pending = [read.token]
        self.pending.append(self.script.eos_id)
        return self.script.text(ids)

    def fires_again(self, turn: Turn) -> Generator[Request | FrameOutput, Answer, bool]:
        """Read the update head once more, at the ``<eos>`` of the update."""
        pieces = [Fed(piece=token) for token in self.pending]
        pieces[-1] = Fed(piece=self.pending[-1], decides=True)
        read = yield from self.feed(pieces, self.guesser.after_update(turn), frame=turn.frame)
        assert read.decision is not None
        return self.fires(read.decision)

    def fires(self, decision: Decision) -> bool:
        """Whether a decision triggers an update."""
        config = self.config
        return triggers_update(decision.update_prob, config.update_threshold, policy=config.decision_policy)

    @property
    def context_tokens(self) -> int:
        """Length of the context, with what waits to be fed."""
        return self.length + len(self.pending)
