"""A served model as the writer of dialogues: it fills numbered slots, each with the facts of its time, and no times.

Every text is checked; what does not fit is asked again with the reason, and then written by the templates. Answers are
kept in a file as they come, by their prompt, so that no question is asked twice.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import Any, Final

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
_TOKENS_PER_SLOT: Final = 120
_TOKENS_TO_THINK: Final = 2048
_ANSWER_CHARS: Final = 100
"""Usual characters of a slot in an answer, for the estimate."""
_CHARS_PER_TOKEN: Final = 4
_ASKED: Final[Mapping[str, str]] = {
    "next": "which step is next",
    "done": "which steps are done",
    "left": "how many steps are left",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The slots of one request, by their numbers in the video."""

    sample: Sample
    slots: Mapping[int, Slot]


@dataclass(slots=True)
class Cost:
    """What the requests need that are not kept yet; repeats are not known before."""

    num_requests: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0

    def __str__(self) -> str:
        """Return the cost in one line."""
        return (
            f"{format_count(self.num_requests, 'request')}, about {self.prompt_tokens:,} tokens of prompts and "
            f"{self.answer_tokens:,} of answers; at most {ATTEMPTS} times as much if texts are refused"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A line of the file of answers."""

    key: str
    text: str


class KeptTexts:
    """The answers of a model by prompt, in a file with a line each."""

    def __init__(self, path: Path) -> None:
        """Read the file, if it exists, without the half line of a killed program. Raises ``ValueError``."""
        self._path, self._lock = path, Lock()
        self._texts = dict[str, str]()
        if not path.exists():
            return
        with reading(path), open_file(path) as file:
            whole, end, rest = file.read().rpartition(b"\n")
            kept = [parse_record(_Kept, line) for line in whole.decode().split("\n") if line]
        self._texts = {one.key: one.text for one in kept}
        if rest:
            with path.open("r+b") as file_to_cut:
                file_to_cut.truncate(len(whole + end))

    def find(self, key: str) -> str | None:
        """Return the kept answer to a prompt."""
        return self._texts.get(key)

    def add(self, key: str, text: str) -> None:
        """Keep an answer; a killed process loses none."""
        with self._lock, self._path.open("ab", buffering=0) as file:
            append_whole(file, (to_json({"key": key, "text": text}) + "\n").encode())
            self._texts[key] = text


def make_batches(plans: Sequence[tuple[Sample, Sequence[Slot]]]) -> list[Batch]:
    """Return the requests for the slots of all videos."""
    return [
        Batch(sample=sample, slots=dict(enumerate(slots[first : first + MAX_SLOTS], start=first)))
        for sample, slots in plans
        for first in range(0, len(slots), MAX_SLOTS)
    ]


def estimate_cost(batches: Sequence[Batch], kept: KeptTexts, *, model: str) -> Cost:
    """Return the cost of the first request of each batch that is not kept."""
    cost = Cost()
    for batch in batches:
        messages = _write_messages(batch, dict.fromkeys(batch.slots, ""))
        if kept.find(_key(model, messages)) is None:
            cost.num_requests += 1
            cost.prompt_tokens += sum(len(one["content"]) for one in messages) // _CHARS_PER_TOKEN
            cost.answer_tokens += len(batch.slots) * _ANSWER_CHARS // _CHARS_PER_TOKEN
    return cost


def fill_slots(
    batches: Sequence[Batch],
    kept: KeptTexts,
    make_client: Callable[[], ChatClient],
    *,
    model: str,
    num_workers: int,
    progress: Callable[[], object] = lambda: None,
) -> dict[tuple[str, int], str]:
    """Return the texts that fit, by video and slot; the others are left to the templates.

    Each worker has a client of its own. ``progress`` is called after each batch. Raises ``ServedModelError`` if the
    endpoint gives no response; the answers so far are kept.
    """
    waiting, lock, stop = iter(batches), Lock(), Event()
    texts = dict[tuple[str, int], str]()

    def work() -> None:
        with make_client() as client:
            while not stop.is_set():
                with lock:
                    batch = next(waiting, None)
                if batch is None:
                    return
                filled = _fill(batch, kept, client, model=model)
                with lock:
                    texts.update({(batch.sample.video_id, number): text for number, text in filled.items()})
                    progress()

    with ThreadPoolExecutor(num_workers) as pool:
        try:
            for future in as_completed([pool.submit(work) for _ in range(num_workers)]):
                future.result()
        finally:
            stop.set()  # after an error or Ctrl-C the other workers end after their batch
    return texts


def _fill(batch: Batch, kept: KeptTexts, client: ChatClient, *, model: str) -> Mapping[int, str]:
    names, texts = NamedParts(batch.sample), dict[int, str]()
    problems = dict.fromkeys(batch.slots, "")
    for _ in range(ATTEMPTS):  # a prompt that is equal to the one before has a kept answer
        messages = _write_messages(batch, problems)
        key = _key(model, messages)
        answer = kept.find(key)
        if answer is None:
            limit = _TOKENS_TO_THINK + _TOKENS_PER_SLOT * len(problems)
            try:
                answer = client.complete(messages, max_tokens=limit).text
                kept.add(key, answer)
            except NoAnswerError:  # it is asked again, also by a later command
                answer = ""
        found = _read_texts(answer)
        for number in list(problems):
            text = found.get(number, "")
            problems[number] = find_problem(text, batch.slots[number], names)
            if not problems[number]:
                texts[number] = text.strip()
                del problems[number]
        if not problems:
            break
    return texts


def _read_texts(answer: str) -> dict[int, str]:
    """Return the texts of an answer by slot; none for an answer without a JSON object."""
    start, end = answer.find("{"), answer.rfind("}")
    try:
        content: Any = load_json(answer[start : end + 1]) if 0 <= start < end else {}
    except ValueError:
        return {}
    return {
        int(name): text
        for name, text in (content.items() if isinstance(content, dict) else ())
        if name.isascii() and name.isdigit() and len(name) < 8 and isinstance(text, str)
    }


def _key(model: str, messages: Sequence[Mapping[str, str]]) -> str:
    return hashlib.sha256(to_json([model, *messages]).encode()).hexdigest()


def _write_messages(batch: Batch, problems: Mapping[int, str]) -> list[dict[str, str]]:
    """Return the chat that asks for some slots; each problem is that of the text before."""
    lines = [f"Goal: {batch.sample.goal}"] if batch.sample.goal else []
    for number, problem in problems.items():
        remark = f" Your last text did not fit: it {problem}." if problem else ""
        lines.append(f"{number}. {describe_slot(batch.slots[number])}{remark}")
    return [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": "\n".join(lines)}]


def describe_slot(slot: Slot) -> str:
    """Return the role and the facts of a slot in one line."""
    moment = slot.moment
    if slot.role == "user":
        asked = f"asks {_ASKED[slot.question]}" if slot.question else f"says what the goal is: {_quote(moment.goal)}"
        return f"user {asked}."
    facts = [f"answers {_ASKED[slot.question]}"] if slot.question else ["begins"] if slot.kind == "opening" else []
    facts += [f"completed now: {_quote(*slot.finished)}"] if slot.finished else []
    facts += [f"went wrong: {_quote(step)}, namely {_quote(cause)}" for step, cause in slot.mistakes]
    facts += [f"the user begins {_quote(slot.begun)}"] if slot.begun else []
    if slot.question == "done":
        facts.append(f"done: {_quote(*slot.required) or 'nothing yet'}, {len(moment.completed)} in all")
    elif slot.question == "left":
        facts.append(f"left: {moment.num_left} steps")
    elif slot.begun is None and moment.open:
        facts.append(f"in progress: {_quote(*moment.open)}")
    elif slot.begun is None and moment.next and slot.kind != "summary":
        facts.append(f"next: {_quote(moment.next)}")
    if slot.is_last or not moment.num_left:
        facts.append(f"{len(moment.completed)} of {moment.num_steps} steps are done; close the dialogue")
    return f"assistant: {'; '.join(facts)}."


def _quote(*parts: Step | str) -> str:
    names = [part if isinstance(part, str) else part.name for part in parts]
    return ", ".join(f'"{" ".join(name.split())}"' for name in names)
