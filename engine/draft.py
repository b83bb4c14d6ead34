"""Guesses what the model is about to write, so that one pass can verify many tokens. A wrong guess costs time only.

Updates are guessed from their grammar: what is in progress is completed, then the steps not yet started begin, in
their order. Responses are guessed from what was said before in this stream, with the steps that it named exchanged for
those of the present state, and else from the longest run of tokens that the context has seen before (prompt lookup).
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from engine.dialogue import parse_update
from engine.records import Step

_LONGEST_MATCH = 8
"""Tokens that a match of the lookup is followed back at most."""
_SEEN = 8192
"""Tokens of the context that the lookup remembers at least; twice as many at most."""
_SAID = 16
"""Sentences that are remembered."""


class Drafter:
    """What one stream's context tells about the tokens to come.

    Args:
        words: Text to token ids.
        eos_id: The token that ends a turn.
        steps: The task's steps.
        most: Longest draft, in tokens.
    """

    def __init__(
        self, words: Callable[[str], tuple[int, ...]], *, eos_id: int, steps: Sequence[Step], most: int
    ) -> None:
        self._words, self._eos_id, self._steps, self._most = words, eos_id, steps, most
        self._seen: list[int | None] = []
        self._places: defaultdict[int, list[int]] = defaultdict(list)
        self._said: deque[tuple[str, str]] = deque(maxlen=_SAID)
        self._is_followed: dict[str, bool] = {}
        self._ids: dict[str, tuple[int, ...]] = {}

    def see(self, tokens: Iterable[int | None]) -> None:
        """Take note of what entered the context; None for an image."""
        for token in tokens:
            if token is not None:
                self._places[token].append(len(self._seen))
            elif self._seen and self._seen[-1] is None:
                continue  # images tell nothing: a row of them is one
            self._seen.append(token)
        if len(self._seen) > 2 * _SEEN:
            kept, self._seen = self._seen[-_SEEN:], []
            self._places.clear()
            self.see(kept)

    def said(self, text: str, *, event: str, state: Mapping[str, str]) -> None:
        """Take note of a response, of the kind of update it followed, and of the state it was said in."""
        pattern = text.replace("{", "").replace("}", "")
        for role, name in self._roles(state).items():
            pattern = pattern.replace(name, f"{{{role}}}")
        if (event, pattern) in self._said:
            self._said.remove((event, pattern))
        self._said.appendleft((event, pattern))

    def updated(self, text: str, *, is_followed: bool) -> None:
        """Take note of whether an update was followed by another at its frame."""
        self._is_followed[event_of(text)] = is_followed

    def is_followed(self, text: str) -> bool:
        """Guess whether an update is followed by another at its frame."""
        return self._is_followed.get(event_of(text), False)

    def update(self, ids: Sequence[int], *, state: Mapping[str, str], context: Sequence[int | None]) -> tuple[int, ...]:
        """Guess the rest of an update of which ``ids`` are written, up to its end of turn."""
        return self._rest(ids, _legal_updates(state), context)

    def response(
        self, ids: Sequence[int], *, event: str, state: Mapping[str, str], context: Sequence[int | None]
    ) -> tuple[int, ...]:
        """Guess the rest of a response of which ``ids`` are written.

        Args:
            ids: What is written.
            event: The kind of the frame's last update; empty when it had none.
            state: The present state.
            context: What is fed after what was seen, ``ids`` included; None for an image.
        """
        roles = self._roles(state)
        ordered = [pattern for kind, pattern in self._said if kind == event]
        ordered += [pattern for kind, pattern in self._said if kind != event] if ids else []
        return self._rest(ids, (text for pattern in ordered if (text := _fill(pattern, roles))), context)

    def _rest(self, ids: Sequence[int], texts: Iterable[str], context: Sequence[int | None]) -> tuple[int, ...]:
        written = tuple(ids)
        for text in texts:
            if text not in self._ids:
                self._ids[text] = (*self._words(text), self._eos_id)
            whole = self._ids[text]
            if len(whole) > len(written) and whole[: len(written)] == written:
                return whole[len(written) :][: self._most]
        return self._look_up(context)

    def _look_up(self, context: Sequence[int | None]) -> tuple[int, ...]:
        """Continue the context as it went on where its end was seen before: the longest match, the latest of them."""
        recent = [*self._seen[-_LONGEST_MATCH:], *context][-_LONGEST_MATCH:]
        if not recent or recent[-1] is None:
            return ()
        best, length = None, 0
        for place in reversed(self._places.get(recent[-1], ())):
            matched = _common_tail(self._seen, place, recent)
            if matched > length and place + 1 < len(self._seen):
                best, length = place, matched
            if length == len(recent):
                break
        return () if best is None else self._until_end(best + 1, most=min(self._most, 4 * length))

    def _until_end(self, first: int, *, most: int) -> tuple[int, ...]:
        tokens: list[int] = []
        for token in self._seen[first : first + most]:
            if token is None:
                break
            tokens.append(token)
            if token == self._eos_id:
                break
        return tuple(tokens)

    def _roles(self, state: Mapping[str, str]) -> dict[str, str]:
        """Name the steps by the part they play now: the one to come, the one in progress, the one just done."""
        found: dict[str, str] = {}
        for role, wanted in (("next", "not_started"), ("now", "in_progress")):
            names = [step.name for step in self._steps if state[step.id] == wanted and step.name]
            if names:
                found[role] = names[0]
        return found


def event_of(text: str) -> str:
    """Return the kind of an update: ``start``, ``complete`` or, when it is malformed, ``other``."""
    update = parse_update(text)
    return update.transition if update else "other"


def _legal_updates(state: Mapping[str, str]) -> Iterator[str]:
    for transition, before in (("complete", "in_progress"), ("start", "not_started")):
        yield from (f"{step_id}->{transition}" for step_id, value in state.items() if value == before)


def _fill(pattern: str, roles: Mapping[str, str]) -> str | None:
    """Put the steps of the present state into a pattern; None when one is missing."""
    text = pattern
    for role, name in roles.items():
        text = text.replace(f"{{{role}}}", name)
    return None if "{" in text else text


def _common_tail(seen: Sequence[int | None], place: int, recent: Sequence[int | None]) -> int:
    """Count how many tokens up to ``place`` equal the end of ``recent``."""
    length = 0
    while length < len(recent) and length <= place and seen[place - length] == recent[-1 - length]:
        length += 1
    return length
