"""Downloads of the run in the player: its traces, outputs and provenance.

Each file is named after its video and run. ``stepscope export traces`` writes the same tables for a run folder.
"""

from collections.abc import Generator
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gradio as gr

from stepscope.app.controls.widgets import read_event
from stepscope.app.core.live_run import LiveRun
from stepscope.app.core.run import Run, write_run_file
from stepscope.app.formatting import as_sentence


def find_run(live: LiveRun | None) -> Run:
    """Return the displayed run. Raises ``ValueError`` if there is none, or it is still streaming."""
    run = live.run if live else None
    if live and live.increments:
        raise ValueError("the run is still streaming; wait until it ends, or press Stop")
    if run is None or not run.outputs:
        raise ValueError("there is no run to export; press Run, or open a run from the batch tab")
    return run


def export_run(live: LiveRun | None, event: gr.EventData) -> Generator[Any]:
    """Yield the path of an exported file of the displayed run; None and a warning on failure.

    The file is deleted after Gradio has copied it.
    """
    with TemporaryDirectory(prefix="stepscope-export-") as folder:
        try:
            yield str(write_run_file(Path(folder), find_run(live), read_event(event, "content")))
        except (ValueError, OSError) as error:
            gr.Warning(escape(as_sentence(error)))
            yield None
