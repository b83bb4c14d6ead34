"""The tab *Search*: the moments that match a query, and the player at one of them."""

import re
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import gradio as gr
import numpy as np
import pandas as pd

from stepscope.app.batch.selection import keep_slice, list_traits
from stepscope.app.controls import widgets
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.results import score_table
from stepscope.app.core.videos import read_moment
from stepscope.app.formatting import as_sentence, format_clock, shorten_ids
from stepscope.app.player import opening
from stepscope.app.player.opening import InPlayer, OpenedHit
from stepscope.app.player.views import PlayerView
from stepscope.app.review_store.events import find_moment_event
from stepscope.app.window.context import AppContext
from stepscope.app.window.landing import Destination, ListPlace
from stepscope.app.window.live_run import LiveRun
from stepscope.engine.io.files import write_csv
from stepscope.eval.data.samples import Sample
from stepscope.eval.reports.search import describe_hits, search_folders

HEADERS: Final = ["#", "Video", "Time", "What", "Failure", "Model", "Reference", "Cause", "Margin"]
THIS_RUN: Final = "this run"
ALL_RUNS: Final = "all scored runs of its split"
NO_QUERY: Final = "The moments that match are listed here: type words, or choose a term such as a failure or a tag."
NUM_SHOWN: Final = 500
"""Greatest number of moments in the table; the CSV file has all."""
NUM_PICTURES: Final = 8
_PICTURE_WIDTH: Final = 200


class Hits(NamedTuple):
    """The moments that a search found, by the order of runs, videos and times."""

    query: str
    moments: pd.DataFrame
    """At most ``NUM_SHOWN`` of them."""


class SearchView(NamedTuple):
    """The outputs of a search."""

    hits: Any
    said: Any
    table: Any
    query: Any = gr.skip()
    """Set only to that of the address: meanwhile another one may be typed."""


class FoundKind(NamedTuple):
    """The inputs of a search that the player starts, and the tabs of the room."""

    runs: Any
    scope: Any
    query: Any
    views: Any


def run_search(batches: BatchContext, name: str | None, scope: str, query: str | None) -> SearchView:
    """Search in the shown run, or in all scored runs of its split."""
    query = (query or "").strip()
    if not query:
        return SearchView(hits=None, said=NO_QUERY, table=[])
    try:
        found = _find(batches, name, scope, query)
    except (ValueError, OSError) as error:
        return SearchView(hits=None, said=as_sentence(error), table=[])
    said = f"{describe_hits(found)}."
    if len(found) > NUM_SHOWN:
        said += f" The first {NUM_SHOWN} are shown; the CSV file has all."
    if not len(found):
        said += " Remove a term, or search in all scored runs of the split."
    else:
        said += " Click a row to open it; N and P in the player go on to the next and previous one."
    shown = found.head(NUM_SHOWN)
    table = score_table(HEADERS, _rows(shown))
    return SearchView(hits=Hits(query, shown), said=said, table=table)


def search_linked(
    batches: BatchContext, name: str | None, scope: str, query: str | None, request: gr.Request
) -> SearchView:
    """Search for the query of the address in a window in which none is typed."""
    if query:
        return run_search(batches, name, scope, query)
    linked = request.query_params.get("search")
    found = run_search(batches, name, scope, linked)
    return found._replace(query=linked) if linked else found


def find_kind(batches: BatchContext, event: gr.EventData) -> FoundKind:
    """Choose the run and the kind of the failure that the player shows."""
    name, kind = str(widgets.read_event(event, "run")), str(widgets.read_event(event, "kind"))
    return FoundKind(
        runs=gr.Dropdown(choices=batches.listed_runs(name), value=name),
        scope=THIS_RUN,
        query=add_term(None, f"failure: {kind}")[0],
        views=gr.Tabs(selected="Search"),
    )


def offer_terms(batches: BatchContext, name: str | None) -> Any:
    """Return the dropdown of the terms that moments of a run can have; nothing is chosen."""
    return gr.Dropdown(choices=[one for one in list_traits(batches, name) if ":" in one[1]], value=None)


def add_term(query: str | None, trait: str | None) -> tuple[str, None]:
    """Return a query with the term of a trait such as ``tag: blurry``, and None to choose again."""
    field, _, value = (trait or "").partition(": ")
    term = f'{field}:"{value}"' if re.search(r"\s", value) else f"{field}:{value}"
    return f"{query or ''} {term if trait else ''}".strip(), None


def _find(batches: BatchContext, name: str | None, scope: str, query: str) -> pd.DataFrame:
    if name is None or name not in batches.run_names():
        raise ValueError("choose a run above; its moments are searched")
    names = [name]
    if scope == ALL_RUNS:
        others = batches.comparable_runs(name)
        names += [other for other in others if (batches.folder(other) / "moments.csv").is_file()]  # the scored ones
    return search_folders({one: batches.folder(one) for one in names}, query, marks=batches.marks())


def _rows(found: pd.DataFrame) -> list[list[Any]]:
    names, has_runs = shorten_ids(found["video_id"].unique()), found["run"].nunique() > 1
    hits: Any = found.itertuples()
    return [
        [
            number,
            f"{names[hit.video_id]} ({hit.run})" if has_runs else names[hit.video_id],
            format_clock(hit.time_s, digits=1),
            hit.what,
            hit.failure,
            hit.text,
            hit.reference,
            hit.cause,
            None if np.isnan(hit.margin) else round(hit.margin, 3),
        ]
        for number, hit in enumerate(hits, start=1)
    ]


def show_pictures(context: AppContext, batches: BatchContext, hits: Hits | None) -> list[tuple[Any, str]]:
    """Return pictures of the first moments with their captions."""
    return [] if hits is None else [_picture(batches, hit) for _, hit in hits.moments.head(NUM_PICTURES).iterrows()]


def _picture(batches: BatchContext, hit: Any) -> tuple[Any, str]:
    caption = f"{format_clock(hit.time_s, digits=1)} {hit.video_id}"
    sample = _find_sample(batches, hit)
    image = None if sample is None else read_moment(sample, hit.time_s)
    if image is None:
        image, caption = np.full((90, 160, 3), 128, np.uint8), f"{caption} (no picture)"
    step = max(1, image.shape[1] // _PICTURE_WIDTH)
    return image[::step, ::step], caption


def _find_sample(batches: BatchContext, hit: Any) -> Sample | None:
    split = batches.find_split(hit.run)
    return None if split is None else split.find(hit.video_id)


def _event_key(batches: BatchContext, hit: Any) -> str | None:
    event = find_moment_event(_find_sample(batches, hit), hit)
    return None if event is None else event.key


def open_hit(
    context: AppContext, batches: BatchContext, live: LiveRun | None, hits: Hits | None, number: int
) -> OpenedHit:
    """Show the moment at a place of the hits in the player."""
    if hits is None or not 0 <= number < len(hits.moments):
        words = "there is no search; type one in Batch, Search" if hits is None else "there is no further moment"
        return OpenedHit(player=opening.refuse(ValueError(words)))
    hit: Any = hits.moments.iloc[number]
    place = ListPlace(of="search", number=number + 1, total=len(hits.moments), query=hits.query)
    player = opening.open_moment(
        context,
        batches,
        live,
        str(hit.video_id),
        names=(str(hit.run),),
        destination=Destination(at=float(hit.time_s), event=_event_key(batches, hit), place=place),
    )
    return OpenedHit(player) if player == PlayerView() else OpenedHit(player, at=number, listed=hits)


def save_hits(batches: BatchContext, name: str | None, hits: Hits | None, called: str | None) -> tuple[Any, Any]:
    """Save the videos of the hits as a slice of the split; return as ``keep_slice``."""
    videos = frozenset(hits.moments["video_id"]) if hits is not None else frozenset()
    return keep_slice(batches, name, videos, called)


def download_hits(batches: BatchContext, name: str | None, scope: str, query: str | None) -> Generator[Any]:
    """Write all moments of a search as a CSV file, and yield its path; see ``send_file``."""

    def write(folder: Path) -> Path:
        found = _find(batches, name, scope, (query or "").strip())
        rows: Any = found.to_dict("records")
        write_csv(folder / "moments.csv", rows, columns=list(map(str, found)))
        return folder / "moments.csv"

    yield from widgets.send_file(write)


HINT: Final = (
    "Words or “a phrase”, and failure:missed · failure:any · failure:root · class:order · cause:swap · step:S3 · "
    "is:user · near:0.05 (to the threshold) · delay>2 · latency>500 · verdict:… · tag:… · -term excludes"
)


def make_search_panel(
    context: AppContext,
    batches: BatchContext,
    *,
    runs: Any,
    part: Any,
    views: Any,
    here: Any,
    in_player: InPlayer,
) -> None:
    """Lay out and wire the search; ``part`` is the dropdown of slices, which a new one joins, ``views`` the tabs."""
    with gr.Row():
        query = gr.Textbox(
            label="Search",
            info=HINT,
            placeholder="failure:missed cause:swap",
            max_lines=1,
            scale=6,
            min_width=260,
            elem_id="search",
        )
        terms = gr.Dropdown([], label="Add a term", interactive=True, scale=2, elem_id="search_terms")
        scope = gr.Dropdown([THIS_RUN, ALL_RUNS], value=THIS_RUN, label="In", scale=2, elem_id="search_in")
        start = gr.Button("Search", variant="primary", size="sm", scale=0, min_width=110, elem_id="search_start")
    said = widgets.make_status_line("search_said")
    hits, pictures, table = _make_hits(context, batches, in_player)
    view, chosen = SearchView(query=query, hits=hits, said=said, table=table), [runs, scope, query]
    with gr.Row():
        called = gr.Textbox(
            label="Name of a new slice", placeholder="name", max_lines=1, scale=2, elem_id="search_slice"
        )
        save = gr.Button("Save videos as slice", size="sm", scale=0, min_width=170, elem_id="search_save")
        download = gr.Button("Save as CSV", size="sm", scale=0, min_width=130, elem_id="search_csv")
    saved = (part, gr.HTML(elem_id="search_saved", padding=False))
    widgets.wire(save.click, partial(save_hits, batches), [runs, hits, called], saved, **widgets.AT_ONCE)
    widgets.wire_download(download.click, partial(download_hits, batches), chosen)
    found = FoundKind(runs=runs, scope=scope, query=query, views=views)
    asked = widgets.wire(
        in_player.view.run.player.find_kind, partial(find_kind, batches), None, found, **widgets.AT_ONCE
    )
    asked.then(lambda: gr.Tabs(selected="batch"), None, in_player.view.tabs, **widgets.AT_ONCE)
    entered, term = partial(gr.on, [here.select, runs.change]), [query, terms]
    changes, search = [start.click, query.submit, scope.input], partial(run_search, batches)
    begun = (
        widgets.wire(partial(gr.on, changes), search, chosen, view, **widgets.LATEST),
        widgets.wire(entered, partial(search_linked, batches), chosen, view, **widgets.LATEST),
        widgets.wire(asked.then, search, chosen, view, **widgets.LATEST),
        widgets.wire(terms.input(add_term, term, term, **widgets.AT_ONCE).then, search, chosen, view, **widgets.LATEST),
    )
    entered(partial(offer_terms, batches), runs, terms, **widgets.AT_ONCE)
    for event in begun:
        event.then(partial(show_pictures, context, batches), hits, pictures, **widgets.LATEST)


def _make_hits(context: AppContext, batches: BatchContext, in_player: InPlayer) -> tuple[gr.State, Any, Any]:
    """Return the state of the hits, their pictures and their table; a click opens the moment in the player."""
    hits, listed, at = gr.State(None), gr.State(None), gr.State(0)
    pictures = gr.Gallery(
        show_label=False,
        columns=NUM_PICTURES,
        rows=1,
        height=130,
        allow_preview=False,
        buttons=[],
        elem_id="search_pictures",
    )
    table = gr.Dataframe(
        headers=HEADERS,
        datatype=["number", "str", "str", "str", "str", "str", "str", "str", "number"],
        interactive=False,
        wrap=True,
        max_height=460,
        column_widths=["4%", "15%", "8%", "10%", "12%", "18%", "18%", "8%", "7%"],
        elem_id="search_hits",
    )
    opened, live = OpenedHit(player=in_player.view, at=at, listed=listed), in_player.view.buttons.live

    def open_row(live: Any, hits: Any, event: gr.SelectData) -> OpenedHit:
        return open_hit(context, batches, live, hits, int(event.row_value[0]) - 1)

    def open_picture(live: Any, hits: Any, event: gr.SelectData) -> OpenedHit:
        return open_hit(context, batches, live, hits, int(event.index))

    def step(event: gr.EventData, live: Any, listed: Any, at: int) -> OpenedHit:
        return open_hit(context, batches, live, listed, at + opening.read_step(event))

    widgets.wire(table.select, open_row, [live, hits], opened, **in_player.ends)
    widgets.wire(pictures.select, open_picture, [live, hits], opened, **in_player.ends)
    in_player.wire_steps("search", step, [live, listed, at], opened)
    return hits, pictures, table
