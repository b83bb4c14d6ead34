"""Guesses what the model is about to write, so that one pass can verify many tokens. A wrong guess costs time only.

Updates are guessed from their grammar: what is in progress is completed, then the steps not yet started begin, in
their order. Responses are guessed from the sentences said before, with the steps that they named exchanged for those
of the present state; where none begins like this one, the last tokens are looked up in what was said and in the
prompt's goal and steps, and the longest match is followed.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from engine.dialogue import TRANSITIONS, parse_update
from engine.records import Step

_LONGEST_MATCH = 8
"""Tokens that a match of the lookup is followed back at most."""
_SURE_MATCH = 3
"""Tokens from which on a match is followed to the end of its sentence."""
_UNSURE = 3
"""Tokens that a shorter match is followed."""
_SAID = 64
"""Sentences that are remembered."""
_SLOT = re.compile(r"\{(\w+):(\d+)\}")


class Sayings:
    """What was said and done before, by all streams that share it: sentences without the steps that they named."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], None] = {}
        self._is_followed: dict[str, bool] = {}
        self._was_right: dict[str, bool] = {}

    def add(self, pattern: str, *, event: str) -> None:
        """Take note of a sentence and of what it answered; it is the latest now."""
        self._was_right[event] = next(self.patterns(event), None) == pattern
        self._said.pop((event, pattern), None)
        self._said[event, pattern] = None
        if len(self._said) > _SAID:
            del self._said[next(iter(self._said))]

    def patterns(self, event: str, *, others: bool = False) -> Iterator[str]:
        """Return the sentences that answered such an event, the latest first; or those that answered others."""
        return (pattern for kind, pattern in reversed(self._said) if (kind == event) != others)

    def is_steady(self, event: str) -> bool:
        """Whether such an event was answered as the time before."""
        return self._was_right.get(event, False)

    def updated(self, text: str, *, is_followed: bool) -> None:
        """Take note of whether an update was followed by another at its frame."""
        self._is_followed[event_of(text)] = is_followed

    def is_followed(self, text: str) -> bool:
        """Guess whether an update is followed by another at its frame."""
        return self._is_followed.get(event_of(text), False)


class Drafter:
    """What one stream's context tells about the tokens to come.

    Args:
        words: Text to token ids.
        eos_id: The token that ends a turn.
        goal: What is being made or done.
        steps: The task's steps.
        most: Longest draft, in tokens.
        sayings: What was said before; other streams may share it.
    """

    def __init__(
        self,
        words: Callable[[str], tuple[int, ...]],
        *,
        eos_id: int,
        goal: str,
        steps: Sequence[Step],
        most: int,
        sayings: Sayings,
    ) -> None:
        self.sayings = sayings
        self._words, self._eos_id, self._goal, self._steps, self._most = words, eos_id, goal, steps, most
        self._ids: dict[str, tuple[int, ...]] = {}
        self._sentences: list[tuple[int, ...]] = []
        self._places: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for text in (goal, *(step.name for step in steps)):
            self._learn(words(f" {text}"))

    def said(self, text: str, *, event: str, state: Mapping[str, str]) -> None:
        """Take note of a response, of what it answered, and of the state it was said in."""
        self.sayings.add(_generalize(text, self._roles(state)), event=event)
        self._learn((*self._words(text), self._eos_id))

    def update(
        self, ids: Sequence[int], *, state: Mapping[str, str], before: Sequence[tuple[int, ...]] = ()
    ) -> tuple[int, ...]:
        """Guess the rest of an update of which ``ids`` are written; ``before``: what an earlier run wrote here."""
        return self._rest(ids, before, _legal_updates(state))

    def response(
        self, ids: Sequence[int], *, event: str, state: Mapping[str, str], before: Sequence[tuple[int, ...]] = ()
    ) -> tuple[int, ...]:
        """Guess the rest of a response of which ``ids`` are written.

        Args:
            ids: What is written.
            event: What it answers.
            state: The present state.
            before: What an earlier run said here.
        """
        roles = self._roles(state)
        patterns = [*self.sayings.patterns(event), *(self.sayings.patterns(event, others=True) if ids else ())]
        filled = (text for pattern in patterns if (text := _fill(pattern, roles)))
        return self._rest(ids, before, filled) or self._look_up(ids)

    def _rest(self, ids: Sequence[int], before: Iterable[tuple[int, ...]], texts: Iterable[str]) -> tuple[int, ...]:
        """Return the rest of the first text that begins with ``ids``."""
        written = tuple(ids)
        for whole in chain(((*told, self._eos_id) for told in before), map(self._closed, texts)):
            if len(whole) > len(written) and whole[: len(written)] == written:
                return whole[len(written) :][: self._most]
        return ()

    def _closed(self, text: str) -> tuple[int, ...]:
        if text not in self._ids:
            self._ids[text] = (*self._words(text), self._eos_id)
        return self._ids[text]

    def _learn(self, sentence: tuple[int, ...]) -> None:
        if sentence in self._sentences:
            return
        for place, token in enumerate(sentence):
            self._places[token].append((len(self._sentences), place))
        self._sentences.append(sentence)

    def _look_up(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Go on as a sentence did in which the last tokens were seen before: the longest match, the latest of them."""
        recent = ids[-_LONGEST_MATCH:]
        best: tuple[int, ...] = ()
        length = 0
        for number, place in reversed(self._places.get(recent[-1], ()) if recent else ()):
            sentence = self._sentences[number]
            matched = _common_tail(sentence, place, recent)
            if matched > length and place + 1 < len(sentence):
                best, length = sentence[place + 1 :], matched
        return best[: self._most if length >= _SURE_MATCH else min(self._most, _UNSURE)]

    def _roles(self, state: Mapping[str, str]) -> dict[str, str]:
        """Name the steps by the part they play now, and the goal."""
        roles = {}
        for role, wanted, place in (("now", "in_progress", 0), ("next", "not_started", 0), ("done", "completed", -1)):
            if names := [step.name for step in self._steps if state[step.id] == wanted]:
                roles[role] = names[place]
        return {**roles, "goal": self._goal}


def event_of(text: str) -> str:
    """Return the kind of an update: ``start``, ``complete`` or, when it is malformed, ``other``."""
    update = parse_update(text)
    return update.transition if update else "other"


def _legal_updates(state: Mapping[str, str]) -> Iterator[str]:
    for transition in ("complete", "start"):  # a step is completed before the next starts
        before, _ = TRANSITIONS[transition]
        yield from (f"{step_id}->{transition}" for step_id, value in state.items() if value == before)


def _generalize(text: str, roles: Mapping[str, str]) -> str:
    """Put ``{role:k}`` for a name, or the longest end of it, in a sentence: its last ``k`` words, or 0 for all."""
    pattern = text.replace("{", "").replace("}", "")
    for role, name in roles.items():
        words = name.split()
        for first in range(len(words)):
            found = re.escape(" ".join(words[first:]))
            slot = f"{{{role}:{len(words) - first if first else 0}}}"
            pattern, count = re.subn(rf"(?<!\w){found}(?!\w)", slot, pattern)
            if count:
                break
    return pattern


def _fill(pattern: str, roles: Mapping[str, str]) -> str | None:
    """Put the present names into a pattern; None when one is missing."""
    try:
        return _SLOT.sub(lambda slot: _named(roles[slot[1]], int(slot[2])), pattern)
    except LookupError:
        return None


def _named(name: str, num_words: int) -> str:
    words = name.split()
    if not words or num_words > len(words):
        raise LookupError
    return " ".join(words[-num_words:])


def _common_tail(seen: Sequence[int], place: int, recent: Sequence[int]) -> int:
    """Count how many tokens up to ``place`` equal the end of ``recent``."""
    length = 0
    while length < len(recent) and length <= place and seen[place - length] == recent[-1 - length]:
        length += 1
    return length
