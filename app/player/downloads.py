"""Downloads of the run in the player: its traces, outputs and provenance.

Each file is named after its video and run. ``stepscope export traces`` writes the same tables for a run folder.
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
"""Files that the player exports."""
MAX_NAME = 100
SAVE_JS = """(file) => {
    if (!file) return;
    const link = document.createElement('a');
    link.href = file.url;
    link.download = file.orig_name;
    link.click();
}"""
"""Script that saves the file of a download component."""


def make_download() -> gr.DownloadButton:
    """Return the hidden component that transfers a file to the browser."""
    return gr.DownloadButton(visible="hidden")


def file_name(*parts: str) -> str:
    """Return a safe file name: the parts joined with hyphens, the last one unchanged."""
    *names, last = parts
    stem = re.sub(r"[^\w.-]+", "_", "-".join(filter(None, names)))[:MAX_NAME].strip("._-")
    return f"{stem or 'run'}-{last}"


def export_run(live: LiveRun | None, event: gr.EventData) -> Generator[Any]:
    """Yield the path of an exported file of the displayed run; None and a warning on failure.

    The file is deleted after Gradio has copied it.
    """
    with TemporaryDirectory(prefix="stepscope-export-") as folder:
        try:
            run = live.run if live else None
            if live and live.increments:
                raise ValueError("the run is still streaming; wait until it ends, or press Stop")
            if run is None or not run.outputs:
                raise ValueError("there is no run to export; press Run, or open a run from the batch tab")
            yield str(write_run_file(Path(folder), run, read_event(event, "content")))
        except (ValueError, OSError) as error:
            gr.Warning(escape(as_sentence(error)))
            yield None


def write_run_file(folder: Path, run: Run, content: str) -> Path:
    """Write one of ``RUN_FILES`` into a folder and return its path. Raises ``ValueError`` if it is unknown."""
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
