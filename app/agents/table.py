"""The table of tools: from the methods of ``Tools`` to names, schemas, calls and documents.

A call checks its arguments by the types of the method, and returns JSON of a bounded length. What a run says, such as a
message or the name of a step, is in values of that JSON only.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from stepscope.app.formatting import as_sentence
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import replace_nan, replace_surrogates_in, show_turns, to_json

MAX_REPLY_CHARS: Final = 14_000
"""Maximum length of the JSON of a reply: about 4,000 tokens of 3.5 characters."""
MAX_TEXT_CHARS: Final = 600
"""Longer texts in a reply are cut."""
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Picture:
    """A JPEG picture among the values of a result."""

    jpeg: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a call returns: JSON, or the sentence of an error."""

    text: str
    pictures: tuple[bytes, ...] = ()
    """JPEG files."""
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool of the table."""

    name: str
    description: str
    """When to use it: its docstring."""
    arguments: type[BaseModel]
    writes: bool
    """Whether it changes the reviews or writes files."""
    runs_model: bool
    """Whether it may run the model, one call at a time."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return self.arguments.model_json_schema()


@dataclass(frozen=True, slots=True)
class _Marks:
    writes: bool = False
    runs_model: bool = False


def tool(*, writes: bool = False, runs_model: bool = False) -> Callable[[F], F]:
    """Mark a method as a tool."""

    def mark(function: F) -> F:
        vars(function)["marks"] = _Marks(writes, runs_model)
        return function

    return mark


def list_tools(of: type) -> dict[str, Tool]:
    """Return the tools of a class by name, in the order of its methods."""
    return {
        name: _read_tool(name, function, function.marks)
        for name, function in vars(of).items()
        if isinstance(getattr(function, "marks", None), _Marks)
    }


def _read_tool(name: str, function: Callable[..., Any], marks: _Marks) -> Tool:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for argument in list(inspect.signature(function).parameters.values())[1:]:
        fields[argument.name] = (hints[argument.name], ... if argument.default is argument.empty else argument.default)
    arguments = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    description = " ".join((inspect.getdoc(function) or "").split())
    return Tool(name=name, description=description, arguments=arguments, **asdict(marks))


def call_tool(target: Any, name: str, arguments: Mapping[str, Any]) -> Reply:
    """Call a tool of an object by its name. Errors with a message for users become its reply."""
    try:
        found = list_tools(type(target)).get(name)
        if found is None:
            raise ValueError(f"there is no tool {name[:80]!r}")
        checked = _check(found, arguments)
        return pack_reply(getattr(target, name)(**checked))
    except (EngineError, ValueError, OSError) as error:
        return Reply(text=as_sentence(error), is_error=True)


def _check(found: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        checked = found.arguments.model_validate(arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "arguments"
        raise ValueError(f"{found.name}: {where[:80]}: {first['msg']}") from error
    return {name: getattr(checked, name) for name in type(checked).model_fields}


@dataclass(slots=True)
class _Packer:
    pictures: list[bytes] = field(default_factory=list)

    def pack(self, value: Any) -> Any:
        if isinstance(value, Picture):
            self.pictures.append(value.jpeg)
            return f"picture {len(self.pictures)} of this reply"
        if isinstance(value, Mapping):
            packed = {str(name): self.pack(part) for name, part in value.items()}
            return {name: part for name, part in packed.items() if part not in (None, "", [], {}) and part == part}
        if isinstance(value, list | tuple):
            return [self.pack(part) for part in value]
        if isinstance(value, float):
            return round(value, 4)
        if isinstance(value, str):
            shown = show_turns(value)
            return shown if len(shown) <= MAX_TEXT_CHARS else f"{shown[: MAX_TEXT_CHARS - 1]}…"
        return value


def pack_reply(result: Mapping[str, Any]) -> Reply:
    """Return a result as JSON without empty values, with numbers of four digits and bounded texts.

    Raises ``ValueError`` for one that is still too long.
    """
    packer = _Packer()
    text = to_json(replace_surrogates_in(replace_nan(packer.pack(result))))
    if len(text) > MAX_REPLY_CHARS:
        raise ValueError(f"the reply has {len(text):,} characters, more than {MAX_REPLY_CHARS:,}; ask for less")
    return Reply(text=text, pictures=tuple(packer.pictures))
