"""Lays out what a stream will probably feed next, behind what it must feed now.

Frames are guessed to stay silent, turns to say what the drafter says, and after a turn the stream to go on with what
is left of the frame and then with the next frames. Guesses are generators: they look at the pass as it is laid out, and
end where they know nothing or where the context is full.
"""

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from engine.config import StreamConfig
from engine.control.draft_buffer import Ahead, Fed, Trace
from engine.control.drafter import Drafter, Sayings, event_of
from engine.control.policies import triggers, triggers_update
from engine.control.requests import Image
from engine.dialogue import apply_update
from engine.records import FrameOutput, Step

_BEHIND_DRAFT = 8
"""Pieces that are laid out behind a drafted response, at most: a frame that an earlier run tells of takes several."""


class Words(Protocol):
    """What guesses need of ``engine.model.prompt.Prompt``."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """An earlier run of the same frames."""

    outputs: tuple[FrameOutput, ...]
    """What it gave: the best guess of what is said now. It need not be right."""
    trace: Trace | None = None
    """What it fed and read, which must be right: it is not read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What an earlier run wrote at one frame, as token ids without the end of turn."""

    output: FrameOutput
    updates: tuple[tuple[int, ...], ...]
    response: tuple[int, ...] | None


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
        past: An earlier run.
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
        past: Past | None = None,
    ) -> None:
        self.frames_end = 0
        """Frames before this one are known to be there."""
        self.drafts = config.draft_tokens > 0 and not config.do_sample
        self._config, self._script, self._user_ids, self._ahead = config, script, user_ids, ahead
        self._past = _tell(past, script) if past else {}
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
            if frame in self._past and not (yield from self._retell(self._past[frame])):
                return

    def _retell(self, told: _Told) -> Generator[Fed, None, bool]:
        """Lay out what an earlier run wrote at a frame, if it is to be written now; return whether that is known."""
        script, config, output = self._script, self._config, told.output
        fires = triggers_update(output.update_prob, config.update_threshold, policy=config.decision_policy)
        speaks = triggers(output.speak_prob, config.speak_threshold, policy=config.decision_policy)
        if (fires or speaks) and not self.drafts:
            return False
        if (fires and not told.updates) or (speaks and told.response is None):
            return False
        turns = [(script.update_id, ids) for ids in told.updates if fires]
        turns += [(script.response_id, told.response)] if speaks and told.response is not None else []
        if not self._can_be_written(turns):
            return False
        for opening, ids in turns:
            yield Fed(piece=opening, picks=True)
            yield from (Fed(piece=token, picks=True, is_draft=True) for token in ids)
            yield Fed(piece=script.eos_id, decides=opening == script.update_id, is_draft=True)
        return True

    def _can_be_written(self, turns: Sequence[tuple[int, tuple[int, ...]]]) -> bool:
        """Whether a frame may hold these turns: what an earlier run was allowed can be more."""
        config, update_id = self._config, self._script.update_id
        updates = [ids for opening, ids in turns if opening == update_id]
        responses = [ids for opening, ids in turns if opening != update_id]
        return (
            len(updates) <= config.max_updates_per_frame
            and all(len(ids) <= config.max_update_tokens for ids in updates)
            and all(len(ids) <= config.max_new_tokens for ids in responses)
        )

    def rest(self, turn: Turn, opening: int, ids: Sequence[int]) -> Iterator[Fed]:
        """Lay out the rest of an update or a response of which ``ids`` are written, and what comes after it."""
        if not self.drafts:
            return
        is_update = opening == self._script.update_id
        draft, most = self._draft(turn, ids, is_update=is_update)
        for number, token in enumerate(draft, start=len(ids) + 1):
            is_end = token == self._script.eos_id
            yield Fed(piece=token, picks=not is_end, decides=is_end and is_update, is_draft=True)
            if number == most and not is_end:  # the longest text is closed all the same
                yield Fed(piece=self._script.eos_id, decides=is_update)
                draft = (*draft[: most - len(ids)], self._script.eos_id)
                break
        if draft and draft[-1] == self._script.eos_id:
            if is_update:
                text = self._script.text([*ids, *draft[:-1]])
                state = apply_update(turn.state, text, illegal=self._config.illegal_updates).state
                yield from self.after_update(replace(turn, updates=(*turn.updates, text), state=state))
            elif turn.frame in self._past or ids or self._drafter.sayings.is_steady(self._event(turn)):
                yield from islice(self.frames(turn.frame + 1), _BEHIND_DRAFT)

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
        past = self._past.get(turn.frame)
        if is_update:
            before = past.updates[len(turn.updates) :][:1] if past else ()
            return self._drafter.update(ids, state=turn.state, before=before), self._config.max_update_tokens
        before = (past.response,) if past and past.response is not None else ()
        event = self._event(turn)
        draft = self._drafter.response(ids, event=event, state=turn.state, before=before)
        return draft, self._config.max_new_tokens

    def _event(self, turn: Turn) -> str:
        """Name what a response answers: the frame's last update, the user, or what was seen."""
        if turn.updates:
            return event_of(turn.updates[-1])
        return "asked" if turn.frame in self._user_ids else "seen"


def _tell(past: Past, script: Words) -> dict[int, _Told]:
    """Return what an earlier run wrote, by frame: as it was fed, where that is known, else as its texts read."""
    told = {}
    fed = _written(past.trace, script) if past.trace else {}
    for output in past.outputs:
        frame = output.frame_index
        updates = tuple(ids for opening, ids in fed.get(frame, ()) if opening == script.update_id)
        responses = [ids for opening, ids in fed.get(frame, ()) if opening == script.response_id]
        if past.trace is None:
            updates = tuple(script.words(text) for text in output.updates)
            responses = [script.words(output.response)] if output.response is not None else []
        told[frame] = _Told(output=output, updates=updates, response=responses[0] if responses else None)
    return told


def _written(trace: Trace, script: Words) -> dict[int, list[tuple[int, tuple[int, ...]]]]:
    """Find the turns in what was fed, each with its opening, by the frame that they follow."""
    turns: defaultdict[int, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
    for context in trace.contexts:
        frame, is_open = 0, False
        for read in context:
            piece = read.fed.piece
            if isinstance(piece, Image):
                frame, is_open = piece.frame_index, False
            elif piece in (script.update_id, script.response_id):
                turns[frame].append((piece, ()))
                is_open = True
            elif piece == script.eos_id:
                is_open = False
            elif is_open:
                opening, ids = turns[frame][-1]
                turns[frame][-1] = (opening, (*ids, piece))
    return turns
