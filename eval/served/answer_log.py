"""The answers of a served model to one video, kept line by line until its recording is finished.

A server that fails, Ctrl-C or a kill thus loses no answer. A later recording with the same settings takes the kept
answers first, and asks for the rest.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from stepscope.engine.io.files import append_whole, load_json, open_file, to_json
from stepscope.engine.io.json_records import Amount, Count, FiniteOrNan, parse_record, reading
from stepscope.engine.plurals import format_count
from stepscope.engine.records import Reasoning
from stepscope.eval.runs.folder import output_path

ENDING: Final = ".answers"
"""The ending of the file, which no other file of a run folder has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """The answer to one frame."""

    frame_index: Count
    text: str
    latency_ms: Amount
    signals: Mapping[str, FiniteOrNan] = field(default_factory=dict)
    """Probabilities that the server gave; one that is missing is unknown."""
    updates: tuple[str, ...] = ()
    """Updates of the steps that follow from its answers to questions."""
    reasoning: Reasoning | None = None
    """What the model wrote before it."""


class AnswerLog:
    """The kept answers of a video; ``open_answers`` opens them."""

    def __init__(self, path: Path, kept: Mapping[int, KeptAnswer]) -> None:
        self._path, self._kept = path, dict(kept)
        self.num_passed = max(self._kept, default=-1) + 1
        """Frames up to the last answer that was kept at the start; one of them without an answer was late."""
        self._file = path.open("ab", buffering=0)  # a killed process loses no answer

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, frame_index: int) -> KeptAnswer | None:
        """Return the answer to a frame, or None."""
        return self._kept.get(frame_index)

    def add(self, answer: KeptAnswer) -> None:
        """Keep an answer."""
        append_whole(self._file, (to_json(asdict(answer)) + "\n").encode())
        self._kept[answer.frame_index] = answer

    def close(self) -> None:
        """Close the file, and remove one without an answer."""
        self._file.close()
        if not self._kept:
            self.remove()

    def remove(self) -> None:
        """Remove the file of a finished recording."""
        self._path.unlink(missing_ok=True)


@contextmanager
def open_answers(folder: Path, video_id: str, origin: Mapping[str, Any], *, resume: bool) -> Iterator[AnswerLog]:
    """Open the kept answers of a video in a locked run folder.

    ``origin`` is all that determines the answers; those that are kept must have the same. Without ``resume`` the file
    must hold none.

    Raises:
        ValueError: The answers are invalid, of a different origin, or not to be continued. The file is unchanged.
    """
    path, first = output_path(folder, video_id).with_suffix(ENDING), to_json(origin)
    kept = _read(path, load_json(first), resume=resume) if path.exists() else {}
    if not kept:
        path.write_text(first + "\n", encoding="utf-8", newline="\n")
    log = AnswerLog(path, kept)
    try:
        yield log
    finally:
        log.close()


def _read(path: Path, origin: Mapping[str, Any], *, resume: bool) -> dict[int, KeptAnswer]:
    """Return the kept answers by their frames, and cut a half line of a killed program off their file."""
    with reading(path), open_file(path) as file:
        whole, _, _ = file.read().rpartition(b"\n")
        first, *lines = whole.decode().split("\n")
        kept = [parse_record(KeptAnswer, line) for line in lines]
        found = load_json(first) if kept else {}
    if not kept:
        return {}
    answers = format_count(len(kept), "answer")
    if not resume:
        raise ValueError(f"{path} keeps {answers} of a recording; continue it with --resume, or name a new --out")
    changed = [name for name in origin if not isinstance(found, dict) or found.get(name) != origin[name]]
    if changed:
        raise ValueError(
            f"{path} keeps {answers} with another {', another '.join(changed)}; repeat its command, or name a new --out"
        )
    with path.open("r+b") as file:
        file.truncate(len(whole) + 1)
    return {answer.frame_index: answer for answer in kept}
