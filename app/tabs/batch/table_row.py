"""The buttons that save a table of the batch tab as Markdown, CSV or LaTeX."""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import gradio as gr

from stepscope.app.controls.downloads import SAVE_JS, make_download
from stepscope.app.controls.widgets import AT_ONCE
from stepscope.app.formatting import as_sentence
from stepscope.eval.reports.table_formats import TableFormat

LABELS: Final[dict[TableFormat, str]] = {"markdown": "Markdown", "csv": "CSV", "latex": "LaTeX"}
ENDINGS: Final[dict[TableFormat, str]] = {"markdown": "md", "csv": "csv", "latex": "tex"}
WriteTable = Callable[..., Path]
"""Takes a folder, a format and the values of the inputs; returns the file. Raises ``ValueError`` without a table."""


def make_table_row(elem_id: str) -> dict[TableFormat, Any]:
    """Lay out the buttons in the present row; each is ``#<elem_id>_<format>``."""
    return {
        name: gr.Button(f"Save as {label}", size="sm", scale=0, min_width=130, elem_id=f"{elem_id}_{name}")
        for name, label in LABELS.items()
    }


def save_table(write: WriteTable, table_format: TableFormat, *inputs: Any) -> Generator[Any]:
    """Yield the path of a table as a file; None and a warning without one."""
    with TemporaryDirectory(prefix="stepscope-export-") as folder:
        try:
            yield str(write(Path(folder), table_format, *inputs))
        except (ValueError, OSError) as error:
            gr.Warning(escape(as_sentence(error)))
            yield None


def wire_table_row(buttons: dict[TableFormat, Any], write: WriteTable, inputs: Sequence[Any]) -> None:
    """Save the table that ``write`` writes from the inputs."""
    file = make_download()
    for name, button in buttons.items():
        saved = button.click(partial(save_table, write, name), list(inputs), file, **AT_ONCE)
        saved.then(None, file, None, js=SAVE_JS, api_visibility="private")
