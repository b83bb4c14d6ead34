"""Failures of handlers and routes: the client gets one sentence, and the server's log one line, not a traceback.

Anybody can send values that the page never sends, such as null, and would fill the log.
"""

import logging
import traceback
from pathlib import Path
from typing import Any, Final

import gradio as gr

from stepscope.engine.io.files import is_disk_full, replace_surrogates

INVALID: Final = "The page cannot use the values of this request; reload the page and try again."
FULL: Final = "The disk of this page is full; free some space, and try again."
_LOG: Final = logging.getLogger(__name__)
_MAX_CHARS: Final = 200
_MAX_MESSAGE: Final = 500
"""Longest message to a client; Gradio's own repeat the value of the request and the list of choices."""


def report_failures(page: gr.Blocks) -> None:
    """Let the events of a page report their failures as described above."""
    process: Any = page.process_api

    async def process_reported(*values: Any, **options: Any) -> Any:
        try:
            return await process(*values, **options)
        except gr.Error as error:
            message = replace_surrogates(str(error.message))  # the stream of events is UTF-8
            error.message = message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]} …"
            error.print_exception = False
            raise
        except Exception as error:
            log_failure(error)
            raise gr.Error(describe_failure(error), print_exception=False) from None

    vars(page)["process_api"] = process_reported


def describe_failure(error: Exception) -> str:
    """Return the sentence of an unexpected error for the client."""
    return FULL if is_disk_full(error) else INVALID


def log_failure(error: Exception) -> None:
    """Write one line about an unexpected error, with the place where it was raised."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    reason = str(error)[:_MAX_CHARS]
    line = f"request failed in {Path(place.filename).name}:{place.lineno}: {type(error).__name__}: {reason!r}"
    _LOG.error(line.encode("ascii", "backslashreplace").decode())
    _LOG.debug("its traceback", exc_info=error)
