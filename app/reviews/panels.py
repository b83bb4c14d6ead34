"""The panels of the reviews tab: their layout, and their events."""

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Any

import gradio as gr

from stepscope.app.controls.widgets import AT_ONCE, REVIEW_QUEUE, Updates, make_status_line, make_tab, save_after, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.player.commands import InPlayer, Step
from stepscope.app.player.views import status_line
from stepscope.app.reviews import assigning, handlers
from stepscope.app.reviews.assigning import ALL_VIDEOS, QUEUE_HEADERS, WORKLOAD_HEADERS, WORKLOAD_HELP
from stepscope.app.reviews.handlers import NO_RUN_CHOICE, NOT_EXPORTED, OMIT_LABEL, list_splits
from stepscope.app.reviews.query import ALLOW_DELETIONS, NO_RUN, REVIEW_EXPORTS, SPLIT_EXPORTS, ReviewQuery
from stepscope.app.reviews.summary import COLUMN_HELP, SETTLE_HEADERS, VIDEO_HEADERS
from stepscope.app.server.identity import needs_login
from stepscope.app.templates import render_note
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.eval.data.writers import OPTIONAL_FIELDS

WITH_PROGRESS: dict[str, Any] = {**AT_ONCE, "show_progress": "minimal"}


def with_query(handler: Callable[..., Any], *first: Any) -> Callable[..., Any]:
    """Return a handler without its ``first`` arguments, whose ``ReviewQuery`` gets the request of its event."""
    bound = partial(handler, *first)

    def handle(request: gr.Request, *inputs: Any) -> Any:
        return bound(*(replace(one, request=request) if isinstance(one, ReviewQuery) else one for one in inputs))

    # ``wire`` finds event data by their annotation
    asked = Parameter("request", Parameter.POSITIONAL_OR_KEYWORD, annotation=gr.Request)
    handle.__signature__ = Signature([asked, *signature(bound).parameters.values()])  # type: ignore[attr-defined]
    return handle


def make_setup_panel(reviews: ReviewContext) -> tuple[ReviewQuery, Any]:
    """Lay out the inputs that select the split, the run and the reviewer; return them, and the button *Refresh*."""
    with gr.Column(scale=3, min_width=200, elem_classes="setup"):
        split = gr.Dropdown(
            list_splits(reviews),
            value=list_splits(reviews)[0][1],
            label="Split",
            interactive=True,
            elem_id="reviewed_split",
        )
        run = gr.Dropdown(
            [NO_RUN_CHOICE],
            value=NO_RUN,
            label="Run (optional)",
            info="Its texts count as events, and it opens in the player",
            interactive=True,
            elem_id="reviewed_run",
        )
        typed = gr.Textbox(
            label="Reviewer", placeholder="your name", interactive=not needs_login(), max_lines=1, elem_id="reviewer"
        )
        if needs_login():
            gr.LoginButton()
        is_blind = gr.Checkbox(
            reviews.is_blind,
            label="Blind mode: hide other reviewers",
            interactive=not reviews.is_blind,
            info="Blind mode is on for everyone on this page" if reviews.is_blind else None,
            elem_id="blind",
        )
        refresh = gr.Button("Refresh", elem_id="refresh")
    return ReviewQuery(split=split, run=run, typed=typed, is_blind=is_blind), refresh


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
    context: AppContext, batches: BatchContext, reviews: ReviewContext, query: ReviewQuery, in_player: InPlayer
) -> tuple[Any, Any, Any]:
    """Lay out and wire the tab *Agreement*; return its tables, and the state of what the second one lists."""
    open_event = with_query(handlers.open_event, context, batches, reviews)

    def open_row(request: gr.Request, query: Any, unsettled: Any, event: gr.SelectData) -> Any:
        return open_event(request, query, unsettled, handlers.find_row(unsettled, event))

    def go_on(request: gr.Request, step: Step, query: Any, listed: Any, at: int) -> Any:
        return open_event(request, query, listed, at + step.by)

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
        wire(to_settle.select, open_row, [query, unsettled], opened, **in_player.ends)
        in_player.answer("step_settle", go_on, [query, listed, at], opened, **in_player.steps)
    return agreement, to_settle, unsettled


def make_queue_panel(
    context: AppContext, batches: BatchContext, reviews: ReviewContext, query: ReviewQuery, in_player: InPlayer
) -> dict[str, Any]:
    """Lay out and wire the tabs *Queue* and *Assign*.

    They assign videos, and open the next one of a queue, here or after that in the player.
    """
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
    view = {"said": said, "videos": videos, "following": following, "names": names, "slices": part}
    view |= {"shared": shared, "workloads": workloads}
    assign = with_query(assigning.assign, batches, reviews)
    wire(start.click, assign, [query, names, overlap, part], view, **REVIEW_QUEUE)
    in_player.wire(following.click, with_query(assigning.open_next, context, batches, reviews), query)
    open_following = partial(assigning.open_following, context, batches, reviews)
    in_player.answer("next_video", open_following, None, in_player.view, **in_player.ends)
    return view


def make_export_panel(batches: BatchContext, reviews: ReviewContext, query: ReviewQuery) -> Any:
    """Lay out and wire the export: it saves a zip file in the browser, and says what the file has.

    Returns the dropdown of the reviewers to prefer.
    """
    export = with_query(handlers.export, batches, reviews)

    def write_zip(request: gr.Request, query: ReviewQuery, *choices: Any) -> Generator[Updates]:
        yield from export(request, query, *choices)  # ``wire`` has to see a generator function

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
        download = gr.Button("Download a zip file", variant="primary", min_width=100, elem_id="download")
        said, file = make_status_line("exported", value=NOT_EXPORTED), gr.DownloadButton(visible="hidden")
    choices = [content, prefer, omit]
    save_after(wire(download.click, write_zip, [query, *choices], {"said": said, "file": file}, **WITH_PROGRESS), file)
    changes = [one.input for one in (query.split, query.run, query.is_blind, *choices)]
    gr.on(changes, lambda: status_line(NOT_EXPORTED), None, said, **AT_ONCE)  # it was of other inputs
    return prefer


def make_import_panel(reviews: ReviewContext, query: ReviewQuery) -> Any:
    """Lay out the import, which begins as soon as files are chosen; return its event."""

    def import_documents(query: ReviewQuery, paths: Any, allow_deletions: bool) -> Updates:
        status = handlers.import_documents(reviews, query, paths, allow_deletions=allow_deletions)
        return Updates(said=status, documents=None, deletions=False)  # one tick is for one import

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
    inputs, view = [query, documents, deletions], {"said": imported, "documents": documents, "deletions": deletions}
    return wire(documents.upload, with_query(import_documents), inputs, view, **WITH_PROGRESS)
