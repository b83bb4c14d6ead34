"""The videos of a run as rows with a picture, scores and a strip of their mistakes; their texts are untrusted."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import gradio as gr
import pandas as pd

from stepscope.app.batch.search import Hits
from stepscope.app.batch.selection import THIS_RUN, Found, Selection
from stepscope.app.controls.widgets import MODULES
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.results import VIDEO_COLUMNS, WORST_FIRST, VideoFilter, choose_rows, count_failed, video_scores
from stepscope.app.server.routes import PICTURE_URL
from stepscope.engine.dialogue import parse_update
from stepscope.engine.io.files import to_json
from stepscope.engine.plurals import format_count
from stepscope.engine.records import Step
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.reports.search import ABSENT, TERM, describe_hits, read_moments
from stepscope.eval.reports.table_files import Row, read_results

NUM_HITS: Final = 500
"""Greatest number of listed moments; the export has all."""
_COLUMNS: Final = [(name, find_metric(name).label, find_metric(name).is_count) for name in VIDEO_COLUMNS]


def pack_videos(
    batches: BatchContext, selection: Selection, rows: Sequence[Row], found: Found, problem: str
) -> tuple[str, Hits | None]:
    """Return the chosen videos as JSON, and their moments of the search in the same order.

    ``rows`` are the videos of the shown run, and ``problem`` the reason why the search failed.
    """
    name, moments = str(selection.run), found.moments
    runs = [name] if moments is None else list(dict.fromkeys([name, *moments["run"]]))
    videos = list[dict[str, Any]]()
    for run in runs:
        ids = found.videos if moments is None else frozenset(moments[moments["run"] == run]["video_id"])
        rows_of_run = rows if run == name else read_results(batches.folder(run)).rows
        videos += _list_videos(batches, run, rows_of_run, VideoFilter(selection.order, ids))
    hits = None if moments is None else _order_hits(moments, videos)
    number = 0
    for video in videos:
        start = number
        while hits is not None and number < len(hits) and _key(hits.iloc[number]) == (video["run"], video["id"]):
            number += 1
        video["hits"] = [start, number]
    shown = {
        "key": f"{name} {selection.query} {selection.order}",
        "run": name,
        "said": problem or _describe(rows, videos, found, selection, batches.explain_no_moments(name)),
        "is_problem": bool(problem),
        "columns": _COLUMNS,
        "first": WORST_FIRST,
        "order": selection.order,
        "videos": videos,
        "hits": [] if hits is None else list(_describe_hits(batches, hits)),
    }
    return to_json(shown), None if hits is None else Hits(str(selection.query), hits)


def _key(hit: Any) -> tuple[str, str]:
    return str(hit["run"]), str(hit["video_id"])


def _describe(
    rows: Sequence[Row], videos: Sequence[Mapping[str, Any]], found: Found, selection: Selection, lacking: str
) -> str:
    number = format_count(len(rows), "video")
    if found.moments is None:
        marks = "Marks are failures: tall of messages, short of updates and states."
        whole = f"{number}. A click opens one. {f'Marks of failures come {lacking}.' if lacking else marks}"
        whole = whole if rows else "No video is finished yet."
        return whole if found.videos is None else f"{len(videos)} of {number}."
    if found.moments.attrs.get(ABSENT):
        return f"{describe_hits(found.moments)}."
    said = f"{describe_hits(found.moments)}, of {number}."
    if len(found.moments) > NUM_HITS:
        said += f" The first {NUM_HITS} moments are shown; the export has all."
    if not len(found.moments):
        cure = "Remove a term" if len(TERM.findall(selection.query)) > 1 else "Try another term"
        return f"{said} {cure}{', or search in all scored runs of the split' if selection.scope == THIS_RUN else ''}."
    return f"{said} N and P in the player go on to the next and previous one."


def _list_videos(batches: BatchContext, run: str, rows: Sequence[Row], choice: VideoFilter) -> Iterator[dict[str, Any]]:
    names, split, marks = batches.video_names(run), batches.find_split(run), _list_mistakes(batches, run)
    lengths = {sample.video_id: sample.num_frames / sample.fps for sample in split.samples} if split is not None else {}
    for row in choose_rows(rows, choice):
        video_id, error = str(row["video_id"]), str(row["error"])
        has_failed = count_failed([error]) > 0
        yield {
            "run": run,
            "id": video_id,
            "name": names.get(video_id, video_id),
            "remark": f"failed: {error}" if has_failed else str(error or row["warning"]),
            "failed": has_failed,
            "scores": video_scores(row),
            "length": lengths.get(video_id),
            "marks": marks.get(video_id, []),
        }


def _list_mistakes(batches: BatchContext, run: str) -> dict[str, list[tuple[float, str]]]:
    """Return second and kind of the failures of each video; empty for a run without a table of moments."""
    if not (batches.folder(run) / "moments.csv").is_file():
        return {}
    table = read_moments(batches.folder(run))
    table = table[table["failure"] != ""]
    mistakes = dict[str, list[tuple[float, str]]]()
    for video_id, time_s, kind in zip(table["video_id"], table["time_s"], table["failure"], strict=True):
        mistakes.setdefault(str(video_id), []).append((float(time_s), str(kind)))
    return mistakes


def _order_hits(moments: pd.DataFrame, videos: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the first moments in the order of the list of videos."""
    places = {(video["run"], video["id"]): place for place, video in enumerate(videos)}
    ranks = [places.get((str(run), str(one)), len(places)) for run, one in moments[["run", "video_id"]].to_numpy()]
    return moments.assign(rank=ranks).sort_values("rank", kind="stable").drop(columns="rank").head(NUM_HITS)


def _describe_hits(batches: BatchContext, hits: pd.DataFrame) -> Iterator[dict[str, Any]]:
    rows: Any = hits.itertuples()
    splits = {run: split for run in hits["run"].unique() if (split := batches.find_split(run)) is not None}
    names = {(run, one.video_id): one.steps for run, split in splits.items() for one in split.samples}
    for hit in rows:
        texts = {name: str(getattr(hit, name)) for name in ("what", "failure", "text", "reference", "cause")}
        steps = names.get((hit.run, str(hit.video_id)), ())
        texts |= {name: describe_text(texts[name], steps) for name in ("text", "reference")}
        margin = None if math.isnan(hit.margin) else round(hit.margin, 3)
        yield {"time": float(hit.time_s), "margin": margin, **texts}


def describe_text(text: str, steps: Sequence[Step]) -> str:
    """Return a text of a moment as the player shows it: an update by the name of its step."""
    if (update := parse_update(text)) is None:
        return text
    verb = "began" if update.transition == "start" else "ended"
    return next((f"{verb}: {step.name or step.id}" for step in steps if step.id == update.step_id), text)


def make_video_rows() -> Any:
    """Return the list.

    Its event ``open`` has the ``number`` of a moment, or the id of a video (``point``) and its ``run``; ``sort`` has
    the order (``by``).
    """
    settings = {"picture_url": PICTURE_URL}
    return gr.HTML(
        value="",
        html_template='<div class="wb-videos"></div>',
        js_on_load=MODULES.make_script("workbench/videos.js", events=["open", "sort"], settings=settings),
        apply_default_css=False,
        elem_id="videos",
        padding=False,
    )
