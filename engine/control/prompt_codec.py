"""The interface between the controller and the tokenizer."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.records import Step


class PromptCodec(Protocol):
    """Converts prompts and texts to token ids and back; ``engine.model.prompt.Prompt`` implements it."""

    update_id: int
    """The token that opens a state update."""
    response_id: int
    """The token that opens a response."""
    eos_id: int
    """The token that ends a turn."""

    def schema(self, *, goal: str, steps: Sequence[Step], state: Mapping[str, str]) -> tuple[int, ...]:
        """Return the ids of the system prompt."""

    def user_turn(self, text: str) -> tuple[int, ...]:
        """Return the ids of a user turn."""

    def words(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text."""

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids."""
