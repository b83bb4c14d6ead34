"""Shared parts of the endpoints: checks of untrusted arguments, and errors as sentences."""

import inspect
from collections.abc import Callable, Generator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, get_args, get_type_hints
from urllib.parse import urlencode

import gradio as gr
from gradio.data_classes import FileData
from gradio.processing_utils import get_upload_folder
from pydantic import TypeAdapter, ValidationError

from stepscope.app.formatting import as_sentence
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import replace_nan, replace_surrogates_in


def endpoint(function: Callable[..., Generator[Any]]) -> Callable[..., Generator[Any]]:
    """Return a generator function for ``gr.api``, which checks arguments by their types and yields JSON values.

    Errors with a message for users become ``gr.Error``, whose message reaches the client.
    """
    hints = get_type_hints(function)
    (returned, *_) = get_args(hints.pop("return"))
    checks = {name: TypeAdapter(hint) for name, hint in hints.items() if hint is not gr.Request}

    @wraps(function)
    def call(*values: Any) -> Generator[Any]:
        names = list(inspect.signature(function).parameters)
        try:
            checked = {name: _check(name, value, checks) for name, value in zip(names, values, strict=True)}
            for result in function(**checked):
                yield replace_surrogates_in(replace_nan(result))
        except (EngineError, ValueError, OSError) as error:
            raise gr.Error(as_sentence(error), print_exception=False) from error

    signature: Any = inspect.signature(function).replace(return_annotation=returned)
    vars(call).update(__signature__=signature, __annotations__={**hints, "return": returned})
    return call


def _check(name: str, value: Any, checks: Mapping[str, TypeAdapter[Any]]) -> Any:
    """Return a value of the declared type. Raises ``ValueError`` with the name of the argument."""
    if name not in checks:
        return value
    try:
        return checks[name].validate_python(value)
    except ValidationError as error:
        raise ValueError(f"the argument {name!r} is not valid: {error.errors()[0]['msg']}") from error


def uploaded_path(file: FileData) -> Path:
    """Return the path of a file that a client uploaded. Raises ``ValueError`` for files of this machine."""
    path = Path(file.path).resolve()
    if not path.is_relative_to(Path(get_upload_folder()).resolve()) or not path.is_file():
        raise ValueError("the file was not uploaded to this page; with gradio_client, pass handle_file(path)")
    return path


def make_link(params: Mapping[str, str]) -> str:
    """Return the query of a link, which follows the address of the page."""
    return f"?{urlencode(params, errors='replace')}"
