"""The search, which chooses the videos of a run by their moments, or by a saved selection.

A saved selection, a *slice*, belongs to a split and is stored beside the run folders. It can be scored separately.
"""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

import gradio as gr
import pandas as pd

from stepscope.app.controls.widgets import AT_ONCE, wire
from stepscope.app.core import slices
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.results import WORST_FIRST, VideoFilter, score_groups
from stepscope.app.formatting import as_sentence
from stepscope.app.templates import render, render_note
from stepscope.app.window.context import AppContext
from stepscope.engine.errors import EngineError
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Split
from stepscope.eval.data.vocabulary import read_vocabulary
from stepscope.eval.metrics.definitions import NUM_FAILURES, ROOTS
from stepscope.eval.metrics.failures import failure_score
from stepscope.eval.metrics.matched_video import FAILURE_KINDS
from stepscope.eval.reports.scoring import describe_scoring, score_run
from stepscope.eval.reports.search import DIAGNOSED_TERM, TERM, Marks
from stepscope.eval.reports.table_files import Results, read_results

MAX_NAME_CHARS: Final = 60
THIS_RUN: Final = "this run"
ALL_RUNS: Final = "all scored runs of its split"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The shown run, and the search and the order of its videos."""

    run: Any
    order: Any = WORST_FIRST[NUM_FAILURES]
    query: Any = ""
    scope: Any = THIS_RUN
    other: Any = ""
    """The run B, which is compared with the shown one."""
    scores: Any = ()
    """The scores in the list of runs."""


class Found(NamedTuple):
    """The videos that a search chooses."""

    videos: frozenset[str] | None = None
    """Their ids; None for all."""
    moments: pd.DataFrame | None = None
    """Matching moments by runs, videos and times; None for a search that names slices only."""


def find(batches: BatchContext, selection: Selection) -> Found:
    """Search in the shown run, or in all scored runs of its split. Raises ``ValueError`` for an invalid search."""
    name, (slices_named, query) = selection.run, _split_query(selection.query)
    if not query and not slices_named:
        return Found()
    if not name or name not in batches.run_names():
        raise ValueError("choose a run; its moments are searched")
    chosen = _choose_slices(batches, name, slices_named) if slices_named else None
    if not query:
        return Found(chosen)
    others = batches.comparable_runs(name) if selection.scope == ALL_RUNS else []
    moments = batches.search([name, *others], query)
    moments = moments if chosen is None else moments[moments["video_id"].isin(chosen)]
    return Found(frozenset(moments["video_id"]), moments)


def _split_query(query: str | None) -> tuple[list[tuple[str, bool]], str]:
    """Return the slices of a search, with whether each is excluded, and its other terms."""
    named, terms = [], []
    for term in TERM.finditer((query or "").strip()):
        excluded, field, sign, value, _ = term.groups()
        if (field, sign) == ("slice", ":"):
            named.append((value.strip('"'), bool(excluded)))
        else:
            terms.append(term[0])
    return named, " ".join(terms)


def _choose_slices(batches: BatchContext, name: str, named: Sequence[tuple[str, bool]]) -> frozenset[str]:
    kept, split = read_slices(batches, name), batches.need_split(name)
    if unknown := [part for part, _ in named if part not in kept]:
        raise ValueError(f"the split of {name} has no slice {unknown[0]!r}; slices are {', '.join(kept) or 'none yet'}")
    chosen = frozenset(entry.video_id for entry in split.entries)
    for part, is_excluded in named:
        chosen = chosen.difference(kept[part]) if is_excluded else chosen.intersection(kept[part])
    return chosen


def find_traits(results: Results, split: Split | None, marks: Marks) -> dict[str, frozenset[str]]:
    """Return the traits of each video: its failures, their classes, causes in its reference, verdicts and tags."""
    samples = {sample.video_id: sample for sample in split.samples} if split is not None else {}
    traits, marked = {}, dict[str, set[str]]()
    diagnosed = results.diagnosis.videos if results.diagnosis is not None else ()
    classes = {video.video_id: {f"class: {root.cause}" for root in video.roots} for video in diagnosed}
    for (video_id, *_), names in marks.items():
        marked.setdefault(video_id, set()).update(names)
    for row in results.rows:
        video_id = str(row["video_id"])
        found = {f"failure: {kind}" for kind in FAILURE_KINDS if float(row.get(failure_score(kind), 0.0)) > 0}
        turns = samples[video_id].turns if video_id in samples else ()
        found |= {f"cause: {turn.cause}" for turn in turns if turn.cause}
        found |= classes.get(video_id, set()) if float(row.get(ROOTS, 0.0)) > 0 else set()  # nan if it is stale
        traits[video_id] = frozenset(found | marked.get(video_id, set()))
    return traits


def list_traits(batches: BatchContext, name: str | None) -> list[tuple[str, str]]:
    """Return the traits of the videos of a run, as pairs of a label with the number of videos, and the trait.

    Those of the split's vocabulary are among them, also if no video has them.
    """
    found = (trait for traits in _traits(batches, name).values() for trait in traits)
    counts = Counter(trait for trait in found if not (batches.is_blind and DIAGNOSED_TERM.match(trait)))
    counts.update(dict.fromkeys(_vocabulary_traits(batches, name), 0))
    return [(f"{trait} ({counts[trait]})", trait) for trait in sorted(counts)]


def choose_videos(batches: BatchContext, selection: Selection) -> frozenset[str] | None:
    """Return the chosen videos of the shown run; None for all. Raises ``ValueError`` as ``find``."""
    return find(batches, replace(selection, scope=THIS_RUN)).videos


def make_filter(batches: BatchContext, selection: Selection) -> VideoFilter:
    """Return the filter of the list of videos; none is chosen by an invalid search."""
    try:
        return VideoFilter(selection.order, choose_videos(batches, selection))
    except (ValueError, OSError) as error:
        gr.Warning(escape(as_sentence(error)))
        return VideoFilter(selection.order, frozenset())


def read_slices(batches: BatchContext, name: str | None) -> Mapping[str, Sequence[str]]:
    """Return the slices of the split of a run, as ids of videos by name. Raises ``ValueError`` for a damaged file."""
    path = _slices_path(batches, name)
    return {} if path is None else slices.read_slices(path)


def save_slice(batches: BatchContext, selection: Selection, called: str | None) -> str:
    """Save the chosen videos as a slice of their split; return a status as HTML."""
    try:
        chosen = choose_videos(batches, selection)
        path, called = _slices_path(batches, selection.run), " ".join((called or "").split())
        if path is None:
            raise ValueError("choose a run of a split that this page has")
        if not called.isprintable() or not 0 < len(called) <= MAX_NAME_CHARS or '"' in called:
            raise ValueError(f"give the slice a name of at most {MAX_NAME_CHARS} characters, without quotes")
        if not chosen:
            raise ValueError("search first: all videos are shown" if chosen is None else "no video is chosen")
        slices.write_slice(path, called, sorted(chosen))
    except (ValueError, OSError) as error:
        return render_note(as_sentence(error), is_problem=True)
    return render_note(f'{format_count(len(chosen), "video")} saved. The search slice:"{called}" finds them again.')


def score_chosen(context: AppContext, batches: BatchContext, selection: Selection) -> Generator[str]:
    """Score the shown videos separately; yield the status, then the scores with their intervals, as HTML."""
    name = selection.run
    try:
        split, settings = batches.need_split(name), batches.settings_of(name)
        chosen = choose_videos(batches, selection)
        entries = tuple(entry for entry in split.entries if chosen is None or entry.video_id in chosen)
        if not entries:
            raise ValueError("no video is selected")
        yield render_note(f"Scoring {format_count(len(entries), 'video')}.")
        with batches.jobs.make_scorer() as scorer:
            scored = score_run(
                batches.folder(name),
                replace(split, entries=entries),
                batches.scoring_of(settings),
                encode=context.encode,
                scorer=scorer,
            )
    except (EngineError, ValueError, OSError) as error:
        yield render_note(as_sentence(error), is_problem=True)
        return
    prefix = f"{selection.query}: " if selection.query else ""
    videos = format_count(len(split.entries), "video")
    heading = f"{prefix}{scored.report.num_videos} of {videos} of {name}, scored separately"
    intervals = {key: [interval.low, interval.high] for key, interval in scored.report.intervals.items()}
    found = {"judge": scored.judge, "reference_writer": scored.reference_writer}
    basis = describe_scoring({**asdict(batches.scoring_of(settings)), **found})
    groups = score_groups({"scores": scored.report.scores, "intervals": intervals})
    yield render("slice_scores", heading=heading, groups=groups, basis=basis)


def _traits(batches: BatchContext, name: str | None) -> dict[str, frozenset[str]]:
    if name is None or name not in batches.run_names():
        return {}
    return find_traits(read_results(batches.folder(name)), batches.find_split(name), batches.marks())


def _vocabulary_traits(batches: BatchContext, name: str | None) -> tuple[str, ...]:
    split = batches.find_split(name)
    try:
        return () if split is None else read_vocabulary(split.path).traits
    except ValueError:  # the review panel of the player says so
        return ()


def _slices_path(batches: BatchContext, name: str | None) -> Path | None:
    split = batches.find_split(name)
    return None if split is None else slices.slices_path(batches.runs, split.path)


def make_slice_panel(context: AppContext, batches: BatchContext, *, selection: Selection) -> None:
    """Lay out and wire what can be done with the chosen videos: keep them as a slice, and score them separately."""
    with gr.Row(elem_id="slices"):
        bare: dict[str, Any] = {"show_label": False, "container": False, "max_lines": 1, "min_width": 120}
        called = gr.Textbox(label="Name of a slice", placeholder="name of a slice", elem_id="slice_name", **bare)
        save = gr.Button("Save videos as slice", size="sm", scale=0, min_width=150, elem_id="save_slice")
        score = gr.Button("Score them separately", size="sm", scale=0, min_width=150, elem_id="score_slice")
    result = gr.HTML(elem_id="slice_scores", padding=False)
    wire(save.click, partial(save_slice, batches), [selection, called], result, **AT_ONCE)
    queue = {"concurrency_id": "scores", "concurrency_limit": 1, "api_visibility": "private"}
    wire(score.click, partial(score_chosen, context, batches), selection, result, **queue)
