"""Handlers of the search: the moments that match a query, and the player at one of them."""

import re
from collections.abc import Generator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import gradio as gr
import numpy as np
import pandas as pd

from stepscope.app.context import AppContext
from stepscope.app.controls.widgets import read_event
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.live_run import LiveRun
from stepscope.app.core.videos import read_moment
from stepscope.app.formatting import as_sentence, format_clock, shorten_ids
from stepscope.app.opening import saved_runs as saved
from stepscope.app.reviews.actions import Event
from stepscope.app.reviews.events import reference_event
from stepscope.app.tabs.batch.selection.handlers import SavedSlice, keep_slice, list_traits
from stepscope.app.web.views import PlayerView
from stepscope.engine.io.files import write_csv
from stepscope.engine.plurals import format_count
from stepscope.eval.annotations.corrections import name_turns
from stepscope.eval.data.samples import Role, Sample
from stepscope.eval.reports.search import search_folders

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

    query: Any
    hits: Any
    said: Any
    table: Any


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
        return SearchView(query=gr.skip(), hits=None, said=NO_QUERY, table=[])
    try:
        found = _find(batches, name, scope, query)
    except (ValueError, OSError) as error:
        return SearchView(query=query, hits=None, said=as_sentence(error), table=[])
    videos = found[["run", "video_id"]].drop_duplicates()
    said = f"{format_count(len(found), 'moment')} in {format_count(len(videos), 'video')}."
    if len(found) > NUM_SHOWN:
        said += f" The first {NUM_SHOWN} are shown; the CSV file has all."
    if not len(found):
        said += " Remove a term, or search in all scored runs of the split."
    else:
        said += " Click a row to open it; N and P in the player go on to the next and previous one."
    shown = found.head(NUM_SHOWN)
    return SearchView(query=query, hits=Hits(query, shown), said=said, table=_rows(shown))


def search_linked(
    batches: BatchContext, name: str | None, scope: str, query: str | None, linked: str | None
) -> SearchView:
    """Search for the query of the address in a window in which none is typed."""
    return run_search(batches, name, scope, query or linked)


def find_kind(batches: BatchContext, event: gr.EventData) -> FoundKind:
    """Choose the run and the kind of the failure that the player shows."""
    name, kind = str(read_event(event, "run")), str(read_event(event, "kind"))
    return FoundKind(
        runs=gr.Dropdown(choices=batches.listed_runs(name), value=name),
        scope=THIS_RUN,
        query=add_term(None, f"failure: {kind}")[0],
        views=gr.Tabs(selected="search"),
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
        names += [other for other in batches.comparable_runs(name) if other != name and _is_scored(batches, other)]
    return search_folders({one: batches.folder(one) for one in names}, query, marks=batches.marks())


def _is_scored(batches: BatchContext, name: str) -> bool:
    return (batches.folder(name) / "moments.csv").is_file()


def _rows(found: pd.DataFrame) -> list[list[Any]]:
    """Return the cells of moments, with the name of the run behind the video if there are several runs."""
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
    try:
        sample = _find_sample(batches, hit)
    except (ValueError, OSError):
        sample = None
    image = None if sample is None else read_moment(sample, hit.time_s)
    if image is None:
        image, caption = np.full((90, 160, 3), 128, np.uint8), f"{caption} (no picture)"
    step = max(1, image.shape[1] // _PICTURE_WIDTH)
    return image[::step, ::step], caption


def _find_sample(batches: BatchContext, hit: Any) -> Sample | None:
    split = batches.split_of(batches.settings_of(hit.run))
    samples = () if split is None else split.samples
    return next((sample for sample in samples if sample.video_id == hit.video_id), None)


def _event_key(sample: Sample | None, hit: Any) -> str | None:
    """Return the key of the event of a moment in the player; None if it is no event."""
    event = partial(Event, video_id=str(hit.video_id), time_s=float(hit.time_s))
    if hit.what == "state":
        return event(kind="state", role="update", text=hit.step.replace(" ", ", ")).key
    if hit.what not in ("message", "update") or sample is None:
        return None
    role: Role = "update" if hit.what == "update" else "assistant"
    if hit.text:
        return event(kind="update" if role == "update" else "generated", role=role, text=hit.text).key
    turns = [name for name in name_turns(sample.turns) if (name.role, name.text) == (role, hit.reference)]
    nearest = min(turns, key=lambda name: abs(name.time_s - hit.time_s), default=None)
    return None if nearest is None else reference_event(sample.video_id, nearest).key


def open_hit(
    context: AppContext, batches: BatchContext, live: LiveRun | None, hits: Hits | None, number: int
) -> saved.OpenedHit:
    """Show the moment at a place of the hits in the player."""
    if hits is None or not 0 <= number < len(hits.moments):
        words = "there is no search; type one in Batch, Search" if hits is None else "there is no further moment"
        return saved.OpenedHit(player=saved.refuse(ValueError(words)), at=gr.skip())
    hit: Any = hits.moments.iloc[number]
    player = saved.open_moment(
        context,
        batches,
        live,
        str(hit.video_id),
        names=(str(hit.run),),
        open_at=float(hit.time_s),
        open_event=_event_key(_find_sample(batches, hit), hit),
        hit={"of": "search", "number": number + 1, "total": len(hits.moments), "query": hits.query},
    )
    return saved.OpenedHit(player=player, at=gr.skip() if player == PlayerView() else number)


def save_hits(batches: BatchContext, name: str | None, hits: Hits | None, called: str | None) -> SavedSlice:
    """Save the videos of the hits as a slice of the split."""
    videos = frozenset(hits.moments["video_id"]) if hits is not None else frozenset()
    return keep_slice(batches, name, videos, called)


def download_hits(batches: BatchContext, name: str | None, scope: str, query: str | None) -> Generator[Any]:
    """Write all moments of a search as a CSV file, and yield its path."""
    with TemporaryDirectory(prefix="stepscope-export-") as folder:
        try:
            found = _find(batches, name, scope, (query or "").strip())
            path = Path(folder) / "moments.csv"
            rows: Any = found.to_dict("records")
            write_csv(path, rows, columns=list(map(str, found)))
            yield str(path)
        except (ValueError, OSError) as error:
            saved.refuse(error)
            yield None
