"""Saves files of the page in the browser."""

from collections.abc import Callable, Generator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.formatting import as_sentence
from stepscope.app.web.views import status_line
from stepscope.engine.errors import EngineError

SAVE_JS: Final = """(file) => {
    document.dispatchEvent(new CustomEvent('stepscope:saved', {detail: file?.orig_name ?? null}));
    if (!file) return;
    const link = document.createElement('a');
    link.href = file.url;
    link.download = file.orig_name;
    link.click();
}"""
"""Script that saves the file of a download component; the player's status line names it, or is cleared without one."""


def make_download() -> gr.DownloadButton:
    """Return the hidden component that transfers a file to the browser."""
    return gr.DownloadButton(visible="hidden")


class FigureView(NamedTuple):
    """The file of a figure, and the status line, which a problem changes."""

    download: Any
    status: Any


def send_figure(write: Callable[[Path], Path]) -> Generator[FigureView]:
    """Yield the file that a function writes into a folder, or its problem."""
    with TemporaryDirectory(prefix="stepscope-figure-") as folder:
        try:
            yield FigureView(download=str(write(Path(folder))), status=gr.skip())
        except (EngineError, ValueError, OSError) as error:
            yield FigureView(download=None, status=status_line(as_sentence(error), is_problem=True))
