"""The frames of a stream that are known to exist, and the texts that come with each."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import cast

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.draft_buffer import FeedItem
from stepscope.engine.control.intervention import Intervention
from stepscope.engine.control.prompt_codec import PromptCodec
from stepscope.engine.control.requests import Answer, FrameTimesRequest, Image, Request
from stepscope.engine.control.task import Task
from stepscope.engine.records import FrameOutput, frame_at

_MIN_LOOKAHEAD = 8
"""Frames per pass after a trigger; it then grows with the number of silent frames since."""
_MAX_PRIOR_FRAMES = 512
"""Frames per pass where an earlier run predicts their decisions."""


class Frames:
    """The known frames of a stream.

    ``list_questions`` returns the ids of the questions behind the image of a frame in a state. With ``has_prior_run``
    an earlier run predicts the decisions, so that a pass may feed many frames also after a trigger.
    """

    def __init__(
        self,
        task: Task,
        *,
        config: StreamConfig,
        codec: PromptCodec,
        list_questions: Callable[[int, Mapping[str, str] | None], tuple[tuple[int, ...], ...]],
        has_prior_run: bool,
        intervention: Intervention,
    ) -> None:
        self.end = 0
        """Frames before this index are known to exist."""
        self.separator = codec.frame_separator
        """The tokens after the last silent frame, which are drafted after the next ones."""
        self.user_texts: dict[int, list[str]] = {}
        self._answered_frames: set[int] = set()
        self._config, self._codec, self._list_questions = config, codec, list_questions
        self._has_prior_run, self._pictures = has_prior_run, intervention.pictures
        self.context_starts = intervention.begins_context
        """Frames before which the context begins again, in any case."""
        self._first = 0
        self._times: tuple[float, ...] = ()
        self._lookahead, self._num_silent = config.prefill_frames, 0
        add_user_turn = self.add_question if config.answer_user_turns else self.add_user_turn
        for turn in sorted(task.user_turns, key=lambda turn: turn.time_s):
            add_user_turn(frame_at(turn.time_s, config.fps), turn.text)
        for turn in sorted(task.questions, key=lambda turn: turn.time_s):
            self.add_question(frame_at(turn.time_s, config.fps), turn.text)

    def add_user_turn(self, frame: int, text: str) -> None:
        """Add a user turn before the image of a frame that was not fed yet."""
        self._codec.user_turns([text])  # raises for a text that is too long before it is kept
        self.user_texts.setdefault(frame, []).append(text)

    def add_question(self, frame: int, text: str) -> None:
        """Add a user turn that the assistant must answer at this frame, which was not fed yet."""
        self.add_user_turn(frame, text)
        self._answered_frames.add(frame)

    def must_answer(self, frame: int) -> bool:
        """Return whether a response follows this frame in any case."""
        return frame in self._answered_frames or (self._codec.answers_user_turns and frame in self.user_texts)

    def time_s(self, frame: int) -> float:
        """Return the time of a frame that was fetched last."""
        return self._times[frame - self._first]

    def fetch(self, first: int, *, may_wait: bool = True) -> Generator[Request | FrameOutput, Answer, None]:
        """Request the times of the next frames, as many as one pass may feed."""
        max_frames = _MAX_PRIOR_FRAMES if self._has_prior_run else self._lookahead
        answer = yield FrameTimesRequest(first=first, max_frames=max_frames, may_wait=may_wait)
        self._times = cast(tuple[float, ...], answer)
        self._first, self.end = first, first + len(self._times)

    def extend_lookahead(self) -> None:
        """Fetch more frames from now on: a frame was fed, silent so far."""
        self._num_silent += 1
        self._lookahead = min(self._config.lookahead, max(_MIN_LOOKAHEAD, self._num_silent))

    def restart_lookahead(self) -> bool:
        """Fetch few frames from now on: a frame has triggered. Return whether frames are drafted after its turn."""
        self._num_silent, self._lookahead = 0, min(self._config.lookahead, _MIN_LOOKAHEAD)
        return self._lookahead > 1 or self._has_prior_run

    def ids_before_image(self, frame: int, *, after: Sequence[int]) -> tuple[int, ...]:
        """Return the ids that precede the image of a frame: its user turns, and its time.

        ``after`` are the ids between the image or reply before and these texts.
        """
        codec, text = self._codec, ""
        if self._config.frame_text:
            # the instant of a live frame, which is numbered without the gaps
            text = self._config.text_before(round(self.time_s(frame) * self._config.fps))
        turns = () if codec.answers_user_turns else self.user_texts.get(frame, ())
        return codec.before_image(turns, text, after=after)

    def answered_ids(self, frame: int) -> tuple[int, ...]:
        """Return the ids of the user turns that follow the image of a frame, up to the reply."""
        texts = self.user_texts.get(frame)
        return self._codec.user_turns(texts) if texts and self._codec.answers_user_turns else ()

    def count_text_tokens(self, frame: int) -> int:
        """Return the most tokens of the user turns at a frame, and of its time."""
        before = (self.ids_before_image(frame, after=after) for after in ((), self._codec.stream_opening))
        return len(self.answered_ids(frame)) + max(map(len, before))

    def image_item(self, frame: int, state: Mapping[str, str] | None = None) -> FeedItem:
        """Return the image of a frame, with the values that are read there in a state, by default the present one."""
        questions = self._list_questions(frame, state)
        needs_decision = not questions and self._config.policy.source != "answer"
        needs_token = not self._codec.response_opening
        return FeedItem(
            piece=Image(frame_index=self._pictures.get(frame, frame)),
            needs_decision=needs_decision,
            needs_token=needs_token,
            questions=questions,
        )
