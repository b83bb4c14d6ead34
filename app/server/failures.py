"""Failures of handlers and routes: the client gets one sentence, and the server's log one line, not a traceback.

Anybody can send values that the page never sends, such as null, or bytes that are no HTTP, and would fill the log: it
has at most ``MAX_LINES`` a minute of either.
"""

import logging
import traceback
from pathlib import Path
from time import monotonic
from typing import Any, Final

import gradio as gr

from stepscope.app.formatting import as_sentence
from stepscope.engine.errors import OUT_OF_MEMORY, is_out_of_memory
from stepscope.engine.io.files import is_disk_full, replace_surrogates
from stepscope.engine.video.packets import is_wanted

INVALID: Final = "The page cannot use the values of this request; reload the page and try again."
FULL: Final = "The disk of this page is full; free some space, and try again."
MAX_LINES: Final = 60
_LOG: Final = logging.getLogger(__name__)
_MAX_CHARS: Final = 200
_MAX_MESSAGE: Final = 500
"""Longest message to a client; Gradio's own repeat the value of the request and the list of choices."""


class LineLimit(logging.Filter):
    """Passes at most ``MAX_LINES`` lines a minute; the next line then says how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._num_lines, self._end_s = 0, 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Count a line, and return whether it is written."""
        if monotonic() >= self._end_s:
            if self._num_lines > MAX_LINES:
                left_out = f"{self._num_lines - MAX_LINES} lines before it were left out"
                record.msg, record.args = f"{record.getMessage()} ({left_out})", ()
            self._num_lines, self._end_s = 0, monotonic() + 60
        self._num_lines += 1
        return self._num_lines <= MAX_LINES


for _logger in (_LOG, logging.getLogger("uvicorn.error")):
    _logger.addFilter(LineLimit())


def report_failures(page: gr.Blocks) -> None:
    """Let the events of a page report their failures as described above, and decode no further once cancelled."""
    process: Any = page.process_api

    async def process_reported(*values: Any, **options: Any) -> Any:
        event = page._queue.event_ids_to_events.get(options.get("event_id") or "")
        is_wanted.set(lambda: event is None or event.alive)
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
    if is_out_of_memory(error):
        return as_sentence(OUT_OF_MEMORY)
    return FULL if is_disk_full(error) else INVALID


def log_failure(error: Exception) -> None:
    """Write one line about an unexpected error, with the place where it was raised."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    reason = str(error)[:_MAX_CHARS]
    line = f"request failed in {Path(place.filename).name}:{place.lineno}: {type(error).__name__}: {reason!r}"
    _LOG.error(line.encode("ascii", "backslashreplace").decode())
    _LOG.debug("its traceback", exc_info=error)
