"""Lays out what a stream will probably feed next, behind what it must feed now.

Frames are guessed to stay silent, turns to say what the drafter says, and after a turn the stream to go on with what
is left of the frame and then with the next frames. Guesses are generators: they look at the pass as it is laid out, and
end where they know nothing or where the context is full.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from engine.ahead import Ahead, Fed
from engine.config import StreamConfig
from engine.dialogue import apply_update
from engine.draft import Drafter, Sayings, event_of
from engine.records import Step
from engine.requests import Image


class Words(Protocol):
    """What guesses need of ``engine.prompt.Prompt``."""

    update_id: int
    response_id: int
    eos_id: int

    def words(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text."""

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is written at one frame, as far as it is known."""

    frame: int
    """The frame."""
    speaks: bool
    """Whether a response follows the updates."""
    updates: tuple[str, ...] = ()
    """The updates so far."""
    state: Mapping[str, str]
    """The state after them."""


class Guesser:
    """Guesses for one stream.

    Args:
        config: How to stream; ``draft_tokens`` is the longest draft, and sampling switches drafts off.
        script: Texts to ids and back.
        goal: What is being made or done.
        steps: The task's steps.
        sayings: What was said before.
        user_ids: Token ids of the user turns, by frame.
        ahead: Where guesses are laid out.
    """

    def __init__(
        self,
        config: StreamConfig,
        *,
        script: Words,
        goal: str,
        steps: Sequence[Step],
        sayings: Sayings,
        user_ids: Mapping[int, tuple[int, ...]],
        ahead: Ahead,
    ) -> None:
        self.frames_end = 0
        """Frames before this one are known to be there."""
        self.drafts = config.draft_tokens > 0 and not config.do_sample
        self._config, self._script, self._user_ids, self._ahead = config, script, user_ids, ahead
        self._drafter = Drafter(
            script.words, eos_id=script.eos_id, goal=goal, steps=steps, most=config.draft_tokens, sayings=sayings
        )

    def updated(self, text: str, *, is_followed: bool) -> None:
        """Take note of whether an update was followed by another at its frame."""
        self._drafter.sayings.updated(text, is_followed=is_followed)

    def said(self, text: str, *, turn: Turn) -> None:
        """Take note of a response."""
        self._drafter.said(text, event=self._event(turn), state=turn.state)

    def frames(self, first: int) -> Iterator[Fed]:
        """Lay out the frames that are there, as silent ones, until the context is full."""
        ahead = self._ahead
        for frame in range(first, self.frames_end):
            user_ids = self._user_ids.get(frame, ())
            image = Image(frame_index=frame)
            is_full = ahead.reach + ahead.size((*user_ids, image)) > self._config.room
            if is_full or ahead.reach >= self._config.refresh_at:
                return
            yield from (Fed(piece=token) for token in user_ids)
            yield Fed(piece=image, decides=True)

    def rest(self, turn: Turn, opening: int, ids: Sequence[int]) -> Iterator[Fed]:
        """Lay out the rest of an update or a response of which ``ids`` are written, and what comes after it."""
        if not self.drafts:
            return
        is_update = opening == self._script.update_id
        draft, most = self._draft(turn, ids, is_update=is_update)
        for number, token in enumerate(draft, start=len(ids) + 1):
            is_end = token == self._script.eos_id
            if number >= most and not is_end:
                return
            yield Fed(piece=token, picks=not is_end, decides=is_end and is_update, is_draft=True)
        if draft and draft[-1] == self._script.eos_id:
            if is_update:
                text = self._script.text([*ids, *draft[:-1]])
                state = apply_update(turn.state, text, illegal=self._config.illegal_updates).state
                yield from self.after_update(replace(turn, updates=(*turn.updates, text), state=state))
            elif ids or self._drafter.sayings.is_steady(self._event(turn)):
                yield from self.frames(turn.frame + 1)

    def after_update(self, turn: Turn) -> Iterator[Fed]:
        """Lay out what follows the end of an update: another one, the response or the next frame."""
        if not self.drafts:
            return
        has_room = len(turn.updates) < self._config.max_updates_per_frame
        if has_room and self._drafter.sayings.is_followed(turn.updates[-1]):
            opening = self._script.update_id
        elif turn.speaks:
            opening = self._script.response_id
        else:
            yield from self.frames(turn.frame + 1)
            return
        yield Fed(piece=opening, picks=True)
        yield from self.rest(turn, opening, ())

    def _draft(self, turn: Turn, ids: Sequence[int], *, is_update: bool) -> tuple[tuple[int, ...], int]:
        """Return a draft, and how many tokens the whole text may have."""
        if is_update:
            return self._drafter.update(ids, state=turn.state), self._config.max_update_tokens
        event = self._event(turn)
        draft = self._drafter.response(ids, event=event, state=turn.state)
        return draft, self._config.max_new_tokens

    def _event(self, turn: Turn) -> str:
        """Name what a response answers: the frame's last update, the user, or what was seen."""
        if turn.updates:
            return event_of(turn.updates[-1])
        return "asked" if turn.frame in self._user_ids else "seen"
