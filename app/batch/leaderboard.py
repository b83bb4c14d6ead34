"""The tab *Leaderboard*: runs of one split in rows, scores with intervals in columns.

``eval.reports.leaderboard`` builds, sorts and formats it, also for the command line.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import gradio as gr

from stepscope.app.batch.file_rows import ENDINGS, make_table_row
from stepscope.app.controls.widgets import AT_ONCE, LATEST, SCORING, Updates, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.run import file_name
from stepscope.app.formatting import as_sentence
from stepscope.app.player.views import status_line
from stepscope.app.window.context import AppContext
from stepscope.engine.plurals import format_count
from stepscope.eval.metrics.definitions import Metric, find_metric
from stepscope.eval.protocols import PROTOCOLS
from stepscope.eval.reports.leaderboard import (
    DEFAULT_METRICS,
    MIN_TESTED_VIDEOS,
    Leaderboard,
    build_leaderboard,
    describe_row,
    direction_of,
    format_leaderboard,
    list_leaderboard_metrics,
    sort_leaderboard,
)
from stepscope.eval.reports.run_list import describe_origin
from stepscope.eval.reports.table_formats import TableFormat

MAX_FIRST_RUNS: Final = 8
HEADERS: Final = ["Run", "Origin"]
BEST: Final = "★ {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardForm:
    """The shown run, the runs of its split in the table, their scores and order, and whether with baselines."""

    shown: Any
    names: Any
    metrics: Any
    sort_by: Any
    baselines: Any


def list_runs(batches: BatchContext, name: str | None, chosen: Sequence[str], offered: str | None) -> tuple[Any, str]:
    """Return the runs of the split of the shown run, else of the newest run, and the path of the split.

    A new split begins with its newest runs.
    """
    name = name or next(iter(batches.listed_runs()), None)
    shown = batches.find_split(name)
    names = [one for one in batches.listed_runs(name) if shown is not None and batches.find_split(one) is shown]
    split = str(shown.path) if shown is not None and names else ""
    kept = [one for one in chosen or () if one in names] if split == offered else []
    first = _first_runs(batches, str(name), names) if not kept else []
    return gr.Dropdown(choices=names, value=kept or first, multiselect=True), split


def _first_runs(batches: BatchContext, name: str, names: Sequence[str]) -> list[str]:
    """Return the shown run and the newest runs that have finished as many videos of the split: at most eight."""
    wanted = max(1, len(batches.list_finished(name)))
    ordered = sorted(names, key=lambda one: one != name)  # the shown run first, then as they are
    return list(islice((one for one in ordered if len(batches.list_finished(one)) >= wanted), MAX_FIRST_RUNS))


def show_board(context: AppContext, batches: BatchContext, form: BoardForm) -> Updates:
    """Score the chosen runs with the settings of the first one, and show them, the best by a score first.

    If none is chosen, say why none of the split of the shown run is offered.
    """
    names = form.names
    try:
        if not names:
            raise ValueError(_explain_no_choice(batches, form.shown or next(iter(batches.listed_runs()), None)))
        if not form.metrics:
            raise ValueError("choose scores")
        split, scoring = batches.need_common_split(*names), batches.scoring_of(batches.settings_of(names[0]))
        runs = {name: batches.folder(name) for name in names}
        choice: Any = {"metrics": form.metrics, "baselines": form.baselines}
        board = build_leaderboard(runs, split, scoring, encode=context.encode, **choice)
    except (ValueError, OSError) as error:
        return Updates(board=None, said=status_line(as_sentence(error)), table=_table(batches, None))
    return Updates(show_order(batches, board, form.sort_by), board=board, said=status_line(_describe(board)))


def _explain_no_choice(batches: BatchContext, shown: str | None) -> str:
    """Return what to do without a chosen run. Raises ``ValueError`` if the page lacks the split of the shown run."""
    if shown not in batches.run_names():
        return "there is no run yet; start one"
    split = batches.need_split(shown)
    finished = len(batches.list_finished(shown))
    if finished == len(split.samples):
        return "choose runs of one split"
    of_videos = f"{shown} has finished {finished} of {format_count(len(split.samples), 'video')} with a reference"
    return f"{of_videos}; choose runs of its split that have finished some, or continue it"


def _describe(board: Leaderboard) -> str:
    omitted = _describe_left_out(board) if board.left_out else ""
    is_few = board.num_videos < MIN_TESTED_VIDEOS
    few = f" At least {MIN_TESTED_VIDEOS} videos are needed to separate two runs." if is_few else ""
    undefined = ", ".join(metric.label for metric in _undefined(board))
    rules = "".join(f" {note}" for note in board.notes)
    without = f" Undefined in all runs: {undefined}." if undefined else ""
    return (
        f"{format_count(board.num_videos, 'video')}, 95 % intervals; ★ where a paired test separates the best run "
        f"from every other run; {board.basis}.{omitted}{few}{without}{rules} Click a row to open the run."
    )


def _describe_left_out(board: Leaderboard) -> str:
    ((name, number),) = Counter(name for names in board.left_out.values() for name in names).most_common(1)
    videos = format_count(len(board.left_out), "video is", "videos are")
    return f" {videos} omitted: not finished in all runs. {name} lacks {number} of them."


def show_order(batches: BatchContext, board: Leaderboard | None, sort_by: str) -> Updates:
    """Return the table of a leaderboard sorted by a score, best first."""
    return Updates(table=_table(batches, board and sort_leaderboard(board, sort_by)))


def _table(batches: BatchContext, board: Leaderboard | None) -> dict[str, Any]:
    if board is None:
        return {"headers": HEADERS, "data": []}
    shown = [place for place, metric in enumerate(board.metrics) if metric not in _undefined(board)]
    heads = [f"{board.metrics[place].label} {direction_of(board.metrics[place])}".strip() for place in shown]
    rows = []
    for name in board.rows:
        cells = describe_row(board, name, BEST)
        settings = batches.settings_of(name)
        origin = describe_origin(settings) if settings else "baseline"
        origin = ", ".join(filter(None, (origin, board.remarks.get(name))))
        rows.append([name, origin, *(cells[place] for place in shown)])
    return {"headers": [*HEADERS, *heads], "data": rows}


def _undefined(board: Leaderboard) -> list[Metric]:
    """Return the scores that are undefined in all runs, which have no column."""
    columns = zip(board.metrics, zip(*board.rows.values(), strict=True), strict=True)
    return [metric for metric, cells in columns if all(math.isnan(cell.value) for cell in cells)]


def open_run(batches: BatchContext, event: gr.SelectData) -> Updates:
    """Choose the run of a clicked row as the shown run, and show its videos."""
    name = str(event.row_value[0])
    if name not in batches.run_names():
        return Updates()
    return Updates(runs=name, views=gr.Tabs(selected="Scores"))


def write_board(folder: Path, table_format: TableFormat, board: Leaderboard | None, sort_by: str) -> Path:
    """Write the leaderboard into a folder. Raises ``ValueError`` without one."""
    if board is None or table_format not in ENDINGS:
        raise ValueError("there is no leaderboard; choose runs of one split")
    path = folder / file_name(*list(board.rows)[:2], f"leaderboard.{ENDINGS[table_format]}")
    path.write_text(format_leaderboard(sort_leaderboard(board, sort_by), table_format), encoding="utf-8")
    return path


def metric_choices() -> list[tuple[str, str]]:
    """Return the scores as pairs of label and name; the main score of a protocol is labelled by its name."""
    scores = [(find_metric(name).label, name) for name in list_leaderboard_metrics()]
    return [*scores, *((f"protocol {name}", name) for name in PROTOCOLS)]


def make_leaderboard_panel(context: AppContext, batches: BatchContext, *, runs: Any, views: Any, here: Any) -> Any:
    """Lay out and wire the leaderboard; return the event after which the run of a clicked row is the shown run."""
    choices, state, offered = metric_choices(), gr.State(None), gr.State(None)
    with gr.Row():
        board_runs = gr.Dropdown(
            [], label="Runs of the split", multiselect=True, interactive=True, scale=3, elem_id="board_runs"
        )
        metrics = gr.Dropdown(
            choices,
            value=list(DEFAULT_METRICS),
            label="Scores, also of protocols, such as spot-pnr:k=1",
            multiselect=True,
            allow_custom_value=True,
            scale=4,
            elem_id="board_metrics",
        )
    with gr.Row(elem_id="board_order"):
        sort_by = gr.Dropdown(
            choices,
            value=DEFAULT_METRICS[0],
            label="Best first by",
            interactive=True,
            allow_custom_value=True,
            scale=0,
            min_width=280,
            elem_id="board_sort",
        )
        baselines = gr.Checkbox(label="Baselines", scale=0, min_width=140, elem_id="board_baselines")
        make_table_row("board", write_board, [state, sort_by])
    said = make_status_line("board_said")
    table = gr.Dataframe(
        headers=HEADERS,
        interactive=False,
        wrap=True,
        max_height=560,
        column_widths=["16%", "12%", *["11%"] * len(DEFAULT_METRICS)],
        elem_id="board",
    )
    view, offer = {"board": state, "said": said, "table": table}, (board_runs, offered)
    listed = wire(here.select, partial(list_runs, batches), [runs, board_runs, offered], offer, **AT_ONCE)
    form = BoardForm(shown=runs, names=board_runs, metrics=metrics, sort_by=sort_by, baselines=baselines)
    scoring = {**SCORING, "show_progress_on": said}
    for event in (listed.then, partial(gr.on, [board_runs.input, metrics.input, baselines.input])):
        wire(event, partial(show_board, context, batches), form, view, **scoring)
    wire(sort_by.input, partial(show_order, batches), [state, sort_by], view, **LATEST)
    return wire(table.select, partial(open_run, batches), None, {"runs": runs, "views": views}, **AT_ONCE)
