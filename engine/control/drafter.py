"""Draft tokens without a draft model: grammar for updates, response memory and n-gram lookup for responses.

- Updates follow their grammar. Steps in progress are completed first, then the remaining steps start in order.
- Responses reuse remembered sentences (``ResponseMemory``), with the steps of the present state filled in.
- If no remembered sentence begins like the present one, n-gram lookup follows the longest match of the last tokens.
  It searches earlier responses, the goal and the step names, and for three tokens or more user turns, instructions and
  the response so far. This is prompt-lookup drafting, as in the n-gram speculator of vLLM and the prompt lookup of
  transformers.

A wrong draft costs time only: every draft token is verified by a forward pass.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain

from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import TRANSITIONS, parse_update

_MAX_MATCH_TOKENS = 8
"""Longest n-gram that the lookup compares, in tokens."""
_MIN_SURE_MATCH_TOKENS = 3
"""Shortest match whose sentence is drafted to its end."""
_MAX_UNSURE_TOKENS = 3
"""Longest draft after a shorter match, in tokens."""
_MAX_SENTENCES = 64
_MAX_RESPONSES = 128
"""Responses that the n-gram lookup of a stream searches, the latest ones."""
_PLACEHOLDER = re.compile(r"\{(\w+):(\d+)\}")


class ResponseMemory:
    """Earlier responses as sentence patterns, shared by streams, for prompt-lookup (n-gram) drafting.

    A pattern is a sentence in which placeholders replace the step names; see ``_generalize``. Each is stored with
    the event that it answered: ``start``, ``complete`` or ``other`` for an update, ``user`` for a user turn, or
    ``frame`` for a frame alone.
    """

    def __init__(self) -> None:
        self._sentences: dict[tuple[str, str], None] = {}
        self._is_followed: dict[str, bool] = {}
        self._was_repeated: dict[str, bool] = {}

    def add(self, pattern: str, *, event: str) -> None:
        """Store a sentence pattern as the latest answer to an event; the oldest one is dropped when full."""
        self._was_repeated[event] = next(self.patterns(event), None) == pattern
        self._sentences.pop((event, pattern), None)
        self._sentences[event, pattern] = None
        if len(self._sentences) > _MAX_SENTENCES:
            del self._sentences[next(iter(self._sentences))]

    def patterns(self, event: str, *, is_same_event: bool = True) -> Iterator[str]:
        """Return the patterns that answered the event, latest first; or those of all different events."""
        return (pattern for stored, pattern in reversed(self._sentences) if (stored == event) == is_same_event)

    def is_predictable(self, event: str) -> bool:
        """Return whether the last two answers to the event were the same."""
        return self._was_repeated.get(event, False)

    def record_update(self, text: str, *, is_followed: bool) -> None:
        """Store whether a second update followed this kind of update at the same frame."""
        self._is_followed[classify_update(text)] = is_followed

    def is_followed(self, text: str) -> bool:
        """Return whether a second update followed the last update of this kind."""
        return self._is_followed.get(classify_update(text), False)


class Drafter:
    """Drafts the next tokens of updates and responses of one stream.

    ``max_tokens`` is the longest draft. Streams may share a ``memory`` of earlier responses. ``instructions`` are those
    of the prompt.
    """

    def __init__(
        self,
        tokenize: Callable[[str], tuple[int, ...]],
        *,
        eos_id: int,
        task: Task,
        max_tokens: int,
        memory: ResponseMemory,
        instructions: str = "",
    ) -> None:
        self.memory = memory
        self._task, self._eos_id, self._max_tokens = task, eos_id, max_tokens
        self._close = lru_cache(maxsize=256)(lambda text: (*tokenize(text), eos_id))
        """Returns the ids of a text with its end of turn."""
        names = (task.goal, *(step.name for step in task.steps))
        self._names = [tokenize(f" {name}") for name in reversed(names)]
        self._texts = [tokenize(f" {text}") for text in (*(turn.text for turn in task.all_user_turns), instructions)]
        self._responses: deque[tuple[int, ...]] = deque(maxlen=_MAX_RESPONSES)

    def record_response(self, text: str, *, event: str, state: Mapping[str, str]) -> None:
        """Store a response with the event that it answered and the dialogue state at that time."""
        self.memory.add(_generalize(text, self._roles(state)), event=event)
        if (ids := self._close(text)) not in self._responses:
            self._responses.append(ids)

    def draft_update(
        self, ids: Sequence[int], *, state: Mapping[str, str], candidates: Sequence[tuple[int, ...]] = ()
    ) -> tuple[int, ...]:
        """Return a draft of the rest of an update that begins with ``ids``; ``candidates`` are tried first."""
        return self._complete(ids, candidates, _legal_updates(state))

    def draft_response(
        self, ids: Sequence[int], *, event: str, state: Mapping[str, str], candidates: Sequence[tuple[int, ...]] = ()
    ) -> tuple[int, ...]:
        """Return a draft of the rest of a response.

        ``ids`` are already written; ``event`` is answered. ``candidates`` are ids of whole responses to try first, such
        as that of an earlier run.
        """
        roles = self._roles(state)
        patterns = [*self.memory.patterns(event)]
        if ids:
            patterns += self.memory.patterns(event, is_same_event=False)
        texts = (text for pattern in patterns if (text := _fill(pattern, roles)))
        return self._complete(ids, candidates, texts) or self._look_up_ngram(ids)

    def _complete(
        self, ids: Sequence[int], candidates: Iterable[tuple[int, ...]], texts: Iterable[str]
    ) -> tuple[int, ...]:
        """Return the rest of the first candidate or text that begins with ``ids``."""
        written = tuple(ids)
        for whole in chain(((*candidate, self._eos_id) for candidate in candidates), map(self._close, texts)):
            if len(whole) > len(written) and whole[: len(written)] == written:
                return whole[len(written) :][: self._max_tokens]
        return ()

    def _look_up_ngram(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return the continuation of the longest match of the last tokens; the latest of equal length.

        With characters as tokens, after ``So the bl`` the step name ``load the block`` matches `` the bl``. The draft
        is then ``ock``.
        """
        recent = ids[-_MAX_MATCH_TOKENS:]
        best: tuple[int, ...] = ()
        best_length = 0
        likely = ((sentence, 1) for sentence in chain(reversed(self._responses), self._names))
        others = ((sentence, _MIN_SURE_MATCH_TOKENS) for sentence in (*self._texts, tuple(ids)))
        for sentence, shortest in chain(likely, others) if recent else ():
            for end in range(len(sentence) - 1, 0, -1):
                length = _common_suffix_length(sentence, end - 1, recent) if sentence[end - 1] == recent[-1] else 0
                if length > best_length and length >= shortest:
                    best, best_length = sentence[end:], length
        is_sure = best_length >= _MIN_SURE_MATCH_TOKENS
        return best[: self._max_tokens if is_sure else min(self._max_tokens, _MAX_UNSURE_TOKENS)]

    def _roles(self, state: Mapping[str, str]) -> dict[str, str]:
        """Return the names of the present, next and last completed step, and the goal, by role."""
        roles = {}
        for role, wanted, index in (("now", "in_progress", 0), ("next", "not_started", 0), ("done", "completed", -1)):
            if names := [step.name for step in self._task.steps if state.get(step.id) == wanted]:
                roles[role] = names[index]
        return {**roles, "goal": self._task.goal}


def classify_update(text: str) -> str:
    """Return the kind of an update: ``start``, ``complete`` or, for a malformed one, ``other``."""
    update = parse_update(text)
    return update.transition if update else "other"


def _legal_updates(state: Mapping[str, str]) -> Iterator[str]:
    for transition in ("complete", "start"):  # a step is completed before the next one starts
        before, _ = TRANSITIONS[transition]
        yield from (f"{step_id}->{transition}" for step_id, value in state.items() if value == before)


def _generalize(text: str, roles: Mapping[str, str]) -> str:
    """Replace step names in a sentence by placeholders ``{role:k}``: the last ``k`` words of a name, or 0 for all.

    For the roles ``now: attach the wheel`` and ``next: put on the roof``, the sentence "Attach it, then put on the
    roof. Mind the wheel." becomes "Attach it, then {next:0}. Mind {now:2}."
    """
    pattern = text.replace("{", "").replace("}", "")
    for role, name in roles.items():
        words = name.split()
        for first in range(len(words)):  # longest ending first
            ending = re.escape(" ".join(words[first:]))
            placeholder = f"{{{role}:{len(words) - first if first else 0}}}"
            pattern, count = re.subn(rf"(?<!\w){ending}(?!\w)", placeholder, pattern)
            if count:
                break
    return pattern


def _fill(pattern: str, roles: Mapping[str, str]) -> str | None:
    """Return the pattern with the present names; None when one is missing."""
    try:
        return _PLACEHOLDER.sub(lambda match: _last_words(roles[match[1]], int(match[2])), pattern)
    except LookupError:
        return None


def _last_words(name: str, num_words: int) -> str:
    words = name.split()
    if not words or num_words > len(words):
        raise LookupError
    return " ".join(words[-num_words:])  # 0 means all: -0 slices from the start


def _common_suffix_length(sentence: Sequence[int], position: int, recent: Sequence[int]) -> int:
    """Return how many tokens of ``sentence`` up to ``position`` equal the end of ``recent``."""
    length = 0
    while length < len(recent) and length <= position and sentence[position - length] == recent[-1 - length]:
        length += 1
    return length
