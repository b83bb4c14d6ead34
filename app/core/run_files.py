"""The files that the player exports of a run: its traces, outputs and provenance."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Final

from stepscope.app.core.run import Run
from stepscope.engine.io.files import write_json
from stepscope.engine.records import write_outputs
from stepscope.eval.runs.folder import read_signal_specs
from stepscope.eval.runs.traces import TracedVideo, write_traces

RUN_FILES: Final = ("traces.csv", "outputs.jsonl", "provenance.json")
"""Files that the player exports."""
MAX_NAME = 100


def file_name(*parts: str) -> str:
    """Return a safe file name: the parts joined with hyphens, the last one unchanged."""
    *names, last = parts
    stem = re.sub(r"[^\w.-]+", "_", "-".join(filter(None, names)))[:MAX_NAME].strip("._-")
    return f"{stem or 'run'}-{last}"


def write_run_file(folder: Path, run: Run, content: str) -> Path:
    """Write one of ``RUN_FILES``, named after its video and run, into a folder; return its path."""
    path = folder / file_name(run.clip.name, run.name or run.digest, content)
    write_content(path, run, content)
    return path


def write_content(path: Path, run: Run, content: str) -> None:
    """Write one of ``RUN_FILES`` of a run to a path. Raises ``ValueError`` if ``content`` is unknown."""
    if content == "traces.csv":
        video = TracedVideo(
            video_id=run.clip.video_id, outputs=run.outputs, provenance=run.provenance, has_states=run.has_states
        )
        write_traces(path, [video], signals=read_signal_specs(run.settings))
    elif content == "outputs.jsonl":
        write_outputs(path, run.outputs)
    elif content == "provenance.json":
        task = asdict(run.task)
        write_json(path, {"video_id": run.clip.video_id, **asdict(run.provenance), "digest": run.digest, "task": task})
    else:
        raise ValueError(f"there is no export {content!r}; choose one of {', '.join(RUN_FILES)}")
