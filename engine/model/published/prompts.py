"""The text templates of the published assistants as token ids. Texts of users never become special tokens.

**Source**: showlab/videollm-online@e2c78ec (models/tokenization_live.py, demo/inference.py) and pro-assist@9d0b2b2
(mmassist/model/tokenization_proact.py).
"""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from stepscope.engine.control.prompt_codec import SUMMARY_REQUEST
from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.prompt import StreamPrompt, find_token
from stepscope.engine.model.published.layout import EOS_TOKEN
from stepscope.engine.records import Step

_ONLINE_SYSTEM = (
    "A multimodal AI assistant is helping users with some activities."
    " Below is their conversation, interleaved with the list of video frames received by the assistant."
)
_PROASSIST_SYSTEM = (
    "You are a proactive assistant. Pay close attention to the user's actions and provide relevant information"
    " proactively."
)


class _LlamaPrompt(StreamPrompt):
    """The parts that both templates share.

    Raises ``CheckpointError`` if the tokenizer's end of turn is not the one of the checkpoint's training.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(tokenizer)
        if tokenizer.eos_token != EOS_TOKEN:
            raise CheckpointError(
                f"the tokenizer ends a turn with {tokenizer.eos_token}, but the checkpoint was trained with "
                f"{EOS_TOKEN} and would never stop; set eos_token to it in the tokenizer_config.json of the base model"
            )
        self.eos_id = self.find(EOS_TOKEN)
        if not isinstance(tokenizer.bos_token_id, int):
            raise CheckpointError("the base model's tokenizer has no bos_token; it is not that of a Llama 3")
        self.bos_id = tokenizer.bos_token_id

    def question(self, text: str, *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Raise ``ValueError``: the published assistants answer no questions behind a frame."""
        raise ValueError("the policy answer is for image-text models of the hub, not for a published assistant")

    def state(self, text: str) -> tuple[int, ...]:
        """Raise ``ValueError``: the published assistants write no states."""
        raise ValueError("a policy of states is for image-text models of the hub, not for a published assistant")

    def find(self, token: str) -> int:
        """Return the id of a special token. Raises ``CheckpointError`` if it is missing."""
        token_id = find_token(self.tokenizer, token)
        if token_id is None:
            raise CheckpointError(f"the base model's tokenizer has no {token}; it is not that of a Llama 3")
        return token_id


class VideoLLMOnlinePrompt(_LlamaPrompt):
    r"""VideoLLM-online: frames in brackets, joined by a separator, that questions and replies interrupt.

    ``<bos>system\n\n[#,#]\nAssistant: Good.<eos>\n[#]\nUser: What is next?\nAssistant: ...``
    """

    answers_user_turns = True

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, separator: str) -> None:
        super().__init__(tokenizer)
        self.frame_separator = self.plain(separator)
        if len(self.frame_separator) > 1:
            raise CheckpointError(f"the separator {separator!r} of the frames is not one token of the tokenizer")
        self.silent_id = self.frame_separator[0] if separator else self.eos_id
        self.response_opening = self.plain("]\nAssistant:")
        self.stream_opening = self.plain("\n[")

    def schema(self, *, summary: str | None = None, instructions: str = "", **_: object) -> tuple[int, ...]:
        """Return the ids of the published system prompt, which has no place for goal and steps."""
        return self.system(f"{instructions or _ONLINE_SYSTEM} {summary or ''}".rstrip())

    def system(self, text: str) -> tuple[int, ...]:
        """Return the ids of a system prompt with this text, and the bracket before the first frame."""
        return (self.bos_id, *self.plain(f"{text}\n\n["))

    def user_turns(self, texts: Sequence[str], *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of the questions at one frame, up to the answer."""
        questions = "\n".join(f"User: {text}" for text in texts)
        return self.plain(f"]\n{questions}\nAssistant:")

    def words(self, text: str) -> tuple[int, ...]:
        """Return the ids of a reply, which begins with a space."""
        return self.plain(f" {text}")


class ProAssistPrompt(_LlamaPrompt):
    """ProAssist: the chat format of Llama 3. The model writes the header of its reply itself; its end is not fed."""

    feeds_eos = False
    feeds_last_token = False

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(tokenizer)
        self._start, self._end = self.find("<|start_header_id|>"), self.find("<|end_header_id|>")
        self.silent_id = self.eos_id

    def schema(
        self, *, goal: str, steps: Sequence[Step], summary: str | None = None, instructions: str = "", **_: object
    ) -> tuple[int, ...]:
        """Return the ids of the system prompt; goal and steps follow it as task knowledge.

        With a summary, all of it is one message: prompt, summary, knowledge.
        """
        lines = [goal] if goal else []
        lines += [f"{number}. {step.name}" for number, step in enumerate(steps, start=1)]
        knowledge = ["Task knowledge: " + "\n".join(lines)] if lines else []
        system = instructions or _PROASSIST_SYSTEM
        if summary is not None:
            return self.system(" ".join([system, summary, *knowledge]))
        return (*self.system(system), *(token for text in knowledge for token in self._message("system", text)))

    def system(self, text: str) -> tuple[int, ...]:
        """Return the ids of a system prompt with this text."""
        return (self.bos_id, *self._message("system", text))

    def user_turns(self, texts: Sequence[str], *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of the user's messages at one frame."""
        return tuple(token for text in texts for token in self._message("user", text))

    def summary_request(self, *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of the system's request for a summary."""
        return self._message("system", SUMMARY_REQUEST)

    def words(self, text: str) -> tuple[int, ...]:
        """Return the ids of a reply with the header that the model writes."""
        return (*self._header("assistant"), *self.plain(f"\n\n{text}"))

    def text(self, ids: Sequence[int]) -> str:
        """Return the text after the last header, without special tokens and without a header that is being written."""
        after, header = list(ids), list(ids)[::-1]
        if self._start in header and self._end not in header[: header.index(self._start)]:
            after = after[: -1 - header.index(self._start)]
        if self._end in after:
            after = after[len(after) - after[::-1].index(self._end) :]
        return str(self.tokenizer.decode(after, skip_special_tokens=True)).strip()

    def _header(self, role: str) -> tuple[int, ...]:
        return (self._start, *self.plain(role), self._end)

    def _message(self, role: str, text: str) -> tuple[int, ...]:
        return (*self._header(role), *self.plain(f"\n\n{text.strip()}"), self.eos_id)
