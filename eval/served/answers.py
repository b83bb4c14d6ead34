"""Reads the answer of a served model: its message, the reasoning before it, or why it is none.

Silence is an empty answer that stopped by itself, without reasoning.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from stepscope.engine.io.files import replace_surrogates, strip_text, to_json
from stepscope.engine.io.json_records import short_repr
from stepscope.engine.reasoning import MAX_REASONING, OPENING, split_reasoning, strip_end
from stepscope.engine.records import Reasoning
from stepscope.eval.served.probabilities import TokenProbs, read_token_probs

MAX_CHARS: Final = 100_000
"""Maximum length of an answer, with the reasoning in it."""
_TOOL_CALL: Final = re.compile(r"\s*(?:<tool_call>|<function=|<\|tool_call|\[TOOL_CALLS\])")
"""The beginning of a call that a server without a parser of tools leaves in the text."""
_STOPPED: Final = frozenset({"stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete", "completed"})
_CUT: Final = frozenset({"length", "max_tokens", "max_length", "model_length", "model_context_window_exceeded"})
_FILTERED: Final = frozenset(
    {"content_filter", "sensitive", "safety", "recitation", "prohibited_content", "blocklist", "spii", "refusal"}
)
_TOOLS: Final = frozenset({"tool_calls", "function_call", "tool_use"})
_BROKEN: Final = {"error": 502, "abort": 502, "network_error": 502, "insufficient_system_resource": 503}
"""Finish reasons of a server that failed, with the status that means the same."""
_STATUS_WORDS: Final = {
    r"rate.?limit|too.many.requests|exhausted|quota": 429,
    r"overloaded|unavailable|loading|capacity": 503,
    r"time.?out|timed.out|deadline": 504,
    r"authenti|api.?key|unauthori": 401,
    r"internal|server.?error|upstream|provider.returned": 500,
    r"invalid|unsupported|bad.?request": 400,
}
_STATUS_FIELDS: Final = ("code", "status", "status_code", "type", "message")
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_TEXT_FIELDS: Final = ("text", "thinking", "reasoning", "refusal", "summary", "content")
_MAX_SHOWN: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool by a served model."""

    call_id: str
    name: str
    arguments: str
    """JSON, as the model wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """An answer of a served model."""

    text: str
    """What follows the reasoning; empty for silence."""
    tokens: tuple[TokenProbs, ...] = ()
    """Its tokens with their probabilities; none if they are not asked for, or the server gives none of this text."""
    reasoning: Reasoning | None = None
    has_stopped: bool = True
    """Whether it ended by itself, in contrast to one that is cut."""
    is_opened_by_prompt: bool = False
    """Whether its reasoning has an end and no beginning, because the template of the prompt holds that."""
    calls: tuple[ToolCall, ...] = ()
    """The tools that the model calls before it answers, of those that were offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """Why a response has no answer."""

    problem: str
    status: int | None = None
    """The status that an error in the response names or means."""
    is_cut: bool = False
    """Whether a higher limit of tokens would help."""


def read_response(
    payload: object, *, is_opened_by_prompt: bool = False, has_tools: bool = False
) -> Completion | NoAnswer:
    """Return the answer in the JSON of ``/chat/completions``; ``is_opened_by_prompt`` is that of an earlier answer.

    With ``has_tools``, of a request that offers tools, it may be calls of them.
    """
    whole = payload[0] if isinstance(payload, list) and payload else payload
    choices = whole.get("choices") if isinstance(whole, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    parts = [part for part in (whole, choice) if isinstance(part, dict)]
    finish = str(parts[-1].get("finish_reason") or "").lower() if parts else ""
    if failure := _find_error(parts, finish):
        return failure
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        shown = short_repr(payload)
        return NoAnswer(problem=f"it has no choices[0].message; check that the address ends in /v1: {shown}")
    content = message.get("content")
    if not isinstance(content, str | list | None):
        return NoAnswer(problem="its content is no text")
    refusal = "".join(_list_texts(message.get("refusal")) or _list_texts(content, kinds=("refusal",)))
    if refusal or finish in _FILTERED:
        reason = f"the model refuses: {refusal[:_MAX_SHOWN]}" if refusal else f"a filter stops it, {finish}"
        return NoAnswer(problem=f"{reason}; choose another prompt or model")
    texts = _list_texts(content, kinds=("text", "output_text"))
    thoughts = ["".join(_list_texts(message.get(name))) for name in _REASONING_FIELDS]
    thoughts.append("".join(_list_texts(content, kinds=("reasoning", "thinking"))))
    if has_tools and (calls := tuple(_read_calls(message.get("tool_calls")))):
        return Completion(text="".join(texts), calls=calls)
    has_tool = finish in _TOOLS or message.get("tool_calls") or message.get("function_call")
    return read_text(
        "".join(texts) if texts else None,
        finish="tool_calls" if has_tool else finish,
        thought=next((thought for thought in thoughts if thought.strip()), ""),
        num_thought=_count_reasoning(parts[0].get("usage")),
        tokens=read_token_probs(parts[-1]),
        is_opened_by_prompt=is_opened_by_prompt,
    )


def read_text(
    text: str | None,
    *,
    finish: str = "stop",
    thought: str = "",
    num_thought: int | None = None,
    tokens: Sequence[TokenProbs] = (),
    is_opened_by_prompt: bool = False,
) -> Completion | NoAnswer:
    """Return the answer in a text, which may begin with reasoning.

    ``thought`` is a reasoning that the server gives apart, and ``num_thought`` the number of its tokens, if known.
    ``is_opened_by_prompt`` is that of an earlier answer: a cut text without an end of reasoning is then reasoning.
    """
    if len(text or "") > MAX_CHARS:
        return NoAnswer(problem=f"it has more than {MAX_CHARS} characters")
    inside, message = split_reasoning(text or "", is_opened_by_prompt=is_opened_by_prompt)
    if (repeated := thought.strip()) and re.match(rf"{re.escape(repeated)}(?!\S)", message or ""):
        message = (message or "")[len(repeated) :]
    is_opened = bool(inside) and (text or "").lstrip().startswith(inside) and not OPENING.match(inside)
    if is_opened_by_prompt and not inside and not thought and finish in _CUT:
        inside, message = text or "", None
    if _TOOL_CALL.match(message or ""):
        message, finish = "", "tool_calls"
    thought = thought.strip() or OPENING.sub("", inside, count=1).strip()
    has_reasoning, is_cut = bool(thought or num_thought or message is None), finish in _CUT or message is None
    problem = "" if strip_text(message or "") else _explain_empty(text, finish, has_reasoning, is_cut)
    if problem:
        return NoAnswer(problem=problem, is_cut=is_cut)
    answer = (message or "").strip()
    chosen = _select_tokens(tokens, answer, thought)
    count = len(tokens) - len(chosen) if num_thought is None and chosen else num_thought
    return Completion(
        text=answer,
        tokens=chosen,
        reasoning=Reasoning(text=thought[:MAX_REASONING], num_tokens=count) if has_reasoning else None,
        has_stopped=not finish or finish in _STOPPED,
        is_opened_by_prompt=is_opened,
    )


def _read_calls(value: object) -> Iterator[ToolCall]:
    for number, call in enumerate(value if isinstance(value, list) else []):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            given = function.get("arguments")  # some servers send them as an object
            arguments = given if isinstance(given, str) else to_json(given or {})
            name, call_id = (replace_surrogates(str(text)) for text in (function.get("name"), call.get("id") or number))
            yield ToolCall(call_id=call_id, name=name, arguments=replace_surrogates(arguments))


def _find_error(parts: Sequence[Mapping[str, Any]], finish: str) -> NoAnswer | None:
    """Return the error that a response, or its choice, has in place of an answer; None without one."""
    error = next((part["error"] for part in parts if part.get("error")), None)
    if error is None and parts and parts[0].get("object") == "error":
        error = parts[0]
    return describe_error(error or finish, finish=finish) if error or finish in _BROKEN else None


def describe_error(error: object, *, finish: str = "") -> NoAnswer:
    """Return an error that comes in place of an answer, with the status that it or a finish reason names."""
    status = _read_status(error) or _BROKEN.get(finish)
    words = error.get("message") if isinstance(error, dict) else error
    named = f"status {status} in its answer" if status else "an error in its answer"
    return NoAnswer(problem=f"{named}: {_show(words or error)}", status=status)


def _read_status(error: object) -> int | None:
    """Return the status that an error has as a number, or means by its words."""
    fields = [error.get(name) for name in _STATUS_FIELDS] if isinstance(error, dict) else [error]
    for field in fields:
        if isinstance(field, int | str) and re.fullmatch("[45][0-9][0-9]", str(field)):
            return int(field)
    words = " ".join(_show(field) for field in fields if field)
    return next((status for form, status in _STATUS_WORDS.items() if re.search(form, words, re.IGNORECASE)), None)


def _show(value: object) -> str:
    return value[:_MAX_SHOWN] if isinstance(value, str) else short_repr(value)


def _explain_empty(text: str | None, finish: str, has_reasoning: bool, is_cut: bool) -> str:
    """Return why an empty answer is not silence; empty if it is."""
    if finish in _TOOLS:
        return "the model calls a tool in place of an answer; serve it without tools"
    if is_cut:
        return f"the limit of tokens ended it {'in its reasoning' if has_reasoning else 'before its first word'}"
    if has_reasoning:
        return "the model gave reasoning alone; switch its reasoning off, or correct the reasoning parser of the server"
    if text is None:
        return "its content is null; the log of the server may have the reason"
    return "" if finish in _STOPPED else f"it is empty, and its finish reason is {finish or 'missing'}, not stop"


def _list_texts(value: object, *, kinds: tuple[str, ...] = (), depth: int = 4) -> list[str]:
    """Return the texts of a content, a text or a list of parts; with ``kinds`` those of these types only."""
    if isinstance(value, str):
        return [value] if not kinds or "text" in kinds else []
    if isinstance(value, list) and depth:
        return [text for part in value for text in _list_texts(part, kinds=kinds, depth=depth - 1)]
    if isinstance(value, dict) and depth and (not kinds or value.get("type", "text") in kinds):
        texts = (value[name] for name in _TEXT_FIELDS if isinstance(value.get(name), str | list | dict))
        return _list_texts(next(texts, None), depth=depth - 1)
    return []


def _count_reasoning(usage: object) -> int | None:
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    found = [part.get("reasoning_tokens") for part in (details, usage) if isinstance(part, dict)]
    return next((count for count in found if type(count) is int and count >= 0), None)


def _select_tokens(tokens: Sequence[TokenProbs], answer: str, thought: str) -> tuple[TokenProbs, ...]:
    """Return the tokens that join to an answer; none if others than those of its reasoning and marks surround it.

    Worked example: of ``The``, ``</think>``, ``SIL``, ``ENT`` the last two are ``SILENT``.
    """
    whole, part = b"".join(token.content for token in tokens), answer.encode(errors="surrogatepass")
    start = whole.rfind(part)
    if not part or start < 0:
        return ()
    begins = [0, *accumulate(len(token.content) for token in tokens)]
    first = bisect_right(begins, start) - 1  # the token with the first byte, which may have spaces before it
    last = bisect_right(begins, start + len(part) - 1)
    before, after = whole[: begins[first]].decode(errors="replace"), whole[start + len(part) :]
    _, words = split_reasoning(before)
    is_reasoning = (words is not None and not words.strip()) or before.strip() == thought
    is_whole = not whole[begins[first] : start].strip() and not strip_end(after.decode(errors="replace"))
    return tuple(tokens[first:last]) if is_reasoning and is_whole else ()
