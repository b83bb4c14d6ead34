"""The conversation of a browser window: about the displayed video, or without one."""

from dataclasses import dataclass, field
from typing import Any

import gradio as gr
from torch import Tensor

from stepscope.app.formatting import format_clock
from stepscope.app.tabs.chat.conversation.branches import Branches
from stepscope.engine.chat.prompts import ChatTurn
from stepscope.engine.chat.service import Turn
from stepscope.engine.io.files import replace_surrogates

Messages = list[dict[str, Any]]


@dataclass(slots=True, kw_only=True)
class NewQuestion:
    """A question that waits for the model."""

    text: str
    time_s: float | None = None
    """Time in the video of the frame at the playhead; None without a video."""
    files: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class ChatWindow:
    """The conversation of a window, and the question that it waits for. The answering thread updates it."""

    video_id: str = ""
    """The video that it is about; a different one begins a new conversation."""
    branches: Branches = field(default_factory=Branches)
    before: Branches = field(default_factory=Branches)
    """The branches before the waiting question, restored after an error."""
    new: NewQuestion | None = None
    """The waiting question, until its pictures are encoded and the shown branch has it."""
    is_waiting: bool = False
    """Whether an answer was requested."""
    turn: Turn = field(default_factory=Turn)
    """The latest request of an answer, which can be stopped."""
    features: dict[str, Tensor] = field(default_factory=dict)
    """Embeddings of uploaded pictures by name."""
    files: dict[str, str] = field(default_factory=dict)
    """Files of uploaded pictures by name."""

    @property
    def turns(self) -> tuple[ChatTurn, ...]:
        """The turns of the shown branch."""
        return self.branches.shown.turns

    @property
    def answered(self) -> tuple[ChatTurn, ...]:
        """The turns of the shown branch that have an answer."""
        return tuple(turn for turn in self.turns if turn.answer is not None)

    @property
    def time_s(self) -> float | None:
        """Time in the video of the latest question; None without a video."""
        times_s = self.branches.shown.times_s
        return self.new.time_s if self.new is not None else times_s[-1] if times_s else None

    def begin(self, branches: Branches, new: NewQuestion | None = None) -> None:
        """Wait for the answer to the open question of ``branches``, or to a new one."""
        self.before, self.branches, self.new = self.branches, branches, new
        self.is_waiting, self.turn = True, Turn()

    def withdraw(self) -> None:
        """Drop the waiting question."""
        self.branches, self.new, self.is_waiting = self.before, None, False

    def messages(self, partial: str = "") -> Messages:
        """Return the shown branch as the messages of a ``gr.Chatbot``; ``partial`` is the answer so far."""
        shown: Messages = []
        for turn, time_s in zip(self.turns, self.branches.shown.times_s, strict=True):
            files = [self.files[digest] for digest in turn.pictures if digest in self.files]
            shown += _user_messages(turn.question, files, time_s)
            answer = turn.answer if turn.answer is not None else partial
            if answer or turn.answer is not None:
                shown.append({"role": "assistant", "content": replace_surrogates(answer) or "(no words)"})
        if self.new is not None:
            shown += _user_messages(self.new.text, self.new.files, self.new.time_s)
        return shown

    def find_turn(self, message: int) -> int:
        """Return the index of the turn that the message at an index belongs to."""
        num_turns = 0
        for item in self.messages()[: message + 1]:
            num_turns += item["role"] == "user" and isinstance(item["content"], str)
        return num_turns - 1


def _user_messages(question: str, files: tuple[str, ...] | list[str], time_s: float | None) -> Messages:
    """Return the messages of a question: its time in a video, a button that goes there; its pictures; its text."""
    if time_s is not None:
        clock = format_clock(time_s, digits=1)
        label = f'aria-label="Go to {clock}"'
        button = f'<button type="button" class="ask-time" data-time="{time_s}" {label}>{clock}</button>'
        return [{"role": "user", "content": gr.HTML(button, padding=False)}, *_user_messages(question, files, None)]
    pictures: Messages = [{"role": "user", "content": {"path": path, "alt_text": "Picture"}} for path in files]
    return [*pictures, {"role": "user", "content": replace_surrogates(question)}]
