"""HTML of the page as Jinja templates, which escape every value and its marks of direction. One file per template."""

from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stepscope.engine.io.files import show_turns

_ENVIRONMENT: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    finalize=lambda value: show_turns(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(template: str, **values: object) -> str:
    """Return the HTML of the template ``<template>.html``."""
    return _ENVIRONMENT.get_template(f"{template}.html").render(values)


def render_note(text: str, *, is_problem: bool = False) -> str:
    """Return a line of small text; a problem is marked with ⚠."""
    return render("note", text=text, is_problem=is_problem)
