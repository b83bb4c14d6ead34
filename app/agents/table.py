"""The table of tools: from the methods of a class to names, schemas and calls.

A call checks its arguments by the types of the method, and returns JSON of a bounded length. Texts of a run, such as a
message or the name of a step, are only in values of that JSON.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any, Final, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from stepscope.app.formatting import as_sentence
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import replace_surrogates_in, show_turns, to_json

MAX_REPLY_CHARS: Final = 14_000
"""Maximum length of the JSON of a reply: about 4,000 tokens of 3.5 characters."""
MAX_TEXT_CHARS: Final = (600, 200, 80)
"""Longer texts in a reply are cut; the further limits are those of a reply that is too long."""
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReply:
    """The reply to a call: JSON and JPEG pictures, or the sentence of an error."""

    text: str
    pictures: tuple[bytes, ...] = ()
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool of the table."""

    name: str
    description: str
    """The docstring, which says when to use it."""
    arguments: type[BaseModel]
    writes: bool
    """Whether it changes the reviews or writes files."""


def tool(*, writes: bool = False) -> Callable[[F], F]:
    """Mark a method as a tool."""

    def mark(function: F) -> F:
        vars(function)["writes"] = writes
        return function

    return mark


@cache
def list_tools(of: type) -> Mapping[str, Tool]:
    """Return the tools of a class by name, in the order of its methods."""
    tools = {}
    for name, function in vars(of).items():
        if not hasattr(function, "writes"):
            continue
        hints, (_, *parameters) = get_type_hints(function, include_extras=True), signature(function).parameters.values()
        fields: dict[str, Any] = {
            one.name: (hints[one.name], ... if one.default is one.empty else one.default) for one in parameters
        }
        arguments = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        description = " ".join(function.__doc__.split())
        tools[name] = Tool(name=name, description=description, arguments=arguments, writes=function.writes)
    return tools


def call_tool(target: Any, name: str, arguments: Any) -> ToolReply:
    """Call a tool of an object by its name; one that writes needs its ``check_may_write``.

    Errors with a message for users become the reply.
    """
    try:
        found = list_tools(target.__class__).get(name)
        if found is None:
            raise ValueError(f"there is no tool {name[:80]!r}")
        if found.writes:
            target.check_may_write()
        return pack_reply(getattr(target, name)(**dict(found.arguments.model_validate(arguments))))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return ToolReply(text=as_sentence(f"{'.'.join(map(str, first['loc']))[:80]}: {first['msg']}"), is_error=True)
    except (EngineError, ValueError, OSError) as error:
        return ToolReply(text=as_sentence(error), is_error=True)


def cut_page(rows: Sequence[Any], page: int, size: int) -> tuple[Sequence[Any], dict[str, int]]:
    """Return the rows of a page, and its number if there are several. Raises ``ValueError`` after the last page."""
    number = max(math.ceil(len(rows) / size), 1)
    if page > number:
        raise ValueError(f"the last page is {number}; got {page}")
    return rows[(page - 1) * size : page * size], {"page": page, "pages": number} if number > 1 else {}


def pack_reply(result: Mapping[str, Any]) -> ToolReply:
    """Return a result as JSON without empty values, with numbers of four digits and bounded texts.

    Raises ``ValueError`` for one that is too long even with its texts cut short.
    """
    for limit in MAX_TEXT_CHARS:
        pictures = list[bytes]()
        text = to_json(replace_surrogates_in(_pack(result, pictures, limit)))
        if len(text) <= MAX_REPLY_CHARS:
            return ToolReply(text=text, pictures=tuple(pictures))
    raise ValueError(f"the reply has {len(text):,} characters, more than {MAX_REPLY_CHARS:,}; ask for less")


def _pack(value: Any, pictures: list[bytes], limit: int) -> Any:
    """Return a value as JSON has it; a JPEG picture is moved to ``pictures``."""
    if isinstance(value, bytes):
        pictures.append(value)
        return f"picture {len(pictures)} of this reply"
    if isinstance(value, Mapping):
        packed = {str(name): _pack(part, pictures, limit) for name, part in value.items()}
        return {name: part for name, part in packed.items() if part not in (None, "", [], {})}
    if isinstance(value, list | tuple):
        return [_pack(part, pictures, limit) for part in value]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 4)
    if isinstance(value, str):
        shown = show_turns(value)
        return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
    return value
