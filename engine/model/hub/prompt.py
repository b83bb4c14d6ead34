"""The parts of a context as token ids, taken from a model's own chat template.

The context is one conversation: a system prompt, then messages of the user, whose images are the frames since the last
reply, and replies: ``system | user # # # | assistant Good. | user # # ...``. Texts never become special tokens.
"""

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.hub.images import FrameFormat
from stepscope.engine.model.prompt import StreamPrompt, find_answer_ids, render_template

_SYSTEM, _ASKED, _REPLY = "\ue000", "\ue001", "\ue002"  # placeholders while the template is rendered


class HubPrompt(StreamPrompt):
    """Builds the parts of a context for a tokenizer with a chat template.

    Attributes:
        opening: Ids before the tokens of an image.
        closing: Ids after them.

    Raises:
        CheckpointError: The template cannot be rendered, or cannot be extended turn by turn.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, image_id: int, frame_format: FrameFormat) -> None:
        super().__init__(tokenizer)
        self.image_id, self.suppress_tokens = image_id, (image_id,)
        self._content = "video" if frame_format.is_video else "image"
        image = str(tokenizer.convert_ids_to_tokens(image_id))
        system, message = self._cut(self._render(1), _SYSTEM)
        head, tail = self._cut(message, image)
        between, _ = self._cut(self._cut(self._cut(self._render(2), _SYSTEM)[1], image)[1], image)
        before_text, after_text = self._cut(self._cut(self._render(1, _ASKED, reply=True), image)[1], _ASKED)
        text_after = next(before_text[:n] for n in range(len(before_text), -1, -1) if tail.startswith(before_text[:n]))
        self._text_opening = before_text.removeprefix(text_after)  # "\n" in LLaVA-OneVision's "<image>\nWhat?"
        text_before = between.removeprefix(text_after)
        user_opening = head.removesuffix(text_before)
        first_text, _ = self._cut(self._cut(self._render(0, _ASKED), _SYSTEM)[1], _ASKED)
        self._first_opening = first_text.removeprefix(user_opening)  # " " in SmolVLM's "User: What?"
        text_reply, _ = self._cut(after_text, _REPLY)
        image_reply, after = self._cut(
            self._cut(self._render(1, reply=True), image)[1].removeprefix(text_after), _REPLY
        )
        self._text_closing = text_reply.removesuffix(image_reply)  # " " in LLaVA 1.5's "USER: What? ASSISTANT: "
        reply_end, _ = self._cut(after, image)
        spaces = self._text_opening + self._first_opening + self._text_closing
        if text_after + text_before != between or user_opening + text_before != head or spaces.strip():
            raise CheckpointError("the chat template writes an image in different ways; it cannot be streamed")
        self._before_system = system.rstrip(" ")
        self._system_space = system.removeprefix(self._before_system)
        self._after_system = self.ids(user_opening)
        self.opening = self.ids(text_before + frame_format.opening)
        self.closing = self.ids(frame_format.closing + text_after)
        self.response_opening = self.ids(image_reply.rstrip(" "))
        self._text_reply = self.ids(text_reply.rstrip(" "))
        self._space = image_reply[len(image_reply.rstrip(" ")) :]
        end = self.ids(reply_end.removesuffix(text_before))
        if not end or not self.response_opening:
            raise CheckpointError("the chat template does not end a reply; it cannot be streamed")
        if end[0] not in tokenizer.added_tokens_decoder and isinstance(tokenizer.eos_token_id, int):
            end = (tokenizer.eos_token_id, *end)  # that of LLaVA 1.5 writes none: "ASSISTANT: Good. USER: "
        self.eos_id, self.stream_opening = end[0], end[1:]
        find_answer_ids(tokenizer)  # before the first frame

    def system(self, text: str) -> tuple[int, ...]:
        """Return the ids of a system prompt with this text, and of the opening of the first message."""
        return (*self.ids(self._before_system), *self.plain(self._system_space + text), *self._after_system)

    def user_turns(self, texts: Sequence[str], *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of texts of the user, which precede an image within a message."""
        return self._texts([f"{text}\n" for text in texts], after)

    def frame_text(self, text: str, *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of a text of the user before an image."""
        return self._texts([text] if text else [], after)

    def _texts(self, texts: Sequence[str], after: Sequence[object]) -> tuple[int, ...]:
        """Return the ids of texts, with the space and line breaks of the template around each.

        The space before a text that opens a message is its own: ``after`` ends with the opening of one.
        """
        between, openings = self._text_closing + self._text_opening, (self._after_system, self.stream_opening)
        is_first = any(ids and tuple(after[-len(ids) :]) == ids for ids in openings)
        space = self._first_opening if is_first else self._text_opening
        return self.plain(space + between.join(texts) + self._text_closing) if texts else ()

    def question(self, text: str) -> tuple[int, ...]:
        """Return the ids of a question after an image, up to its answer."""
        return (*self.plain(self._text_opening + text), *self._text_reply)

    def state(self, text: str) -> tuple[int, ...]:
        """Return the ids of a state's text, in which special tokens count, with the space before a reply."""
        return self.ids(self._space + text)

    def words(self, text: str) -> tuple[int, ...]:
        """Return the ids of a reply, with the space that a template such as ``Assistant: Good.`` writes before it."""
        return self.plain(self._space + text)

    def _render(self, num_images: int, text: str = "", *, reply: bool = False) -> str:
        """Render a message of images and a text; if ``reply``, with a reply and a message of an image after it."""

        def say(role: str, text: str, images: int = 0) -> dict[str, Any]:
            texts = [{"type": "text", "text": text}] if text else []
            return {"role": role, "content": [{"type": self._content}] * images + texts}

        messages = [say("system", _SYSTEM), say("user", text, num_images)]
        if reply:
            messages += [say("assistant", _REPLY), say("user", "", 1)]
        return render_template(self.tokenizer, messages)

    def _cut(self, rendered: str, text: str) -> tuple[str, str]:
        """Return the parts before and after the first occurrence of a text."""
        before, found, after = rendered.partition(text)
        if not found:
            raise CheckpointError("the chat template leaves out a part of the conversation; it cannot be streamed")
        return before, after
