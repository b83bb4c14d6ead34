"""The search of the batch tab: the moments that it finds, in the player one after the other, and its terms."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr
import pandas as pd

from stepscope.app.batch.selection import ALL_RUNS, THIS_RUN, Selection, find, list_traits, read_slices
from stepscope.app.controls import widgets
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.run import file_name
from stepscope.app.player import opening
from stepscope.app.player.commands import InPlayer, KindRequest, Step
from stepscope.app.player.views import PlayerView
from stepscope.app.review_store.events import find_moment_event
from stepscope.app.window.context import AppContext
from stepscope.app.window.landing import WORST, Destination, ListPlace
from stepscope.engine.io.files import write_csv


class Hits(NamedTuple):
    """The listed moments of a search, in the order of the list of videos."""

    query: str
    moments: pd.DataFrame


def choose_kind(selection: Selection, asked: KindRequest) -> Updates:
    """Search for the failures of a kind, or with the field ``class`` for the first mistakes of a class."""
    field = "class" if asked.field == "class" else "failure"
    query, _ = add_term("failure:root" if field == "class" else None, f"{field}: {asked.kind}")
    return Updates(runs=asked.run or str(selection.run), scope=THIS_RUN, query=query)


def choose_bar(field: str, selection: Selection, event: gr.EventData) -> Updates:
    """Search for the failures of a picked bar of the shown run."""
    return choose_kind(selection, KindRequest(kind=str(widgets.read_event(event, "point")), field=field))


def offer_terms(batches: BatchContext, name: str | None) -> Any:
    """Return the dropdown of the terms that moments of a run can have, and of its slices; nothing is chosen."""
    terms = [(f"slice: {part} ({len(videos)})", f"slice: {part}") for part, videos in _list_slices(batches, name)]
    return gr.Dropdown(choices=[*terms, *list_traits(batches, name)], value=None)


def _list_slices(batches: BatchContext, name: str | None) -> list[tuple[str, Any]]:
    try:
        return list(read_slices(batches, name).items())
    except ValueError:  # a search for one says so
        return []


def add_term(query: str | None, trait: str | None) -> tuple[str, None]:
    """Return a query with the term of a trait such as ``tag: blurry``, and None to choose again."""
    field, _, value = (trait or "").partition(": ")
    term = f'{field}:"{value}"' if re.search(r"\s", value) else f"{field}:{value}"
    return f"{query or ''} {term if trait else ''}".strip(), None


def open_hit(context: AppContext, batches: BatchContext, hits: Hits | None, number: int) -> PlayerView:
    """Show the moment at a place of the hits in the player."""
    if hits is None or not 0 <= number < len(hits.moments):
        words = "there is no search; type one in Batch" if hits is None else "there is no further moment"
        return opening.refuse(ValueError(words))
    hit: Any = hits.moments.iloc[number]
    run, video_id = str(hit.run), str(hit.video_id)
    place = ListPlace(of="search", number=number + 1, total=len(hits.moments), query=hits.query)
    event = find_moment_event(batches.find_sample(run, video_id), hit)
    there = Destination(at=float(hit.time_s), event=None if event is None else event.key, place=place)
    view = opening.open_moment(context, batches, video_id, names=(run,), destination=there)
    return PlayerView(view, at=number, listed=hits) if view != PlayerView() else view


def open_row(
    context: AppContext,
    batches: BatchContext,
    name: str | None,
    hits: Hits | None,
    event: gr.EventData,
) -> PlayerView:
    """Show the clicked moment of a search in the player, or a video without one at its worst moment."""
    number = widgets.read_event(event, "number")
    if isinstance(number, int):
        return open_hit(context, batches, hits, number)
    video_id, run = str(widgets.read_event(event, "point")), str(widgets.read_event(event, "run") or name)
    return opening.open_moment(context, batches, video_id, names=(run,), destination=WORST)


def write_hits(folder: Path, batches: BatchContext, selection: Selection) -> Path:
    """Write all moments of a search as CSV into a folder. Raises ``ValueError`` without one."""
    found = find(batches, selection).moments
    if found is None:
        raise ValueError("there is no search for moments; type one above the videos")
    rows: Any = found.to_dict("records")
    path = folder / file_name(selection.run, "moments.csv")
    write_csv(path, rows, columns=list(map(str, found)))
    return path


class SearchBoxes(NamedTuple):
    """The inputs of the search, and the dropdown that adds a term."""

    query: Any
    terms: Any
    scope: Any


def make_search_boxes() -> SearchBoxes:
    """Lay out the search in a row."""
    hint = "Search: words, failure:missed"
    bare: dict[str, Any] = {"container": False, "show_label": False, "min_width": 110}
    with gr.Row(elem_id="search_row"):
        return SearchBoxes(
            gr.Textbox(label="Search videos", placeholder=hint, max_lines=1, scale=4, elem_id="search", **bare),
            gr.Dropdown([], label="Add a term", scale=1, elem_id="search_terms", **bare),
            gr.Dropdown([THIS_RUN, ALL_RUNS], value=THIS_RUN, label="In", scale=1, elem_id="search_in", **bare),
        )


def wire_search(
    context: AppContext,
    batches: BatchContext,
    boxes: SearchBoxes,
    *,
    selection: Selection,
    videos: Any,
    hits: Any,
    in_player: InPlayer,
    kinds: Mapping[str, Any],
) -> list[Any]:
    """Wire the search and the list of ``videos``; return the events after which other videos are chosen.

    ``kinds`` are the charts with bars to search for, by their fields.
    """
    of_kind = {"runs": selection.run, "scope": boxes.scope, "query": boxes.query}
    found = [in_player.answer("find_kind", choose_kind, selection, of_kind)]
    found += [
        widgets.wire(chart.pick, partial(choose_bar, field), selection, of_kind, **widgets.AT_ONCE)
        for field, chart in kinds.items()
    ]
    found[0].then(lambda: gr.Tabs(selected="batch"), None, in_player.view.tabs, **widgets.AT_ONCE)
    term = [boxes.query, boxes.terms]
    added = boxes.terms.input(add_term, term, term, **widgets.AT_ONCE)
    offered = partial(gr.on, [selection.run.change, boxes.terms.focus])
    widgets.wire(offered, partial(offer_terms, batches), selection.run, boxes.terms, **widgets.AT_ONCE)
    listed, at = gr.State(None), gr.State(0)
    opened = {**vars(in_player.view), "at": at, "listed": listed}

    def go_on(listed: Any, at: int, step: Step) -> PlayerView:
        return open_hit(context, batches, listed, at + step.by)

    row = partial(open_row, context, batches)
    widgets.wire(videos.open, row, [selection.run, hits], opened, **in_player.ends)
    in_player.answer("step_search", go_on, [listed, at], opened, **in_player.steps)
    return [*(event.then for event in (*found, added)), boxes.query.submit, boxes.scope.input]
