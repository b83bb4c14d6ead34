"""The branches of a conversation: an edited or repeated question begins one, and the others stay. No Gradio."""

from dataclasses import dataclass, field, replace
from typing import Final

from stepscope.engine.chat.prompts import ChatTurn, Conversation

MAX_BRANCHES: Final = 50
"""Maximum number of branches of a conversation; a new one then replaces the oldest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
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

    branches: tuple[Branch, ...] = (Branch(),)
    shown_index: int = 0

    @property
    def shown(self) -> Branch:
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
        return self._with_shown(Branch(conversation=conversation, times_s=(*self.shown.times_s, time_s)))

    def edit(self, index: int, question: str) -> "Branches":
        """Return the branches with a new one, in which the question at turn ``index`` is replaced.

        Raises as ``Conversation.edit``.
        """
        conversation = self.shown.conversation.edit(index, question)
        return self._added(Branch(conversation=conversation, times_s=self.shown.times_s[: index + 1]))

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

    def _with_shown(self, branch: Branch) -> "Branches":
        before, after = self.branches[: self.shown_index], self.branches[self.shown_index + 1 :]
        return replace(self, branches=(*before, branch, *after))

    def _added(self, branch: Branch) -> "Branches":
        branches = (*self.branches, branch)[-MAX_BRANCHES:]
        return Branches(branches=branches, shown_index=len(branches) - 1)

    def _without_shown(self, index: int) -> "Branches":
        """Drop the shown branch, and show the one at ``index``."""
        rest = self.branches[: self.shown_index] + self.branches[self.shown_index + 1 :]
        return Branches(branches=rest, shown_index=index - (index > self.shown_index))

    def describe(self) -> list[str]:
        """Return a label of each branch: its number, and its questions from the first one that differs."""
        num_shared = _count_shared([branch.turns for branch in self.branches])
        labels = []
        for number, branch in enumerate(self.branches, 1):
            words = " / ".join(turn.question for turn in branch.turns[num_shared:]) or "the answer before"
            labels.append(f"{number} of {len(self.branches)}: {_cut(words)}")
        return labels


def _count_shared(all_turns: list[tuple[ChatTurn, ...]]) -> int:
    """Return the number of leading turns with equal questions in all branches; at least one turn is left out."""
    questions = [[turn.question for turn in turns] for turns in all_turns]
    num_shared = 0
    for column in zip(*questions, strict=False):
        if len(set(column)) > 1:
            break
        num_shared += 1
    return max(0, min(num_shared, min(map(len, questions)) - 1))


def _cut(text: str, *, max_chars: int = 80) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
