"""The parts of a context as token ids, taken from a model's own chat template.

The context is one conversation: a system prompt, then messages of the user, whose images are the frames since the last
reply, and replies: ``system | user # # # | assistant Good. | user # # ...``. Texts never become special tokens.
"""

from collections.abc import Sequence
from typing import Any, Final

from transformers import PreTrainedTokenizerBase

from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.hub.images import FrameFormat
from stepscope.engine.model.prompt import StreamPrompt, find_answer_ids, render_template
from stepscope.engine.reasoning import close_reasoning

_SYSTEM, _ASKED, _REPLY = "\ue000", "\ue001", "\ue002"  # placeholders while the template is rendered
_PARTS: Final = {_SYSTEM: "the system message", _ASKED: "the text of a user", _REPLY: "a reply of the assistant"}


class HubPrompt(StreamPrompt):
    """Builds the parts of a context for a tokenizer with a chat template.

    The ids are those of the processor for the rendered conversation, with two exceptions that ``generate`` has, too:
    a reply keeps the ids of its generation, behind the generation prompt, also where a template writes past replies
    otherwise; and an id that was fed is final, so no text merges with it.

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
        image_alone, two_images, image_and_text, text_alone, replied, opened, opened_by_text = render_template(
            tokenizer,
            *(self._write(1), self._write(2), self._write(1, _ASKED, reply=True), self._write(0, _ASKED)),
            *(self._write(1, reply=True), self._write(1), self._write(1, _ASKED)),
            opens=[False] * 5 + [True] * 2,
        )
        system, message = self._cut(image_alone, _SYSTEM)
        head, tail = self._cut(message, image)
        between, _ = self._cut(self._cut(self._cut(two_images, _SYSTEM)[1], image)[1], image)
        before_text, after_text = self._cut(self._cut(image_and_text, image)[1], _ASKED)
        text_after = next(before_text[:n] for n in range(len(before_text), -1, -1) if tail.startswith(before_text[:n]))
        self._text_opening = before_text.removeprefix(text_after)  # "\n" in LLaVA-OneVision's "<image>\nWhat?"
        text_before = between.removeprefix(text_after)
        user_opening = head.removesuffix(text_before)
        opening = user_opening.rstrip(" ")  # " USER:" of LLaVA 1.5, whose space a text takes as "▁What"
        first_text, _ = self._cut(self._cut(text_alone, _SYSTEM)[1], _ASKED)
        self._first_opening = first_text.removeprefix(opening)  # " " in SmolVLM's "User: What?"
        text_reply, _ = self._cut(after_text, _REPLY)
        image_reply, after = self._cut(self._cut(replied, image)[1].removeprefix(text_after), _REPLY)
        self._text_closing = text_reply.removesuffix(image_reply)  # " " in LLaVA 1.5's "USER: What? ASSISTANT: "
        reply_end, _ = self._cut(after, image)
        spaces = self._text_opening + self._first_opening + self._text_closing
        if text_after + text_before != between or user_opening + text_before != head or spaces.strip():
            raise CheckpointError(
                f"the chat template writes {between!r} between two images, {head!r} before a first one, {text_after!r} "
                f"between an image and a text and {spaces!r} around texts; it cannot be streamed"
            )
        image_prompt = self._cut(opened, image)[1].removeprefix(text_after)
        text_prompt = self._cut(opened_by_text, _ASKED)[1]
        if image_prompt == tail.removeprefix(text_after):  # without a generation prompt: as in past turns
            image_prompt, text_prompt = image_reply.rstrip(" "), text_reply.rstrip(" ")
        behind_prompt = image_reply.removeprefix(image_prompt)
        self._space = "" if behind_prompt.strip(" ") else behind_prompt  # LLaVA-OneVision writes past replies otherwise
        self._before_system = system.rstrip(" ")
        self._system_space = system.removeprefix(self._before_system)
        self._after_system = self.ids(opening)
        self._image_space = self.ids(user_opening.removeprefix(opening))
        self.opening = self.ids(text_before + frame_format.opening)
        before = image + frame_format.closing + text_after
        self.closing = self.ids(before, begins=True)[1:]
        self._text_begins = self.begins_after(before)
        self._first_begins = self.begins_after(opening)
        self.response_opening = self.ids(image_prompt, begins=self._text_begins)
        self._text_reply = self.ids(text_prompt)
        self.without_thought = self.ids(close_reasoning(text_prompt))
        end = self.ids(reply_end.removesuffix(text_before).rstrip(" "))
        if not end or not self.response_opening:
            raise CheckpointError("the chat template does not end a reply; it cannot be streamed")
        self.eos_id, self.stream_opening = end[0], end[1:]
        if end[0] not in tokenizer.added_tokens_decoder and isinstance(tokenizer.eos_token_id, int):
            # the template of LLaVA 1.5 writes none, "ASSISTANT: Good. USER: ", so the context has none
            self.eos_id, self.stream_opening, self.feeds_eos = tokenizer.eos_token_id, end, False
        find_answer_ids(tokenizer)  # before the first frame

    def system(self, text: str) -> tuple[int, ...]:
        """Return the ids of a system prompt with this text, and of the opening of the first message."""
        words = self.plain(self._system_space + text, begins=self.begins_after(self._before_system))
        return (*self.start(self._before_system), *words, *self._after_system)

    def user_turns(self, texts: Sequence[str], *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of texts of the user, which precede an image within a message."""
        return self.before_image(texts, after=after)

    def before_image(
        self, turns: Sequence[str] = (), text: str = "", *, after: Sequence[object] = ()
    ) -> tuple[int, ...]:
        """Return the ids of texts before an image, with the space and line breaks of the template around each.

        The space before a text or image that opens a message is its own: ``after`` ends with the opening of one.
        """
        texts = [*(f"{turn}\n" for turn in turns), *([text] if text else [])]
        if not texts:
            return self._image_space if self._opens_message(after) else ()
        between = self._text_closing + self._text_opening
        return self._text(between.join(texts) + self._text_closing, after)

    def question(self, text: str, *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of a question after an image or behind ``after``, up to its answer."""
        return (*self._text(text, after), *self._text_reply)

    def state(self, text: str) -> tuple[int, ...]:
        """Return the ids of a state's text, in which special tokens count, with the space before a reply."""
        return (*self.without_thought, *self.ids(self._space + text))

    def _text(self, text: str, after: Sequence[object]) -> tuple[int, ...]:
        """Return the ids of a text in a message, with the space or line break of the template before it."""
        if self._opens_message(after):
            return self.plain(self._first_opening + text, begins=self._first_begins)
        return self.plain(self._text_opening + text, begins=self._text_begins)

    def _opens_message(self, after: Sequence[object]) -> bool:
        openings = (self._after_system, self.stream_opening)
        return any(ids and tuple(after[-len(ids) :]) == ids for ids in openings)

    def words(self, text: str) -> tuple[int, ...]:
        """Return the ids of a reply, with the space that a template such as ``Assistant: Good.`` writes before it."""
        return self.plain(self._space + text)

    def _write(self, num_images: int, text: str = "", *, reply: bool = False) -> list[dict[str, Any]]:
        """Return a message of images and a text; if ``reply``, with a reply and a message of an image after it."""

        def say(role: str, text: str, images: int = 0) -> dict[str, Any]:
            texts = [{"type": "text", "text": text}] if text else []
            return {"role": role, "content": [{"type": self._content}] * images + texts}

        messages = [say("system", _SYSTEM), say("user", text, num_images)]
        if reply:
            messages += [say("assistant", _REPLY), say("user", "", 1)]
        return messages

    def _cut(self, rendered: str, text: str) -> tuple[str, str]:
        """Return the parts before and after the first occurrence of a text."""
        before, found, after = rendered.partition(text)
        if not found:
            part = _PARTS.get(text, f"the {text.strip()!r} of an image")
            raise CheckpointError(f"the chat template leaves out {part}; it cannot be streamed")
        return before, after
