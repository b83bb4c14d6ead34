"""Files of the run in the player as downloads: its traces, its outputs and its provenance.

Each is named after its video and run. ``python -m app.exports traces`` writes the same tables of a whole run folder.
"""

import re
from collections.abc import Generator
from dataclasses import asdict
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import gradio as gr

from app.formatting import as_sentence
from app.player.session.live_run import LiveRun
from app.player.session.run import Run
from app.widgets import read_event
from engine.io import write_json
from engine.records import write_outputs
from eval.runs.traces import TracedVideo, write_traces

RUN_FILES: Final = ("traces.csv", "outputs.jsonl", "provenance.json")
"""What the player exports."""
MAX_NAME = 100
SAVE_JS = """(file) => {
    if (!file) return;
    const link = document.createElement('a');
    link.href = file.url;
    link.download = file.orig_name;
    link.click();
}"""
"""Saves the file that a handler has put into a download component."""


def make_download() -> gr.DownloadButton:
    """Return the component that carries a file to the browser; it is not seen."""
    return gr.DownloadButton(visible="hidden")


def file_name(*parts: str) -> str:
    """Return a harmless file name: the parts with a hyphen between them, the last one whole."""
    *names, last = parts
    stem = re.sub(r"[^\w.-]+", "_", "-".join(filter(None, names)))[:MAX_NAME].strip("._-")
    return f"{stem or 'run'}-{last}"


def export_run(live: LiveRun | None, event: gr.EventData) -> Generator[Any]:
    """Write a file of the run that is shown; None with a warning when there is none.

    The file is deleted after the page has its own copy.
    """
    with TemporaryDirectory(prefix="stepscope-export-") as folder:
        try:
            run = live.run if live else None
            if live and live.increments:
                raise ValueError("the run still streams; wait for its end, or press Stop")
            if run is None or not run.outputs:
                raise ValueError("there is no run to export; press Run, or open a run from the batch tab")
            yield str(write_run_file(Path(folder), run, read_event(event, "content")))
        except (ValueError, OSError) as error:
            gr.Warning(escape(as_sentence(error)))
            yield None


def write_run_file(folder: Path, run: Run, content: str) -> Path:
    """Write one of ``RUN_FILES`` into a folder and return its path. Raises ``ValueError`` for another ``content``."""
    if content not in RUN_FILES:
        raise ValueError(f"there is no export {content!r}; choose one of {', '.join(RUN_FILES)}")
    path = folder / file_name(run.clip.name, run.name or run.digest, content)
    if content == "traces.csv":
        video = TracedVideo(video_id=run.clip.video_id, outputs=run.outputs, provenance=run.provenance)
        write_traces(path, [video])
    elif content == "outputs.jsonl":
        write_outputs(path, run.outputs)
    else:
        task = asdict(run.task)
        write_json(path, {"video_id": run.clip.video_id, **asdict(run.provenance), "digest": run.digest, "task": task})
    return path
