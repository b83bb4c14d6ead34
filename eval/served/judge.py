"""A served model as the judge of replies inside reply spans; its answers are kept on disk and never asked twice."""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from stepscope.engine.io.files import load_json, read_text, write_json
from stepscope.eval.matching.grading import MAX_GRADE, NamedJudge, Reply
from stepscope.eval.served.chat import ChatClient, NoAnswerError, ServedModelError

CACHE_NAME: Final = "judgements.json"
"""File of the run folder with the kept answers."""
INSTRUCTION: Final = (
    "Compare a reply about a video with the reference answer.\n"
    "3: the reply has all key points of the reference; wording and small errors do not matter.\n"
    "2: the reply has some key points, but lacks others or has clear errors.\n"
    "1: the reply is wrong, off the point, or lacks most key points.\n"
    "Answer with the number alone."
)
_NUMBER: Final = re.compile(r"-?[0-9]+(?:[.,][0-9]+)?")
_SCALE: Final = re.compile(r"(?:/|\bof|\b1\s*(?:to|-))\s*3(?![0-9])", re.IGNORECASE)
"""The end of a grade such as "2/3" or "2 out of 3", or a scale such as "1 to 3"."""
_MAX_TOKENS: Final = 2048
"""Of an answer with its reasoning; a judge that does not think stops after the grade."""


class EndpointJudge:
    """Grades replies with a served model."""

    def __init__(self, client: ChatClient, cache: Path) -> None:
        self._client, self._path = client, cache
        self._grades = _read_cache(cache)

    @property
    def name(self) -> str:
        """Name of the judge in files."""
        return f"{self._client.endpoint.model} at {self._client.endpoint.url}"

    def __call__(self, replies: Sequence[Reply]) -> list[int]:
        """Return the grade of each reply, 0 to 2. Raises ``ServedModelError`` for an answer without one grade."""
        return [self._grade(reply) for reply in replies]

    def _grade(self, reply: Reply) -> int:
        key = _key(self._client.endpoint.url, self._client.endpoint.model, reply)
        if key not in self._grades:
            messages = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": _write(reply)}]
            try:
                answer = self._client.complete(messages, max_tokens=_MAX_TOKENS)
            except NoAnswerError as error:
                raise ServedModelError(f"the judge {self.name} gives no grade: {error}") from error
            grades = set(_NUMBER.findall(_SCALE.sub(" ", answer.text)))
            if len(grades) != 1 or not grades <= {"1", "2", "3"} or not answer.has_stopped:
                raise ServedModelError(
                    f"the judge {self.name} answers without one grade from 1 to 3: {answer.text[:80]!r}"
                )
            self._grades[key] = int(grades.pop()) - 1
            write_json(self._path, self._grades)
        return self._grades[key]


def read_kept_judge(run: Path, name: str) -> NamedJudge | None:
    """Return the judge called ``name`` from the kept answers of a run folder; None for another kind of judge.

    It asks no model: it raises ``ValueError`` for a reply without a kept answer.
    """
    model, _, url = name.rpartition(" at ")
    path = run / CACHE_NAME
    if not model or not path.exists():
        return None
    grades = _read_cache(path)

    def grade(replies: Sequence[Reply]) -> list[int]:
        keys = [_key(url, model, reply) for reply in replies]
        if not grades.keys() >= set(keys):
            raise ValueError(f"{path} has no answer for some replies; score the run again with --judge {url}")
        return [grades[key] for key in keys]

    return NamedJudge(name=name, grade=grade)


def _key(url: str, model: str, reply: Reply) -> str:
    asked = json.dumps([url, model, INSTRUCTION, _write(reply)])
    return hashlib.sha256(asked.encode(errors="surrogatepass")).hexdigest()


def _write(reply: Reply) -> str:
    return f"Question: {reply.question}\nReference: {reply.gold}\nReply: {reply.text}"


def _read_cache(path: Path) -> dict[str, int]:
    if not path.exists():
        return {}
    try:
        content = load_json(read_text(path))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}; remove it to ask the judge again") from error
    grades = range(MAX_GRADE + 1)
    if not isinstance(content, dict) or not all(type(value) is int and value in grades for value in content.values()):
        raise ValueError(f"{path} must hold grades from 0 to {MAX_GRADE}; remove it to ask the judge again")
    return content
