"""A served model as the writer of dialogues: it fills numbered slots, each with the facts of its time, and no times.

Every text is checked. A text that does not fit is asked for again with the reason, then the templates write it.
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from stepscope.engine.io.files import append_whole, load_json, open_file, to_json
from stepscope.engine.io.json_records import parse_record, reading
from stepscope.engine.plurals import format_count
from stepscope.engine.records import Step
from stepscope.eval.data.samples import Sample
from stepscope.eval.dialogues.check import NamedParts, find_problem
from stepscope.eval.dialogues.slots import Slot
from stepscope.eval.served.chat import ChatClient, NoAnswerError

INSTRUCTION: Final = (
    "You write the dialogue of a user who does a task and an assistant who watches through a camera and guides.\n"
    "Each numbered slot is one turn, with its role and the facts that are known then. Write one or two short, natural\n"
    "sentences for each slot, from its own facts alone. Never mention times, later slots or steps that its facts do\n"
    "not name. Copy words in double quotes exactly. Answer with one JSON object that maps each slot number to its text."
)
MAX_SLOTS: Final = 20
"""Slots of one request."""
ATTEMPTS: Final = 3
"""Requests for a slot before the templates write it."""
_MAX_TOKENS: Final = 4096  # of an answer with its reasoning
_USUAL_TOKENS: Final = 25  # of a slot in an answer, for the estimate
Messages = Sequence[Mapping[str, str]]
Batch = tuple[Sample, Mapping[int, Slot]]
"""A video, and the slots of one request by their numbers in the video."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A line of the file of answers."""

    key: str
    text: str


class KeptAnswers:
    """The answers of models by prompt, in a file with a line each."""

    def __init__(self, path: Path, *, model: str) -> None:
        """Read the file, if it exists, without the half line of a killed program. Raises ``ValueError``."""
        self._path, self._model, self._lock = path, model, Lock()
        self._texts = dict[str, str]()
        if not path.exists():
            return
        with reading(path), open_file(path) as file:
            whole, end, rest = file.read().rpartition(b"\n")
            kept = [parse_record(_Kept, line) for line in whole.decode().split("\n") if line]
        self._texts = {one.key: one.text for one in kept}
        if rest:
            os.truncate(path, len(whole + end))

    def find(self, messages: Messages) -> str | None:
        """Return the kept answer to a chat."""
        return self._texts.get(self._key(messages))

    def add(self, messages: Messages, text: str) -> None:
        """Keep an answer; a killed process loses none."""
        key = self._key(messages)
        with self._lock, self._path.open("ab", buffering=0) as file:
            append_whole(file, (to_json({"key": key, "text": text}) + "\n").encode())
            self._texts[key] = text

    def _key(self, messages: Messages) -> str:
        return hashlib.sha256(to_json([self._model, *messages]).encode()).hexdigest()


def make_batches(plans: Sequence[tuple[Sample, Sequence[Slot]]]) -> list[Batch]:
    """Return the requests for the slots of all videos."""
    return [
        (sample, dict(enumerate(slots[first : first + MAX_SLOTS], start=first)))
        for sample, slots in plans
        for first in range(0, len(slots), MAX_SLOTS)
    ]


def describe_cost(batches: Sequence[Batch], kept: KeptAnswers) -> str:
    """Return the cost of the batches that are not kept, in one line; that of repeats is not known before."""
    chats = [(_write_messages(batch, dict.fromkeys(batch[1], "")), len(batch[1])) for batch in batches]
    asked = [(messages, num_slots) for messages, num_slots in chats if kept.find(messages) is None]
    prompt_tokens = sum(len(message["content"]) for messages, _ in asked for message in messages) // 4
    answer_tokens = _USUAL_TOKENS * sum(num_slots for _, num_slots in asked)
    return (
        f"{format_count(len(asked), 'request')}, about {prompt_tokens:,} tokens of prompts and {answer_tokens:,} of "
        f"answers; at most {ATTEMPTS} times as much if texts are refused"
    )


def fill_slots(
    batches: Sequence[Batch],
    kept: KeptAnswers,
    make_client: Callable[[], ChatClient],
    *,
    num_workers: int,
    progress: Callable[[], object] = lambda: None,
) -> dict[tuple[str, int], str]:
    """Return the texts that fit, by video and slot; raise ``ServedModelError`` if the endpoint gives no response."""
    texts = dict[tuple[str, int], str]()
    with ThreadPoolExecutor(num_workers) as pool:
        futures = {pool.submit(_fill, batch, kept, make_client): batch[0].video_id for batch in batches}
        try:
            for future in as_completed(futures):
                texts |= {(futures[future], number): text for number, text in future.result().items()}
                progress()
        finally:
            pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C
    return texts


def _fill(batch: Batch, kept: KeptAnswers, make_client: Callable[[], ChatClient]) -> Mapping[int, str]:
    (sample, slots), texts = batch, dict[int, str]()
    names, problems = NamedParts(sample), dict.fromkeys(slots, "")
    for _ in range(ATTEMPTS):  # a prompt that is equal to the one before has a kept answer
        messages = _write_messages(batch, problems)
        answer = kept.find(messages)
        if answer is None:
            try:
                with make_client() as client:  # of this thread
                    answer = client.complete(messages, max_tokens=_MAX_TOKENS).text
                kept.add(messages, answer)
            except NoAnswerError:  # it is asked again, also by a later command
                answer = ""
        found = _read_texts(answer)
        problems = {number: find_problem(found.get(str(number), ""), slots[number], names) for number in problems}
        texts |= {number: found[str(number)].strip() for number, problem in problems.items() if not problem}
        problems = {number: problem for number, problem in problems.items() if problem}
        if not problems:
            break
    return texts


def _read_texts(answer: str) -> dict[str, str]:
    """Return the texts of an answer by slot; none for an answer without a JSON object."""
    start, end = answer.find("{"), answer.rfind("}")
    try:
        content = load_json(answer[start : end + 1])
    except ValueError:
        return {}
    return {name: text for name, text in content.items() if isinstance(text, str)} if isinstance(content, dict) else {}


def _write_messages(batch: Batch, problems: Mapping[int, str]) -> list[dict[str, str]]:
    """Return the chat that asks for some slots; each problem is that of the text before."""
    sample, slots = batch
    lines = [f"Goal: {_quote(sample.goal)}"]
    for number, problem in problems.items():
        remark = f" Your last text did not fit: it {problem}." if problem else ""
        lines.append(f"{number}. {_describe_slot(slots[number], sample)}{remark}")
    return [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": "\n".join(lines)}]


def _describe_slot(slot: Slot, sample: Sample) -> str:
    """Return the role and the facts of a slot in one line."""
    moment, goal = slot.moment, sample.goal
    asked = f"{'how many' if slot.question == 'left' else 'which'} steps are {slot.question}" if slot.question else ""
    if slot.role == "user":
        return f"user asks {asked}." if asked else f"user says what the goal is: {_quote(goal)}."
    num_done = f"{moment.num_done} of {len(sample.steps)} steps are done"
    facts = [f"answers {asked}"] if asked else []
    if slot.question == "done":
        facts.append(f"done: {_quote(*slot.required) or 'nothing yet'}; {num_done}")
    elif slot.question == "left":
        facts.append(f"left: {format_count(moment.num_left, 'step')}")
    elif slot.required:
        facts.append(f"{'in progress' if slot.begun or moment.open else 'next'}: {_quote(*slot.required)}")
    if slot.kind == "progress":
        facts = [f"completed now: {_quote(*moment.finished)}", *facts] if moment.finished else facts
        facts += [f"went wrong: {_quote(step)}, namely {_quote(cause)}" for step, cause in moment.mistakes]
    if slot.is_last or not moment.num_left:
        facts.append(f"{num_done}; close the dialogue")
    return f"assistant {'begins' if slot.kind == 'opening' else 'says'}: {'; '.join(facts)}."


def _quote(*parts: Step | str) -> str:
    names = [part if isinstance(part, str) else part.name for part in parts]
    return ", ".join(f'"{" ".join(name.split())}"' for name in names)
