"""Conversion of text to token ids and back, for training and streaming.

The context is ``[system prompt][user turn?][image 0][turns of frame 0][user turn?][image 1]...``; a turn of the
assistant is ``[DST] S3->complete <eos>`` or ``[ASST] text <eos>``. Texts never become special tokens.
"""

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final

from transformers import PreTrainedTokenizerBase

from stepscope.engine.control.prompt_codec import SUMMARY_REQUEST, PromptCodec
from stepscope.engine.errors import CheckpointError, ContextError, first_line
from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.model.bounded import run_bounded
from stepscope.engine.reasoning import is_mark
from stepscope.engine.records import Step

UPDATE_TOKEN = "[DST]"
RESPONSE_TOKEN = "[ASST]"
MAX_TEXT_CHARS: Final = 2**17
"""Maximum length of a text that is split into tokens: emoji take 0.4 s, in which other conversations wait."""
YES: Final = ("yes", "Yes", "YES", " yes", " Yes", " YES")
NO: Final = ("no", "No", "NO", " no", " No", " NO")
"""Spellings of answers; those that are one token of a tokenizer count."""
_ANCHORS: Final = ("\n", ":", "a", "1", "\ue000")
"""Texts behind which another is tokenised, where a tokenizer changes the beginning of a text."""
_SYSTEM, _USER = ("\ue000", "\ue001")  # private-use characters as placeholders while the template is rendered


_INSTRUCTIONS: Final = "You are a helpful assistant."


def schema_text(
    *, goal: str, steps: Sequence[Step], state: Mapping[str, str], summary: str | None = None, instructions: str = ""
) -> str:
    """Return the text of the system prompt: the goal, every step with its state, the state line, and a summary.

    ``instructions`` replace the first line. The last line is that of the DST training data.
    """
    lines = [instructions.strip() or _INSTRUCTIONS]
    if goal.strip():
        lines += ["", f"Task: {_one_line(goal)}"]
    if steps:
        lines += ["Steps:"]
        lines += [f"- {_one_line(s.id)}: {_one_line(s.name)} ({state[s.id].upper()})" for s in steps]
        states = ", ".join(f"Step {_one_line(s.id)}: {state[s.id]}" for s in steps)
        lines += ["", "Dialogue Context:", f"Current step states - {states}"]
    if summary:
        lines += ["", f"Summary: {_one_line(summary)}"]
    return "\n".join(lines)


def find_token(tokenizer: PreTrainedTokenizerBase, token: str) -> int | None:
    """Return the id of a token; None if the tokenizer lacks it."""
    token_id = tokenizer.convert_tokens_to_ids(token)
    return token_id if isinstance(token_id, int) and token_id != tokenizer.unk_token_id else None


def render_template(
    tokenizer: PreTrainedTokenizerBase, *conversations: list[dict[str, Any]], opens: Iterable[bool] = ()
) -> list[str]:
    """Return conversations as the chat template of a tokenizer writes them. Raises ``CheckpointError``.

    ``opens`` says of each whether the generation prompt follows it; by default none does.
    """

    def write() -> str:
        chosen = zip_longest(conversations, opens, fillvalue=False)
        render = tokenizer.apply_chat_template
        return json.dumps([str(render(one, tokenize=False, add_generation_prompt=opened)) for one, opened in chosen])

    try:  # a template is a program, which need not end; a process for each conversation would take longer
        rendered: list[str] = json.loads(run_bounded(write))
        return rendered
    except (ValueError, OSError) as error:
        raise CheckpointError(
            f"the chat template cannot write messages of texts and images: {first_line(error)}; add that of the "
            "processor to the folder, as chat_template.json or chat_template.jinja"
        ) from error


def encode_text(
    tokenizer: PreTrainedTokenizerBase, text: str, *, begins: bool = False, **options: bool
) -> tuple[int, ...]:
    r"""Return the ids that a text has behind another text; with ``begins``, those of a text alone.

    SentencePiece puts a space before a text: "Is" alone is ``▁Is``, behind ``USER:\n`` it is ``Is``. A token boundary
    splits a text into parts with the tokens that each has without the other, so the ids behind an anchor are exact.

    Raises ``ContextError`` for more than ``MAX_TEXT_CHARS``.
    """
    if len(text) > MAX_TEXT_CHARS:
        raise ContextError(f"a text has at most {MAX_TEXT_CHARS} characters; got {len(text)}; shorten it")
    text = replace_surrogates(text)
    if begins or not text or not _changes_beginning(tokenizer):
        return _encode(tokenizer, text, **options)
    for anchor in _ANCHORS:
        before, ids = (_encode(tokenizer, part, **options) for part in (anchor, anchor + text))
        if ids[: len(before)] == before:
            return ids[len(before) :]
    raise ContextError(f"the text {text[:40]!r} cannot be tokenised behind another; change its first character")


def _encode(tokenizer: PreTrainedTokenizerBase, text: str, **options: bool) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False, **options)["input_ids"]) if text else ()


@lru_cache(maxsize=8)
def _changes_beginning(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether a text alone has other ids than behind a line break."""
    line_break = _encode(tokenizer, "\n")
    return any(_encode(tokenizer, f"\n{text}") != line_break + _encode(tokenizer, text) for text in ("a", " a"))


def find_answer_ids(tokenizer: PreTrainedTokenizerBase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids of all spellings of yes, and of no, that are one token.

    Raises ``CheckpointError`` if the tokenizer has none.
    """
    pairs = [[encode_text(tokenizer, word) for word in words] for words in (YES, NO)]
    yes, no = (tuple(sorted({ids[0] for ids in spellings if len(ids) == 1})) for spellings in pairs)
    if not yes or not no:
        raise CheckpointError("the tokenizer has no single token for yes and for no; its answers cannot be read")
    return yes, no


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cut(rendered: str, text: str) -> tuple[str, str]:
    """Return the parts of a rendered template before and after a text."""
    if rendered.count(text) != 1:
        role = "system" if text == _SYSTEM else "user"
        raise CheckpointError(f"the chat template must write the {role} text once; it cannot be streamed")
    before, _, after = rendered.partition(text)
    return before, after


class StreamPrompt(PromptCodec):
    """The prompt codec of a loaded model: the parts that most templates share."""

    update_opening: tuple[int, ...] = ()
    response_opening: tuple[int, ...] = ()
    frame_separator: tuple[int, ...] = ()
    stream_opening: tuple[int, ...] = ()
    image_id: int = 0
    """Id that stands for each token of an image, whose embedding replaces it."""
    suppress_tokens: tuple[int, ...] = ()
    """Ids that are never generated within a turn."""
    other_ends: tuple[int, ...] = ()
    feeds_eos = True
    feeds_last_token = True
    answers_user_turns = False
    without_thought: tuple[int, ...] = ()

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        special = ((id, token) for id, token in tokenizer.added_tokens_decoder.items() if token.special)
        self._left_out = {id for id, token in special if not is_mark(token.content)}

    def schema(
        self,
        *,
        goal: str,
        steps: Sequence[Step],
        state: Mapping[str, str],
        summary: str | None = None,
        instructions: str = "",
    ) -> tuple[int, ...]:
        """Return the ids of the system prompt, up to the first image."""
        return self.system(schema_text(goal=goal, steps=steps, state=state, summary=summary, instructions=instructions))

    @abstractmethod
    def system(self, text: str) -> tuple[int, ...]:
        """Return the ids of a system prompt with this text, up to the first image."""

    def before_image(
        self, turns: Sequence[str] = (), text: str = "", *, after: Sequence[object] = ()
    ) -> tuple[int, ...]:
        """Return the ids between a context that ends with ``after`` and an image: user turns, and a text."""
        return (*(self.user_turns(turns, after=after) if turns else ()), *self.plain(text))

    def summary_request(self, *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of the user turn that asks for a summary."""
        return self.user_turns([SUMMARY_REQUEST], after=after)

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids, without special tokens apart from the marks of reasoning."""
        return str(self.tokenizer.decode([token for token in ids if token not in self._left_out])).strip()

    def ids(self, text: str, *, begins: bool = False) -> tuple[int, ...]:
        """Return the ids of a text behind another or, with ``begins``, alone; special tokens in it count."""
        return encode_text(self.tokenizer, text, begins=begins)

    def plain(self, text: str, *, begins: bool = False) -> tuple[int, ...]:
        """Return the ids as ``ids`` does; special tokens in the text are split into ordinary ones."""
        return encode_text(self.tokenizer, text, begins=begins, split_special_tokens=True)

    def begins_after(self, before: str) -> bool:
        """Return whether a text right behind ``before``, such as a special token, has the ids of a text alone."""
        return self.ids(f"{before}a", begins=True) == self.ids(before, begins=True) + self.ids("a", begins=True)

    def start(self, text: str) -> tuple[int, ...]:
        """Return the ids of the beginning of a rendered template, behind those that the tokenizer puts first.

        As in the processors of transformers, it puts nothing before the ``bos_token`` of a template.
        """
        bos, whole = self.tokenizer.bos_token, self.tokenizer("a")["input_ids"]
        num_added = whole.index(self.ids("a", begins=True)[0])
        is_written = bos is not None and text.startswith(bos)
        return (*whole[: 0 if is_written else num_added], *self.ids(text, begins=True))


class Prompt(StreamPrompt):
    """Builds the parts of a context as token ids, for one tokenizer with a chat template.

    Raises ``CheckpointError`` if the tokenizer lacks special tokens, or if its template cannot be extended turn by
    turn.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(tokenizer)
        self.update_id = self._special(UPDATE_TOKEN)
        self.response_id = self._special(RESPONSE_TOKEN)
        self.update_opening, self.response_opening = (self.update_id,), (self.response_id,)
        self.image_id = self._special("<image>")
        self.suppress_tokens = (self.update_id, self.response_id, self.image_id)
        eos_id = tokenizer.eos_token_id
        if not isinstance(eos_id, int):
            raise CheckpointError("the tokenizer has no end-of-turn token (eos_token); add one")
        self.eos_id = eos_id
        of_system, of_both = self._render(("system",), ("system", "user"))
        self._before_system, self._after_system = _cut(of_system, _SYSTEM)
        _, both = _cut(of_both, _SYSTEM)
        if not both.startswith(self._after_system):
            raise CheckpointError(
                "the chat template rewrites earlier messages when one is added; it cannot be streamed"
            )
        self._before_user, self._after_user = _cut(both.removeprefix(self._after_system), _USER)

    def system(self, text: str) -> tuple[int, ...]:
        """Return the ids of a system prompt with this text."""
        words = self.plain(text, begins=self.begins_after(self._before_system))
        return self.start(self._before_system) + words + self.ids(self._after_system)

    def user_turn(self, text: str) -> tuple[int, ...]:
        """Return the ids of a user turn, which precedes the image of its frame."""
        return self.ids(self._before_user) + self.plain(text) + self.ids(self._after_user)

    def user_turns(self, texts: Sequence[str], *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of several user turns, in order."""
        return tuple(token for text in texts for token in self.user_turn(text))

    def question(self, text: str, *, after: Sequence[object] = ()) -> tuple[int, ...]:
        """Return the ids of a question after an image, up to its answer."""
        return (*self.user_turn(text), *self.response_opening)

    def state(self, text: str) -> tuple[int, ...]:
        """Return the ids of a state's text, in which special tokens count."""
        return self.ids(text)

    def words(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text as the model writes it."""
        return self.plain(text)

    def _special(self, token: str) -> int:
        token_id = find_token(self.tokenizer, token)
        if token_id is None:
            raise CheckpointError(f"the tokenizer has no {token} token; add it and its embedding to the checkpoint")
        return token_id

    def _render(self, *conversations: Sequence[str]) -> list[str]:
        texts = {"system": _SYSTEM, "user": _USER}
        said = {role: {"role": role, "content": [{"type": "text", "text": text}]} for role, text in texts.items()}
        return render_template(self.tokenizer, *([said[role] for role in roles] for roles in conversations))
