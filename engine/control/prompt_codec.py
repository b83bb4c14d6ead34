"""The interface between the controller and the tokenizer: the parts of a context as token ids.

The context of a stream is built of these parts, frame by frame::

    schema | image, frame_separator          a silent frame
           | image, response_opening, reply, eos (if feeds_eos), stream_opening

Examples, with ``#`` for the tokens of an image. SmolVLM has no separators: ``schema # # [ASST] Good . <eos> #``.
VideoLLM-online writes ``<bos>... [ # , # ] Assistant: Good . <eos> [ #``, and ProAssist
``<bos>... # # <header> assistant ... Good . #``, where the model itself writes the opening of its reply.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from stepscope.engine.reasoning import MAX_REASONING, ends_in_reasoning, read_written
from stepscope.engine.records import Reasoning, Step

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
    feeds_last_token: bool
    """Whether the last token of a reply at its limit enters the context."""
    answers_user_turns: bool
    """Whether user turns follow the image of their frame and are always answered; else they precede it."""
    without_thought: tuple[int, ...] = ()
    """The tokens behind a question that end the reasoning which the prompt opens: the next word is the decision."""

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

    def before_image(
        self, turns: Sequence[str] = (), text: str = "", *, after: Sequence[object] = ()
    ) -> tuple[int, ...]:
        """Return the ids between a context that ends with ``after`` and an image.

        They are user turns, unless they follow the image, and a text; without both a space of the template, if any.
        """

    def summary_request(self, *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids that ask for a summary of the context, placed as user turns are."""

    def question(self, text: str, *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of a question up to its answer, after an image, or behind a context that ends with ``after``.

        Raises ``ValueError`` if none can be asked.
        """

    def state(self, text: str) -> tuple[int, ...]:
        """Return the ids of a state's text, in which special tokens count. Raises ``ValueError`` if it takes none."""

    def words(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text as the model writes it, for drafts."""

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids."""


def read_reply(codec: PromptCodec, ids: Sequence[int]) -> tuple[str, Reasoning | None]:
    """Return the message in the ids of a reply, and the reasoning before it; the message is empty if that has no end.

    A thinking model may find the opening of its reasoning in its prompt, so that the ids have its end alone.
    """
    is_opened = ends_in_reasoning(codec.text(codec.response_opening))
    thought, message = read_written(codec.text(ids), is_opened_by_prompt=is_opened)
    if not thought:
        return message or "", None

    def has_whole(num_tokens: int) -> bool:
        part = read_written(codec.text(ids[:num_tokens]), is_opened_by_prompt=is_opened)
        return part[0] == thought and (part[1] is not None or message is None)

    num_tokens = bisect_left(range(len(ids)), True, key=has_whole)
    return message or "", Reasoning(text=thought[:MAX_REASONING], num_tokens=num_tokens)
