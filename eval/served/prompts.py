"""Prompts for polling: a template for each frame, the history of the dialogue, and the words of silence."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stepscope.engine.control.task import Task

DEFAULT_PROMPT: Final = (
    "You watch a live video and help the user with this task: {goal}\nSteps:\n{steps}\n"
    "You said so far:\n{history}\nThe last picture is at {time} s. {user}\n"
    "If the user needs to know something now, answer with one short message. Otherwise answer exactly {silence}."
)
_FIELDS: Final = ("goal", "steps", "history", "time", "user", "silence")
_MAX_HISTORY: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """How a frame is put to the model."""

    template: str = DEFAULT_PROMPT
    """Text with the fields ``{goal}``, ``{steps}``, ``{history}``, ``{time}``, ``{user}`` and ``{silence}``."""
    silence: str = "SILENT"
    """The answer that means silence; so does an empty one."""
    num_pictures: int = 4
    """Latest pictures of a request, at least 1."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a template with another field, or without a picture."""
        try:
            self.template.format(**dict.fromkeys(_FIELDS, ""))
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            fields = ", ".join(f"{{{name}}}" for name in _FIELDS)
            raise ValueError(
                f"the prompt may have the fields {fields} only, and {{{{ for a brace; got {error}"
            ) from error
        if self.num_pictures < 1:
            raise ValueError(f"a request must have at least 1 picture; got {self.num_pictures}")

    def is_silence(self, answer: str) -> bool:
        """Whether an answer means silence."""
        return answer.strip().strip(".!\"'").casefold() in ("", self.silence.casefold())

    def fill(self, task: Task, *, time_s: float, user: Sequence[str], history: Sequence[str]) -> str:
        """Return the text of one frame: the template with the task, the user's new words and the latest history."""
        return self.template.format(
            goal=task.goal or "none is given",
            steps="\n".join(f"{step.id}: {step.name}" for step in task.steps) or "none are given",
            history="\n".join(history[-_MAX_HISTORY:]) or "nothing",
            time=f"{time_s:g}",
            user=" ".join(f"The user says: {words}" for words in user),
            silence=self.silence,
        )


def make_messages(text: str, pictures: Sequence[bytes]) -> list[Mapping[str, Any]]:
    """Return a chat of one message: JPEG pictures, then the text."""
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{to_base64(picture)}"}}
        for picture in pictures
    ]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}]


def to_base64(data: bytes) -> str:
    """Return data as base64 text."""
    return base64.b64encode(data).decode("ascii")
