"""The conversation of a browser window, about the displayed video or without one, and its branches."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

import gradio as gr
from pydantic import Field
from torch import Tensor

from stepscope.app.controls.widgets import Arguments
from stepscope.app.formatting import format_clock
from stepscope.engine.chat.prompts import ChatTurn, Conversation
from stepscope.engine.chat.service import AnswerRequest
from stepscope.engine.io.files import replace_surrogates

MAX_BRANCHES: Final = 50
"""Maximum number of branches of a conversation; a new one then replaces the oldest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatBranch:
    """One conversation, and the time in the video of each of its questions."""

    conversation: Conversation = field(default_factory=Conversation)
    times_s: tuple[float | None, ...] = ()
    """One per turn; None in a conversation without a video. A time, because a later run may have other frames."""

    @property
    def turns(self) -> tuple[ChatTurn, ...]:
        """The turns of the conversation."""
        return self.conversation.turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches:
    """All branches of a conversation, one of them shown. Immutable: each method returns a new record."""

    branches: tuple[ChatBranch, ...] = (ChatBranch(),)
    shown_index: int = 0

    @property
    def shown(self) -> ChatBranch:
        """The branch on the page."""
        return self.branches[self.shown_index]

    def show(self, index: int) -> "Branches":
        """Return the branches with branch ``index`` shown. Raises ``ValueError`` if it does not exist."""
        if not 0 <= index < len(self.branches):
            raise ValueError(f"there is no branch {index + 1}; the conversation has {len(self.branches)}")
        return replace(self, shown_index=index)

    def ask(self, question: str, *, time_s: float | None, pictures: tuple[str, ...]) -> "Branches":
        """Return the branches with a question appended to the shown one. Raises as ``Conversation.ask``."""
        conversation = self.shown.conversation.ask(question, pictures=pictures)
        return self._with_shown(ChatBranch(conversation=conversation, times_s=(*self.shown.times_s, time_s)))

    def edit(self, index: int, question: str) -> "Branches":
        """Return the branches with a new one, in which the question at turn ``index`` is replaced.

        Raises as ``Conversation.edit``.
        """
        conversation = self.shown.conversation.edit(index, question)
        return self._added(ChatBranch(conversation=conversation, times_s=self.shown.times_s[: index + 1]))

    def regenerate(self) -> "Branches":
        """Return the branches with a new one, in which the last question of the shown one is open again."""
        return self._added(replace(self.shown, conversation=self.shown.conversation.regenerate()))

    def answered(self, text: str) -> "Branches":
        """Return the branches with the answer to the open question.

        A branch that becomes equal to an existing one, as after a repeated answer, is dropped.
        """
        branch = replace(self.shown, conversation=self.shown.conversation.answered(text))
        for index, other in enumerate(self.branches):
            if index != self.shown_index and other.turns[: len(branch.turns)] == branch.turns:
                return self._without_shown(index)
        return self._with_shown(branch)

    def _with_shown(self, branch: ChatBranch) -> "Branches":
        before, after = self.branches[: self.shown_index], self.branches[self.shown_index + 1 :]
        return replace(self, branches=(*before, branch, *after))

    def _added(self, branch: ChatBranch) -> "Branches":
        branches = (*self.branches, branch)[-MAX_BRANCHES:]
        return Branches(branches=branches, shown_index=len(branches) - 1)

    def _without_shown(self, index: int) -> "Branches":
        """Drop the shown branch, and show the one at ``index``."""
        # Without it, the branches after it are one place nearer.
        rest = self.branches[: self.shown_index] + self.branches[self.shown_index + 1 :]
        return Branches(branches=rest, shown_index=index - (index > self.shown_index))

    def describe(self) -> list[str]:
        """Return a label of each branch: its number and its last question."""
        questions = ["".join(turn.question for turn in branch.turns[-1:]) for branch in self.branches]
        return [f"{number} of {len(questions)}: {text[:80]}" for number, text in enumerate(questions, 1)]


Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Arguments):
    """A question that the player's script asks, and the frame at the playhead."""

    text: str = ""
    frame: Annotated[int, Field(ge=0, lt=10**9)] = 0


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
    request: AnswerRequest = field(default_factory=AnswerRequest)
    """The latest request of an answer, which can be stopped."""
    features: dict[str, Tensor] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

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
        self.is_waiting, self.request = True, AnswerRequest()

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
