"""The panels of the reviews tab: their layout, and their events."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.controls.widgets import AT_ONCE, REVIEW_QUEUE, make_status_line, make_tab, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.player.commands import InPlayer, Step
from stepscope.app.player.views import PlayerView
from stepscope.app.reviews import assigning, handlers
from stepscope.app.reviews.assigning import ALL_VIDEOS, QUEUE_HEADERS, WORKLOAD_HEADERS, WORKLOAD_HELP, QueueView
from stepscope.app.reviews.handlers import NO_RUN_CHOICE, NOT_EXPORTED, OMIT_LABEL, list_splits
from stepscope.app.reviews.query import (
    ALLOW_DELETIONS,
    NO_RUN,
    REVIEW_EXPORTS,
    SPLIT_EXPORTS,
    ReviewQuery,
)
from stepscope.app.reviews.summary import COLUMN_HELP, SETTLE_HEADERS, VIDEO_HEADERS
from stepscope.app.server.identity import needs_login, typed_name
from stepscope.app.templates import render_note
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.eval.data.writers import OPTIONAL_FIELDS

WITH_PROGRESS: dict[str, Any] = {**AT_ONCE, "show_progress": "minimal"}


class SetupPanel(NamedTuple):
    """The inputs that select the split, the run and the reviewer."""

    split: Any
    runs: Any
    reviewer: Any
    blind: Any
    refresh: Any

    @property
    def inputs(self) -> list[Any]:
        """The inputs of every handler, in the order of ``make_query``."""
        return [self.split, self.runs, self.reviewer, self.blind]


def make_query(request: Any, split: Any, run: Any, typed: Any, is_blind: Any) -> ReviewQuery:
    """Return the values of ``SetupPanel.inputs`` as a query."""
    return ReviewQuery(split=split, run=run or None, typed=typed_name(typed), is_blind=bool(is_blind), request=request)


def with_query(handler: Callable[..., Any], *first: Any) -> Callable[..., Any]:
    """Return a handler whose first inputs, those of ``SetupPanel``, become a ``ReviewQuery`` after ``first``."""

    def handle(request: gr.Request, *inputs: Any) -> Any:
        return handler(*first, make_query(request, *inputs[:4]), *inputs[4:])

    return handle


def make_setup_panel(reviews: ReviewContext) -> SetupPanel:
    """Lay out the inputs that select the split, the run and the reviewer."""
    with gr.Column(scale=3, min_width=200, elem_classes="setup"):
        split = gr.Dropdown(
            list_splits(reviews),
            value=list_splits(reviews)[0][1],
            label="Split",
            interactive=True,
            elem_id="reviewed_split",
        )
        runs = gr.Dropdown(
            [NO_RUN_CHOICE],
            value=NO_RUN,
            label="Run (optional)",
            info="Its texts count as events, and it opens in the player",
            interactive=True,
            elem_id="reviewed_run",
        )
        reviewer = gr.Textbox(
            label="Reviewer",
            placeholder="your name",
            interactive=not needs_login(),
            max_lines=1,
            elem_id="reviewer",
        )
        if needs_login():
            gr.LoginButton()
        blind = gr.Checkbox(
            reviews.is_blind,
            label="Blind mode: hide other reviewers",
            interactive=not reviews.is_blind,
            info="Blind mode is on for everyone on this page" if reviews.is_blind else None,
            elem_id="blind",
        )
        refresh = gr.Button("Refresh", elem_id="refresh")
    return SetupPanel(split=split, runs=runs, reviewer=reviewer, blind=blind, refresh=refresh)


def make_progress_table() -> Any:
    """Lay out the tab *Progress*; return its table of videos."""
    with make_tab("Progress"):
        videos = gr.Dataframe(
            headers=VIDEO_HEADERS,
            datatype=["str", "number", "str", "str", "number", "number"],
            interactive=False,
            max_height=900,
            wrap=True,
            show_search="search",
            label="Click a row to open the video in the player",
            column_widths=["19%", "8%", "23%", "30%", "11%", "9%"],
            elem_id="reviewed_videos",
        )
        gr.HTML(render_note(COLUMN_HELP), padding=False)
    return videos


def make_agreement_panel(
    context: AppContext, batches: BatchContext, reviews: ReviewContext, setup: SetupPanel, in_player: InPlayer
) -> tuple[Any, Any, Any]:
    """Lay out and wire the tab *Agreement*; return its tables, and the state of what the second one lists."""

    def open_row(event: gr.SelectData, request: gr.Request, live: Any, unsettled: Any, *inputs: Any) -> PlayerView:
        place = handlers.find_row(unsettled, event)
        return handlers.open_event(context, batches, reviews, live, make_query(request, *inputs), unsettled, place)

    def go_on(step: Step, request: gr.Request, live: Any, listed: Any, at: int, *inputs: Any) -> PlayerView:
        query = make_query(request, *inputs)
        return handlers.open_event(context, batches, reviews, live, query, listed, at + step.by)

    with make_tab("Agreement"):
        unsettled, listed, at = gr.State(()), gr.State(()), gr.State(0)  # between tabs, Gradio would number these too
        opened = {**vars(in_player.view), "at": at, "listed": listed}
        agreement = gr.HTML(elem_id="agreement", padding=False)
        to_settle = gr.Dataframe(
            headers=SETTLE_HEADERS,
            datatype=["str", "number", "str", "str", "str", "str"],
            interactive=False,
            max_height=420,
            wrap=True,
            label="Events to settle: click a row to open it in the player; after a final verdict the next one opens",
            column_widths=["14%", "8%", "15%", "14%", "23%", "26%"],
            elem_id="to_settle",
        )
        wire(to_settle.select, open_row, [in_player.live, unsettled, *setup.inputs], opened, **in_player.ends)
        listing = [in_player.live, listed, at, *setup.inputs]
        in_player.answer("step_settle", go_on, listing, opened, **in_player.steps)
    return agreement, to_settle, unsettled


def make_queue_panel(
    context: AppContext, batches: BatchContext, reviews: ReviewContext, setup: SetupPanel, in_player: InPlayer
) -> QueueView:
    """Lay out and wire the tabs *Queue* and *Assign*.

    They assign videos, and open the next one of a queue, here or after that in the player.
    """

    def open_next(request: gr.Request, live: Any, *inputs: Any) -> PlayerView:
        return assigning.open_next(context, batches, reviews, live, make_query(request, *inputs))

    with make_tab("Queue"):
        with gr.Row():
            said = make_status_line("queue_said")
            following = gr.Button(
                "Open the next video",
                variant="primary",
                scale=0,
                min_width=180,
                interactive=False,
                elem_id="queue_next",
            )
        videos = gr.Dataframe(
            headers=QUEUE_HEADERS,
            datatype=["str", "str", "number", "str"],
            interactive=False,
            max_height=700,
            wrap=True,
            label="Click a row to open the video; “done, next” in the player marks it",
            column_widths=["40%", "10%", "15%", "35%"],
            elem_id="queue",
        )
    with make_tab("Assign"):
        with gr.Row():
            names = gr.Dropdown(
                [],
                multiselect=True,
                allow_custom_value=True,
                label="Reviewers",
                info="Type a name and press Enter",
                scale=4,
                elem_id="assignees",
            )
            overlap = gr.Number(
                20,
                minimum=0,
                maximum=100,
                label="Overlap in %",
                info="Videos for two reviewers",
                scale=1,
                min_width=130,
                elem_id="overlap",
            )
            part = gr.Dropdown(
                [ALL_VIDEOS],
                value=ALL_VIDEOS,
                label="Videos",
                info="All, or a slice",
                scale=2,
                elem_id="assigned_slice",
            )
            start = gr.Button("Assign", variant="primary", scale=0, min_width=110, elem_id="assign")
        shared = make_status_line("assign_said")
        workloads = gr.Dataframe(
            headers=WORKLOAD_HEADERS,
            datatype=["str", "number", "number", "number", "number", "str", "str"],
            interactive=False,
            max_height=500,
            wrap=True,
            column_widths=["28%", "12%", "12%", "12%", "14%", "11%", "11%"],
            elem_id="workloads",
        )
        gr.HTML(render_note(WORKLOAD_HELP), padding=False)
    view = QueueView(
        said=said, videos=videos, following=following, names=names, slices=part, shared=shared, workloads=workloads
    )
    assign = with_query(assigning.assign, batches, reviews)
    wire(start.click, assign, [*setup.inputs, names, overlap, part], view, **REVIEW_QUEUE)
    in_player.wire(following.click, open_next, *setup.inputs)
    open_following = partial(assigning.open_following, context, batches, reviews)
    in_player.answer("next_video", open_following, in_player.live, in_player.view, **in_player.ends)
    return view


def make_export_panel(batches: BatchContext, reviews: ReviewContext, setup: SetupPanel) -> Any:
    """Lay out and wire the export: it writes a zip file, and a changed input removes the last one.

    Returns the dropdown of the reviewers to prefer.
    """

    def export(request: gr.Request, *inputs: Any) -> Any:
        yield from handlers.export(batches, reviews, make_query(request, *inputs[:4]), *inputs[4:])

    with gr.Column():
        content = gr.Dropdown([*REVIEW_EXPORTS, *SPLIT_EXPORTS], label="Export", interactive=True, elem_id="content")
        prefer = gr.Dropdown(
            [],
            multiselect=True,
            label="Reviewers whose corrections win conflicts, best first",
            info="If empty, conflicting corrections are not applied",
            interactive=True,
            elem_id="prefer",
        )
        omit = gr.CheckboxGroup(
            [(words, detail) for detail, words in OPTIONAL_FIELDS.items()],
            label=OMIT_LABEL,
            info="dst cannot hold the first three, proassist the first four, proactive-videoqa the 2nd, 4th and 5th",
            elem_id="without",
        )
        with gr.Row():
            write = gr.Button("Write a zip file", variant="primary", min_width=100, elem_id="write")
            download = gr.DownloadButton("Download", interactive=False, min_width=100, elem_id="download")
        view = (make_status_line("exported", value=NOT_EXPORTED), download)
    choices = [content, prefer, omit]
    wire(write.click, export, [*setup.inputs, *choices], view, **WITH_PROGRESS)
    changes = [one.input for one in (setup.split, setup.runs, setup.blind, *choices)]
    wire(partial(gr.on, changes), handlers.forget_export, None, view, **AT_ONCE)
    return prefer


def make_import_panel(reviews: ReviewContext, setup: SetupPanel) -> Any:
    """Lay out the import, which begins as soon as files are chosen; return its event."""

    def import_documents(query: ReviewQuery, paths: Any, allow_deletions: Any) -> Any:
        status = handlers.import_documents(reviews, query, paths, allow_deletions=bool(allow_deletions))
        return {imported: status, documents: None, deletions: False}  # one tick is for one import

    with gr.Column():
        deletions = gr.Checkbox(
            label=ALLOW_DELETIONS,
            info="Tick this before you choose the files; it applies to one import. If off, a file without one of its "
            "tiers “corrected: …” is refused, since the tier may only have been renamed",
            elem_id="allow_deletions",
        )
        documents = gr.File(
            label="Import corrections: .eaf files edited in ELAN",
            file_count="multiple",
            file_types=[".eaf"],
            height=160,
            elem_id="documents",
        )
        imported = make_status_line("imported", value="The outcome of each file is listed here.")
    inputs, outputs = [*setup.inputs, documents, deletions], [documents, deletions, imported]
    return documents.upload(with_query(import_documents), inputs, outputs, **WITH_PROGRESS)
