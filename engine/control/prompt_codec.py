"""The interface between the controller and the tokenizer: the parts of a context as token ids.

The context of a stream is built of these parts, frame by frame::

    schema | image, frame_separator          a silent frame
           | image, response_opening, reply, eos (if feeds_eos), stream_opening

Examples, with ``#`` for the tokens of an image. SmolVLM has no separators: ``schema # # [ASST] Good . <eos> #``.
VideoLLM-online writes ``<bos>... [ # , # ] Assistant: Good . <eos> [ #``, and ProAssist
``<bos>... # # <header> assistant ... Good . #``, where the model itself writes the opening of its reply.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from stepscope.engine.records import Step

SUMMARY_REQUEST: Final = "Please summarize the progress."
"""The request for a summary. **Source**: ProAssist, mmassist/datasets/prepare/prompts.py."""


class PromptCodec(Protocol):
    """Converts prompts and texts to token ids and back; the prompts of ``engine.model`` implement it."""

    update_opening: tuple[int, ...]
    """The tokens that open a state update; empty if the model writes none."""
    response_opening: tuple[int, ...]
    """The tokens that open a response. If empty, its first token is read at the image, where silence is excluded."""
    frame_separator: tuple[int, ...]
    """The tokens between a silent frame and the next image."""
    stream_opening: tuple[int, ...]
    """The tokens between the end of a response and the next image."""
    eos_id: int
    """The token that closes a turn in the context."""
    other_ends: tuple[int, ...] = ()
    """Further tokens that end a turn when they are generated; none enters the context."""
    feeds_eos: bool
    answers_user_turns: bool
    """Whether user turns follow the image of their frame and are always answered; else they precede it."""

    def schema(
        self,
        *,
        goal: str,
        steps: Sequence[Step],
        state: Mapping[str, str],
        summary: str | None = None,
        instructions: str = "",
    ) -> tuple[int, ...]:
        """Return the ids of the system prompt, up to the first image, perhaps with a summary of the past.

        ``instructions`` replace the model's own beginning of it.
        """

    def user_turns(self, texts: Sequence[str], *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of the user turns of one frame; if they are answered, up to the reply.

        ``after`` is the end of the context before them: a template may write a space where a text opens a message.
        """

    def frame_text(self, text: str, *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of a text right before an image, behind a context that ends with ``after``."""

    def summary_request(self, *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids that ask for a summary of the context, placed as user turns are."""

    def question(self, text: str) -> tuple[int, ...]:
        """Return the ids of a question after an image, up to its answer. Raises ``ValueError`` if none can be asked."""

    def state(self, text: str) -> tuple[int, ...]:
        """Return the ids of a state's text, in which special tokens count. Raises ``ValueError`` if it takes none."""

    def words(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text as the model writes it, for drafts."""

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids."""
