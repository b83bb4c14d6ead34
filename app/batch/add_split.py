"""A split that is added in the batch tab: by its path on a page that only this machine sees, or as an upload."""

from pathlib import Path
from typing import Any

import gradio as gr

from app.batch.context import SPLITS_FOLDER, BatchContext
from app.batch.own_splits import add_by_path, add_upload, describe_split
from app.formatting import sentence
from app.player.views import say


def add_path(batches: BatchContext, path: str | None) -> tuple[Any, Any]:
    """Add the split of a path: a sentence about it, and the list of splits."""
    try:
        if not batches.takes_paths:
            raise ValueError("this page takes no paths; upload the split")
        if not (path or "").strip():
            raise ValueError("there is no path; type that of a manifest, DST training JSON or ProAssist JSONL")
        return _show(batches, add_by_path(batches.splits, Path(str(path).strip())))
    except (ValueError, OSError) as error:
        return say(sentence(error), is_problem=True), gr.skip()


def add_file(batches: BatchContext, upload: str | None) -> tuple[Any, Any]:
    """Add an uploaded split: a sentence about it, and the list of splits."""
    if upload is None:
        return gr.skip(), gr.skip()
    try:
        return _show(batches, add_upload(batches.splits, Path(upload), folder=batches.runs / SPLITS_FOLDER))
    except (ValueError, OSError) as error:
        return say(sentence(error), is_problem=True), gr.skip()


def list_splits(batches: BatchContext) -> Any:
    """Return the list of splits as it is now; the one that is chosen stays."""
    return gr.Dropdown(choices=list(batches.splits))


def _show(batches: BatchContext, name: str) -> tuple[Any, Any]:
    said, is_problem = describe_split(name, batches.splits[name])
    return say(said, is_problem=is_problem), gr.Dropdown(choices=list(batches.splits), value=name)
