"""The tab *Split*: the videos and recipes of the chosen split. Names are untrusted: in cells of type ``str`` only."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import gradio as gr

from stepscope.app.batch.new_run.annotated import DRAWN_SUFFIX
from stepscope.app.controls.widgets import AT_ONCE, LATEST, Updates, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.results import score_table
from stepscope.app.formatting import format_clock
from stepscope.app.player import opening
from stepscope.app.player.commands import InPlayer
from stepscope.app.player.views import PlayerView, status_line
from stepscope.app.templates import render
from stepscope.app.window.context import AppContext
from stepscope.app.window.landing import START
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import InvalidSample, Sample, Split

HEADERS: Final = ["Video", "Length", "Goal", "Steps", "Segments", "File", "Left out or changed"]
MAX_ROWS: Final = 1000
"""Rows that a browser shows without delay."""
MAX_RECIPES: Final = 50


def show_split(batches: BatchContext, name: str | None) -> Updates:
    """Show the videos of a split with their numbers of steps and segments, and its recipes."""
    split = batches.listed_splits().get(name or "")
    if split is None:
        none = score_table(HEADERS, [])
        return Updates(said=status_line("Choose a split in the form."), videos=none, recipes="")
    unusable = len(split.entries) - len(split.samples)
    said = f"{name}: {format_count(len(split.samples), 'video')}"
    said += f", and {format_count(unusable, 'unusable record')}" if unusable else ""
    said += f"; the first {MAX_ROWS} are listed" if len(split.entries) > MAX_ROWS else ""
    read = split.provenance.get("annotations")
    known = read if isinstance(read, dict) else {}
    rows = [_describe(entry, known) for entry in split.entries[:MAX_ROWS]]
    recipes = render("recipes", recipes=list(_list_recipes(split))[:MAX_RECIPES])
    said = f"{said}. Click a row to open the video with its reference."
    return Updates(said=status_line(said), videos=score_table(HEADERS, rows), recipes=recipes)


def _describe(entry: Sample | InvalidSample, read: Mapping[str, Any]) -> list[str | int | None]:
    if isinstance(entry, InvalidSample):
        return [entry.video_id, "", "", None, None, "", f"unusable: {entry.reason}"]
    num_started = sum(turn.role == "update" and turn.text.endswith("->start") for turn in entry.turns)
    segments, counts = (_read_of(read, name, entry.video_id) for name in ("segments", "counts_by_video"))
    remarks = ", ".join(f"{number} {reason}" for reason, number in counts.items()) if isinstance(counts, dict) else ""
    return [
        entry.video_id,
        format_clock(entry.num_frames / entry.fps),
        entry.goal,
        len(entry.steps),
        segments if isinstance(segments, int) else num_started,
        _describe_file(entry),
        remarks,
    ]


def _read_of(read: Mapping[str, Any], name: str, video_id: str) -> object:
    by_video = read.get(name)
    return by_video.get(video_id) if isinstance(by_video, dict) else None


def _describe_file(sample: Sample) -> str:
    if sample.video_path is None or not os.path.isfile(sample.video_path):
        return "missing"
    return "drawn" if sample.video_path.parent.suffix == DRAWN_SUFFIX else "found"


def _list_recipes(split: Split) -> Iterator[Mapping[str, Any]]:
    """Yield the goal, the number of videos and the steps of each recipe, with the steps that must come before."""
    videos = defaultdict[Any, list[Sample]](list)
    for sample in split.samples:
        videos[sample.goal, sample.steps, tuple(sample.after.items())].append(sample)
    for samples in videos.values():
        first, *_ = samples
        numbers = {step.id: str(number) for number, step in enumerate(first.steps, start=1)}
        before = {step_id: ", ".join(numbers[one] for one in ids) for step_id, ids in first.after.items()}
        steps = [(step.name, before.get(step.id, "")) for step in first.steps]
        title = first.goal or (first.video_id if len(samples) == 1 else "Steps")
        size = f"{format_count(len(samples), 'video')}, {format_count(len(steps), 'step')}"
        yield {"title": title, "size": size, "steps": steps}


def open_row(context: AppContext, batches: BatchContext, name: str | None, event: gr.SelectData) -> PlayerView:
    """Show the video of a clicked row in the player, with its reference."""
    split = batches.listed_splits().get(name or "")
    sample = None if split is None else split.find(str(event.row_value[0]))
    return opening.open_reference(context, sample, destination=START)


def make_split_panel(context: AppContext, batches: BatchContext, *, split: Any, here: Any, in_player: InPlayer) -> None:
    """Lay out and wire the tab: the videos of the split that is chosen in the form."""
    said = make_status_line("split_said")
    videos = gr.Dataframe(
        headers=HEADERS,
        datatype=["str", "str", "str", "number", "number", "str", "str"],
        interactive=False,
        max_height=460,
        show_search="search",
        column_widths=["20%", "9%", "18%", "8%", "10%", "9%", "26%"],
        wrap=True,
        elem_id="split_videos",
    )
    recipes = gr.HTML(elem_id="split_recipes", padding=False)
    view = {"said": said, "videos": videos, "recipes": recipes}

    def open_linked(request: gr.Request) -> Any:
        listed, name = list(batches.listed_splits()), request.query_params.get("table")
        return gr.Dropdown(choices=listed, value=name) if name in listed else gr.skip()

    gr.on(None, open_linked, None, split, **AT_ONCE)  # when the page is loaded
    wire(partial(gr.on, [here.select, split.change]), partial(show_split, batches), split, view, **LATEST)
    in_player.wire(videos.select, partial(open_row, context, batches), split)
