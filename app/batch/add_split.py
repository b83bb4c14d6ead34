"""Handlers that add a split in the batch tab: by path, on a local page only, or as an upload."""

from pathlib import Path
from typing import Any

import gradio as gr

from app.batch.context import SPLITS_FOLDER, BatchContext
from app.batch.own_splits import add_by_path, add_upload, describe_split
from app.formatting import as_sentence
from app.player.views import status_line


def add_path(batches: BatchContext, path: str | None) -> tuple[Any, Any]:
    """Add the split at a path; return the status line and the dropdown of splits."""
    try:
        if not batches.takes_paths:
            raise ValueError("this page accepts no paths; upload the split")
        if not (path or "").strip():
            raise ValueError("the path is empty; enter that of a manifest, DST training JSON or ProAssist JSONL")
        return _show(batches, add_by_path(batches.splits, Path(str(path).strip())))
    except (ValueError, OSError) as error:
        return status_line(as_sentence(error), is_problem=True), gr.skip()


def add_file(batches: BatchContext, upload: str | None) -> tuple[Any, Any]:
    """Add an uploaded split; return the status line and the dropdown of splits."""
    if upload is None:
        return gr.skip(), gr.skip()
    try:
        return _show(batches, add_upload(batches.splits, Path(upload), folder=batches.runs / SPLITS_FOLDER))
    except (ValueError, OSError) as error:
        return status_line(as_sentence(error), is_problem=True), gr.skip()


def list_splits(batches: BatchContext) -> Any:
    """Return the dropdown with the current splits; the chosen one does not change."""
    return gr.Dropdown(choices=list(batches.splits))


def _show(batches: BatchContext, name: str) -> tuple[Any, Any]:
    description, is_problem = describe_split(name, batches.splits[name])
    return status_line(description, is_problem=is_problem), gr.Dropdown(choices=list(batches.splits), value=name)
