"""Handlers that add a split in the batch tab: by path, on a local page only, or as an upload."""

from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.core.batch_context import SPLITS_FOLDER, BatchContext
from stepscope.app.formatting import as_sentence
from stepscope.app.tabs.batch.new_run.own_splits import add_by_path, add_upload, describe_split
from stepscope.app.web.views import status_line
from stepscope.engine.io.files import strip_text


class AddedSplit(NamedTuple):
    """The status line and the dropdown of splits."""

    status: Any
    split: Any


def add_path(batches: BatchContext, path: str | None) -> AddedSplit:
    """Add the split at a path."""
    try:
        if not batches.takes_paths:
            raise ValueError("this page accepts no paths; upload the split")
        if not strip_text(path or ""):
            raise ValueError("the path is empty; enter that of a manifest, DST training JSON or ProAssist JSONL")
        return _show(batches, add_by_path(batches.splits, Path(strip_text(str(path)))))
    except (ValueError, OSError) as error:
        return _refuse(error)


def add_file(batches: BatchContext, upload: str | None) -> AddedSplit:
    """Add an uploaded split."""
    if upload is None:
        return AddedSplit(status=gr.skip(), split=gr.skip())
    try:
        return _show(batches, add_upload(batches.splits, Path(upload), folder=batches.runs / SPLITS_FOLDER))
    except (ValueError, OSError) as error:
        return _refuse(error)


def list_splits(batches: BatchContext, wanted: str) -> Any:
    """Return the dropdown with the current splits; the wanted one is chosen, unless the page lacks it."""
    chosen = {"value": wanted} if wanted in batches.splits else {}
    return gr.Dropdown(choices=list(batches.splits), **chosen)


def _show(batches: BatchContext, name: str) -> AddedSplit:
    description, is_problem = describe_split(name, batches.splits[name])
    splits = gr.Dropdown(choices=list(batches.splits), value=name)
    return AddedSplit(status=status_line(description, is_problem=is_problem), split=splits)


def _refuse(error: Exception) -> AddedSplit:
    return AddedSplit(status=status_line(as_sentence(error), is_problem=True), split=gr.skip())
