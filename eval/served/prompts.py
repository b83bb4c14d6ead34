"""Prompts for polling: a template for each frame, the history of the dialogue, and the words of silence."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Final

from stepscope.engine.control.task import Task
from stepscope.engine.decisions.signals import RESPONSE
from stepscope.engine.io.files import strip_text
from stepscope.engine.io.json_records import short_repr

CONTEXT: Final = (
    "You watch a live video and help the user with this task: {goal}\nSteps:\n{steps}\n"
    "You said so far:\n{history}\nThe last picture is at {time} s. {user}\n"
)
DEFAULT_PROMPT: Final = (
    CONTEXT + "If the user needs to know something now, answer with one short message. "
    "Otherwise answer exactly {silence}."
)
_FIELDS: Final = ("goal", "steps", "history", "time", "user", "silence")
_MAX_HISTORY: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FramePrompt:
    """How a frame is put to the model."""

    template: str = DEFAULT_PROMPT
    """Text with the fields ``{goal}``, ``{steps}``, ``{history}``, ``{time}``, ``{user}`` and ``{silence}``."""
    silence: str = "SILENT"
    """The answer that means silence; so does an empty one."""
    num_pictures: int = 4
    """Latest pictures of a request, at least 1."""
    system: str = ""
    """System prompt; empty for none."""
    states: Mapping[str, str] = field(default_factory=dict)
    """Texts with which an answer begins, by the state of the assistant; none for a model without."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for an empty template, one with another field, or without a picture."""
        if not strip_text(self.template):
            raise ValueError("the prompt is empty; write what the model is asked at each frame")
        plain = [f"{{{name}}}" for name in _FIELDS]
        rule = f"the prompt may have the fields {', '.join(plain)} only, and {{{{ for a brace"
        try:
            parsed = list(Formatter().parse(self.template))
        except ValueError as error:
            raise ValueError(f"{rule}; got {error}") from error
        for _, name, form, conversion in parsed:
            if name is not None and (name not in _FIELDS or form or conversion):
                raise ValueError(f"{rule}; got {short_repr(f'{name}:{form}' if form else name)}")
        if self.num_pictures < 1:
            raise ValueError(f"a request must have at least 1 picture; got {self.num_pictures}")

    def read(self, answer: str) -> tuple[str, str | None]:
        """Return the state of the assistant that an answer means, and its message, if any."""
        text = strip_text(answer)
        for name, opening in self.states.items():
            if text.startswith(opening.strip()):
                return name, (text.removeprefix(opening.strip()).strip() or None) if name == RESPONSE else None
        is_silence = text.strip(".!\"'*_`[]()").casefold() in ("", self.silence.casefold())
        return ("silent", None) if is_silence else ("respond", text)

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


def make_messages(text: str, pictures: Sequence[bytes], *, system: str = "") -> list[Mapping[str, Any]]:
    """Return a chat of one message: JPEG pictures, then the text; a system prompt may precede it."""
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{to_base64(picture)}"}}
        for picture in pictures
    ]
    first: list[Mapping[str, Any]] = [{"role": "system", "content": system}] if system else []
    return [*first, {"role": "user", "content": [*parts, {"type": "text", "text": text}]}]


def to_base64(data: bytes) -> str:
    """Return data as base64 text."""
    return base64.b64encode(data).decode("ascii")
