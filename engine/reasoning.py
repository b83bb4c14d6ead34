"""Separates what a model writes from its reasoning.

**Source** of the marks of reasoning: the chat templates of the models, and the reasoning parsers of vLLM and SGLang.
"""

import re
from typing import Final

MAX_REASONING: Final = 4000
"""Characters of a reasoning that are kept."""
_TAGS: Final = r"(?i:think|thinking|thought|thoughts|reasoning|reflection|analysis|seed:think)"
_REASONING_MARKS: Final = (  # the beginning of a reasoning, and its end
    (rf"<{_TAGS}>", rf"</{_TAGS}>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    ("◁think▷", "◁/think▷"),
    (r"<\|channel>thought", r"<channel\|>"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    ("Here(?:'s| is) my thought process:", "Here(?:'s| is) my response:"),
    (
        r"(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)[^<]*(?:<\|constrain\|>[^<]*)?(?:<\|message\|>)?",
        r"(?:<\|end\|>)?(?:<\|start\|>assistant)?<\|channel\|>final[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>",
    ),
    ("analysis(?=[A-Z])", "assistantfinal"),  # gpt-oss where its special tokens are left out
)
OPENING: Final = re.compile(rf"\s*(?:{'|'.join(begin for begin, _ in _REASONING_MARKS)})")
_CLOSING: Final = re.compile("|".join(end for _, end in _REASONING_MARKS))
_INNER: Final = re.compile("|".join(begin for begin, _ in _REASONING_MARKS[:5]))
"""The marks that also open a reasoning inside a message; the others are words of a message there."""
_HEAD: Final = re.compile(r"(?:\s*(?:<(?i:answer|response)>|<\|START_(?:RESPONSE|TEXT)\|>|<\|begin_of_box\|>))+")
"""What may stand before the message after a reasoning, and ``_TAIL`` at its end."""
_END: Final = r"<\|(?:return|end|im_end|endoftext|eot_id|end_of_text|END_OF_TURN_TOKEN)\|>|</s>|<turn\|>|<end_of_turn>"
"""Tokens of the end of a turn, which a server with another one leaves in the text."""
_TAIL: Final = re.compile(rf"(?:</(?i:answer|response)>|<\|END_(?:RESPONSE|TEXT)\|>|<\|end_of_box\|>|{_END})$")
_END_ALONE: Final = re.compile(rf"(?:{_END})$")
_LONGEST_TAIL: Final = 64


def ends_in_reasoning(prompt: str) -> bool:
    """Return whether a prompt ends with the opening of a reasoning, as ``assistant <think>`` does."""
    openings = list(_INNER.finditer(prompt))
    return bool(openings) and not _CLOSING.search(prompt, openings[-1].end())


def close_reasoning(prompt: str) -> str:
    """Return what ends the reasoning that a prompt opens, so that an answer follows at once; empty if it opens none."""
    if not ends_in_reasoning(prompt):
        return ""
    opening = list(_INNER.finditer(prompt))[-1].group()
    closing = {"<|channel>thought": "<channel|>", "<|START_THINKING|>": "<|END_THINKING|>"}
    line_break = "\n" * prompt.endswith("\n")
    return f"{line_break}{closing.get(opening) or f'{opening[0]}/{opening[1:]}'}\n\n"


def is_mark(token: str) -> bool:
    """Return whether a token begins or ends a reasoning."""
    return bool(_INNER.fullmatch(token) or _CLOSING.fullmatch(token))


def read_written(text: str, *, is_opened_by_prompt: bool = False) -> tuple[str, str | None]:
    """Return the reasoning in a text without its marks, and the message; None if the reasoning has no end.

    A text without reasoning is its message as it is.
    """
    inside, message = text, None
    if _CLOSING.search(text):
        inside, message = split_reasoning(text, is_opened_by_prompt=is_opened_by_prompt)
    elif not is_opened_by_prompt and not OPENING.match(text):
        return "", text
    return OPENING.sub("", inside, count=1).strip(), message


def split_reasoning(text: str, *, is_opened_by_prompt: bool = False) -> tuple[str, str | None]:
    """Return the reasoning of a text, and the message around it; None if its reasoning has no end.

    Worked example: ``Go <think>a</think> left.`` gives ``a`` and ``Go left.``, or ``left.`` if ``is_opened_by_prompt``.
    """
    closings = list(_CLOSING.finditer(text))
    start, end = closings[-1].span() if closings else (0, 0)
    inner = None if is_opened_by_prompt else _INNER.search(text, 0, closings[0].start() if closings else 0)
    if inner and (lead := text[: inner.start()].rstrip()):
        inside, message = split_reasoning(text[inner.start() :])
        return inside, None if message is None else f"{lead} {message}".rstrip()
    inside, message = text[:start], text[end:]
    if OPENING.match(message):
        return text, None
    if closings and (head := _HEAD.match(message)):
        message = message[head.end() :]
    return inside.strip(), strip_end(message, _TAIL if closings else _END_ALONE)


def strip_end(text: str, marks: re.Pattern[str] = _TAIL) -> str:
    """Return a text without blanks and the marks of its end."""
    while tail := marks.search(text := text.strip(), max(len(text) - _LONGEST_TAIL, 0)):
        text = text[: tail.start()]
    return text
