"""The selection of the videos of a run, by failure, cause, verdict and tag, or by a saved selection.

A saved selection, a *slice*, belongs to a split and is stored beside the run folders. It can be scored separately.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Final

import gradio as gr

from stepscope.app.controls.widgets import AT_ONCE, Updates, read_event, wire
from stepscope.app.core import slices
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.results import ORDERS, VideoFilter, score_groups
from stepscope.app.formatting import as_sentence
from stepscope.app.templates import render, render_note
from stepscope.app.window.context import AppContext
from stepscope.engine.errors import EngineError
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Split
from stepscope.eval.data.vocabulary import read_vocabulary
from stepscope.eval.metrics.failures import failure_score
from stepscope.eval.metrics.matched_video import FAILURE_KINDS
from stepscope.eval.reports.scoring import describe_scoring, score_run
from stepscope.eval.reports.search import Marks
from stepscope.eval.reports.table_files import Row, read_results

ALL_VIDEOS: Final = "all videos"
MAX_NAME_CHARS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The shown run, and the order and choice of its videos."""

    run: Any
    order: Any = ""
    only: Any = ()
    """Traits that all chosen videos have."""
    part: Any = None
    """Name of a slice; None or ``ALL_VIDEOS`` for the whole split."""


def find_traits(rows: Iterable[Row], split: Split | None, marks: Marks) -> dict[str, frozenset[str]]:
    """Return the traits of each video: its failures, the causes in its reference, its verdicts and its tags."""
    samples = {sample.video_id: sample for sample in split.samples} if split is not None else {}
    traits, marked = {}, dict[str, set[str]]()
    for (video_id, *_), names in marks.items():
        marked.setdefault(video_id, set()).update(names)
    for row in rows:
        video_id = str(row["video_id"])
        found = {f"failure: {kind}" for kind in FAILURE_KINDS if float(row.get(failure_score(kind), 0.0)) > 0}
        found |= {"not run: failed"} if row["error"] else set()
        turns = samples[video_id].turns if video_id in samples else ()
        found |= {f"cause: {turn.cause}" for turn in turns if turn.cause}
        traits[video_id] = frozenset(found | marked.get(video_id, set()))
    return traits


def list_traits(batches: BatchContext, name: str | None) -> list[tuple[str, str]]:
    """Return the traits of the videos of a run, as pairs of a label with the number of videos, and the trait.

    Those of the split's vocabulary are among them, also if no video has them.
    """
    counts = Counter(trait for traits in _traits(batches, name).values() for trait in traits)
    counts.update(dict.fromkeys(_vocabulary_traits(batches, name), 0))
    return [(f"{trait} ({counts[trait]})", trait) for trait in sorted(counts)]


def choose_videos(batches: BatchContext, selection: Selection) -> frozenset[str] | None:
    """Return the selected videos of a run; None for all videos."""
    chosen = None
    if selection.part not in (None, ALL_VIDEOS):
        chosen = frozenset(read_slices(batches, selection.run).get(str(selection.part), ()))
    if selection.only:
        traits = _traits(batches, selection.run)
        having = frozenset(video_id for video_id, found in traits.items() if found.issuperset(selection.only))
        chosen = having if chosen is None else chosen & having
    return chosen


def choose_kind(batches: BatchContext, name: str | None, event: gr.EventData) -> Updates:
    """Select the videos with the failures of a picked bar, and show them: traits, and the tabs of the run."""
    trait = f"failure: {read_event(event, 'point')}"
    choices = list_traits(batches, name)
    if trait not in [value for _, value in choices]:
        return Updates()
    return Updates(only=gr.Dropdown(choices=choices, value=[trait]), views=gr.Tabs(selected="Videos"))


def make_filter(batches: BatchContext, selection: Selection) -> VideoFilter:
    """Return the filter of the table: an order, and the videos of ``choose_videos``; none of an unreadable slice."""
    try:
        return VideoFilter(selection.order, choose_videos(batches, selection))
    except ValueError as error:
        gr.Warning(escape(as_sentence(error)))
        return VideoFilter(selection.order, frozenset())


def read_slices(batches: BatchContext, name: str | None) -> Mapping[str, Sequence[str]]:
    """Return the slices of the split of a run, as ids of videos by name. Raises ``ValueError`` for a damaged file."""
    path = _slices_path(batches, name)
    return {} if path is None else slices.read_slices(path)


def save_slice(batches: BatchContext, selection: Selection, called: str | None) -> tuple[Any, Any]:
    """Save the shown videos as a slice of their split; return as ``keep_slice``."""
    try:
        chosen = choose_videos(batches, selection)
    except ValueError as error:
        return gr.skip(), render_note(as_sentence(error), is_problem=True)
    return keep_slice(batches, selection.run, chosen, called)


def keep_slice(
    batches: BatchContext, name: str | None, chosen: frozenset[str] | None, called: str | None
) -> tuple[Any, Any]:
    """Save videos of a run, None for all of them, as a slice of their split; return the slices, and a status."""
    try:
        path, called = _slices_path(batches, name), " ".join((called or "").split())
        if path is None:
            raise ValueError("choose a run of a split that this page has")
        if not called.isprintable() or not 0 < len(called) <= MAX_NAME_CHARS or called == ALL_VIDEOS:
            raise ValueError(f"give the slice a name of at most {MAX_NAME_CHARS} characters")
        if not chosen:
            raise ValueError(
                "select some of the videos first: all are shown" if chosen is None else "no video is selected"
            )
        kept = slices.write_slice(path, called, sorted(chosen))
    except (ValueError, OSError) as error:
        return gr.skip(), render_note(as_sentence(error), is_problem=True)
    result = render_note(f"{called}: {format_count(len(chosen), 'video')} saved.")
    return gr.Dropdown(choices=[ALL_VIDEOS, *kept], value=called), result


def score_chosen(context: AppContext, batches: BatchContext, selection: Selection) -> Generator[str]:
    """Score the shown videos separately; yield the status, then the scores with their intervals, as HTML."""
    name, part = selection.run, selection.part
    try:
        settings = batches.settings_of(name)
        split = batches.split_of(settings)
        if name is None or split is None:
            raise ValueError("choose a run of a split that this page has")
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
    prefix = f"{part}: " if part not in (None, ALL_VIDEOS) else ""
    videos = format_count(len(split.entries), "video")
    heading = f"{prefix}{scored.report.num_videos} of {videos} of {name}, scored separately"
    intervals = {key: [interval.low, interval.high] for key, interval in scored.report.intervals.items()}
    found = {"judge": scored.judge, "reference_writer": scored.reference_writer}
    basis = describe_scoring({**asdict(batches.scoring_of(settings)), **found})
    groups = score_groups({"scores": scored.report.scores, "intervals": intervals})
    yield render("slice_scores", heading=heading, groups=groups, basis=basis)


def offer(batches: BatchContext, name: str | None, seen: str | None) -> Updates:
    """Return the current traits and slices of a run; all videos are selected for a newly chosen one.

    A changed list of runs is an event too: the selection and the result of the shown run ``seen`` are kept.
    """
    traits, parts, problem = list_traits(batches, name), [ALL_VIDEOS], ""
    try:
        parts += read_slices(batches, name)
    except ValueError as error:
        problem = render_note(as_sentence(error), is_problem=True)
    if name == seen:
        kept = Updates(only=gr.Dropdown(choices=traits), part=gr.Dropdown(choices=parts))
        return Updates(kept, result=problem) if problem else kept
    only = gr.Dropdown(choices=traits, value=[], multiselect=True)
    return Updates(only=only, part=gr.Dropdown(choices=parts, value=ALL_VIDEOS), seen=name, result=problem)


def _traits(batches: BatchContext, name: str | None) -> dict[str, frozenset[str]]:
    if name is None or name not in batches.run_names():
        return {}
    return find_traits(read_results(batches.folder(name)).rows, batches.find_split(name), batches.marks())


def _vocabulary_traits(batches: BatchContext, name: str | None) -> tuple[str, ...]:
    split = batches.find_split(name)
    try:
        return () if split is None else read_vocabulary(split.path).traits
    except ValueError:  # the review panel of the player says so
        return ()


def _slices_path(batches: BatchContext, name: str | None) -> Path | None:
    split = batches.find_split(name)
    return None if split is None else slices.slices_path(batches.runs, split.path)


def make_selection_panel(
    context: AppContext, batches: BatchContext, *, runs: Any, result: Any
) -> tuple[Selection, Any]:
    """Lay out and wire the panel; return its form, and the event after which a chosen run has all videos."""
    with gr.Row():
        order = gr.Dropdown(list(ORDERS), value="most failures", label="Videos", scale=2, elem_id="order")
        only = gr.Dropdown([], value=[], multiselect=True, label="Only videos with", scale=4, elem_id="only")
        part = gr.Dropdown([ALL_VIDEOS], value=ALL_VIDEOS, label="Slice", scale=2, elem_id="slice")
        called = gr.Textbox(label="Name of a new slice", placeholder="name", max_lines=1, scale=2, elem_id="slice_name")
        with gr.Column(scale=2, min_width=150):
            save = gr.Button("Save as slice", size="sm", elem_id="save_slice")
            score = gr.Button("Score separately", size="sm", elem_id="score_slice")
    form, seen = Selection(run=runs, order=order, only=only, part=part), gr.State(None)
    view = {"only": only, "part": part, "seen": seen, "result": result}
    offered, _ = (
        wire(event, partial(offer, batches), [runs, seen], view, **AT_ONCE)
        for event in (runs.change, partial(gr.on, [only.focus, part.focus]))
    )
    wire(save.click, partial(save_slice, batches), [form, called], (part, result), **AT_ONCE)
    queue = {"concurrency_id": "scores", "concurrency_limit": 1, "api_visibility": "private"}
    wire(score.click, partial(score_chosen, context, batches), form, result, **queue)
    return form, offered
