"""Layout of the panels of the reviews tab. ``app.tabs.reviews.tab`` wires them."""

from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.context import ReviewContext
from stepscope.app.controls.widgets import make_status_line
from stepscope.app.security.identity import needs_login
from stepscope.app.tabs.reviews.assigning import ALL_VIDEOS, QUEUE_HEADERS, WORKLOAD_HEADERS, WORKLOAD_HELP, QueueView
from stepscope.app.tabs.reviews.handlers import NO_RUN_CHOICE, NOT_EXPORTED, OMIT_LABEL, ExportView
from stepscope.app.tabs.reviews.query import ALLOW_DELETIONS, NO_RUN, REVIEW_EXPORTS, SPLIT_EXPORTS, UNSPLIT
from stepscope.app.tabs.reviews.summary import COLUMN_HELP, SETTLE_HEADERS, VIDEO_HEADERS
from stepscope.app.templates import render_note
from stepscope.eval.data.writers import OPTIONAL_FIELDS


class SetupPanel(NamedTuple):
    """The inputs that select the split, the run and the reviewer."""

    split: Any
    runs: Any
    reviewer: Any
    blind: Any
    refresh: Any

    @property
    def inputs(self) -> list[Any]:
        """The inputs of every handler, in the order of ``app.tabs.reviews.tab``."""
        return [self.split, self.runs, self.reviewer, self.blind]


class Tables(NamedTuple):
    """The tabs *Progress* and *Agreement*."""

    videos: Any
    agreement: Any
    to_settle: Any
    unsettled: Any
    """State: what the table lists."""
    at: Any
    """State: the place of the event that the player shows."""
    here: Any
    """The tab *Agreement*."""


class QueuePanel(NamedTuple):
    """The inputs of the tabs *Queue* and *Assign*, and their outputs."""

    overlap: Any
    assign: Any
    view: QueueView


class ExportPanel(NamedTuple):
    """The inputs and outputs of an export."""

    content: Any
    prefer: Any
    omit: Any
    write: Any
    view: ExportView


class ImportPanel(NamedTuple):
    """The inputs of an import from ELAN, and the status line of its outcome."""

    deletions: Any
    documents: Any
    imported: Any


def list_splits(reviews: ReviewContext) -> list[tuple[str, str]]:
    """Return the choices of splits; the last one is for uploads, which are in no split."""
    return [*((name, name) for name in reviews.splits), ("uploads: in no split", UNSPLIT)]


def make_setup_panel(reviews: ReviewContext) -> SetupPanel:
    """Lay out the inputs that select the split, the run and the reviewer."""
    with gr.Column(scale=3, min_width=200, elem_classes="setup"):
        split = gr.Dropdown(
            list_splits(reviews),
            value=next(iter(reviews.splits), None),
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
    with gr.Tab("Progress"):
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


def make_agreement_panel(videos: Any) -> Tables:
    """Lay out the tab *Agreement*; return the tables of both tabs."""
    with gr.Tab("Agreement") as here:
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
    unsettled, at = gr.State(()), gr.State(0)
    return Tables(videos=videos, agreement=agreement, to_settle=to_settle, unsettled=unsettled, at=at, here=here)


def make_queue_panel() -> QueuePanel:
    """Lay out the tabs *Queue* and *Assign*."""
    with gr.Tab("Queue"):
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
    with gr.Tab("Assign"):
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
            assign = gr.Button("Assign", variant="primary", scale=0, min_width=110, elem_id="assign")
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
    return QueuePanel(overlap=overlap, assign=assign, view=view)


def make_export_panel() -> ExportPanel:
    """Lay out the export."""
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
        view = ExportView(status=make_status_line("exported", value=NOT_EXPORTED), download=download)
    return ExportPanel(content=content, prefer=prefer, omit=omit, write=write, view=view)


def make_import_panel() -> ImportPanel:
    """Lay out the import."""
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
    return ImportPanel(deletions=deletions, documents=documents, imported=imported)
