"""The reviews tab's layout and wiring; what happens is in ``app.review_tab.handlers``."""

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from app.batch.context import Batches
from app.identity import needs_login, signed_in, typed_name
from app.player.context import Bench
from app.player.review_context import Desk
from app.review_tab import handlers
from app.review_tab.handlers import LEAVE_OUT, DeskView
from app.review_tab.import_export import ALLOW_DELETIONS, SPLITS, TABLES
from app.review_tab.request import NO_RUN, UNSPLIT, Asked
from app.review_tab.summary import COUNTED, SETTLE_HEADERS, VIDEO_HEADERS
from app.widgets import AT_ONCE, make_line
from eval.data.writers import OPTIONAL_FIELDS

REMEMBERED = """(split, run, who, blind) => {
    let kept = {};
    try { kept = {who: localStorage['stepscope:reviewer'], blind: localStorage['stepscope:blind']}; } catch {}
    return [split, run, kept.who || who || '', blind || kept.blind === 'yes'];
}"""
"""Takes name and blindness over from the player, which keeps them in the browser."""
REMEMBER = """(value) => {{
    try {{ localStorage['stepscope:{name}'] = {words}; }} catch {{}}
    document.dispatchEvent(new CustomEvent('stepscope:{name}', {{detail: {words}}}));
}}"""
"""Keeps what the player reads when it is opened, and tells the player of this window."""


def list_splits(desk: Desk) -> list[tuple[str, str]]:
    """Return the choices of splits, with the one of the videos that are in none."""
    return [*((name, name) for name in desk.splits), ("uploads: in no split", UNSPLIT)]


def make_desk_tab(
    bench: Bench,
    batches: Batches,
    desk: Desk,
    *,
    live: Any,
    player: Sequence[Any],
    ends: Mapping[str, Any],
    rooms: Any,
    here: Any,
) -> None:
    """Lay out the tab, inside ``here``, and wire it.

    Args:
        bench: The page's model and videos.
        batches: Runs and splits.
        desk: The store and what is reviewed.
        live: The window's own run, in the player.
        player: Outputs of the player, in the order of ``app.batch.saved_runs.open_video``.
        ends: For events that show another video: what they cancel.
        rooms: The ``gr.Tabs``.
        here: The ``gr.Tab`` of this tab.
    """
    with gr.Row():
        with gr.Column(scale=3, min_width=200, elem_classes="setup"):
            split = gr.Dropdown(
                list_splits(desk),
                value=next(iter(desk.splits), None),
                label="Split",
                interactive=True,
                elem_id="reviewed_split",
            )
            runs = gr.Dropdown(
                [("none: references alone", NO_RUN)],
                value=NO_RUN,
                label="Run (optional)",
                info="Counts what it wrote, and opens in the player",
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
                desk.is_blind,
                label="Blind: hide what others say",
                interactive=not desk.is_blind,
                info="This page is blind for everybody" if desk.is_blind else None,
                elem_id="blind",
            )
            refresh = gr.Button("Refresh", elem_id="refresh")
        with gr.Column(scale=11, min_width=640, elem_classes="work"):
            status = make_line("desk_status")
            progress = gr.HTML(elem_id="desk_progress", padding=False)
            with gr.Tabs():
                with gr.Tab("Progress"):
                    videos = gr.Dataframe(
                        headers=VIDEO_HEADERS,
                        datatype=["str", "number", "str", "str", "number", "number"],
                        interactive=False,
                        max_height=620,
                        wrap=True,
                        show_search="search",
                        label="A click opens the video in the player",
                        column_widths=["19%", "8%", "23%", "30%", "11%", "9%"],
                        elem_id="reviewed_videos",
                    )
                    gr.HTML(f'<p class="dim">{COUNTED}</p>', padding=False)
                with gr.Tab("Agreement"):
                    agreement = gr.HTML(elem_id="agreement", padding=False)
                    to_settle = gr.Dataframe(
                        headers=SETTLE_HEADERS,
                        datatype=["str", "number", "str", "str", "str", "str"],
                        interactive=False,
                        max_height=420,
                        wrap=True,
                        label="To settle; a click opens the player there",
                        column_widths=["14%", "8%", "15%", "14%", "23%", "26%"],
                        elem_id="to_settle",
                    )
                with gr.Tab("Export and import"), gr.Row():
                    with gr.Column():
                        content = gr.Dropdown([*TABLES, *SPLITS], label="Export", interactive=True, elem_id="content")
                        prefer = gr.Dropdown(
                            [],
                            multiselect=True,
                            label="Whose corrections count where they differ, best first",
                            info="Nobody's: there the source stands",
                            interactive=True,
                            elem_id="prefer",
                        )
                        without = gr.CheckboxGroup(
                            [(words, detail) for detail, words in OPTIONAL_FIELDS.items()],
                            label=LEAVE_OUT,
                            info="dst and proassist cannot hold the first two, proassist none of the three",
                            elem_id="without",
                        )
                        with gr.Row():
                            write = gr.Button("Write a zip file", variant="primary", min_width=100, elem_id="write")
                            download = gr.DownloadButton(
                                "Download", interactive=False, min_width=100, elem_id="download"
                            )
                        exported = make_line("exported", value="The contents of the file are listed here.")
                    with gr.Column():
                        deletions = gr.Checkbox(
                            label=ALLOW_DELETIONS,
                            info="Tick it before you choose the files; it counts for one import. Off: a file without "
                            "one of its tiers “corrected: …” is refused, since the tier may only have been renamed",
                            elem_id="allow_deletions",
                        )
                        documents = gr.File(
                            label="Import corrections: .eaf files that were exported here and edited in ELAN",
                            file_count="multiple",
                            file_types=[".eaf"],
                            height=160,
                            elem_id="documents",
                        )
                        imported = make_line("imported", value="The outcome of each file is listed here.")
    view = DeskView(
        status=status,
        progress=progress,
        runs=runs,
        reviewer=reviewer,
        videos=videos,
        agreement=agreement,
        to_settle=to_settle,
        prefer=prefer,
    )
    asked = [split, runs, reviewer, blind]

    def ask(split: Any, run: Any, typed: Any, is_blind: Any, request: Any) -> Asked:
        return Asked(split=split, run=run or None, typed=typed_name(typed), is_blind=bool(is_blind), request=request)

    def show(split: Any, run: Any, typed: Any, is_blind: Any, request: gr.Request) -> Any:
        return handlers.show(batches, desk, ask(split, run, typed, is_blind, request))

    def enter(split: Any, run: Any, typed: Any, is_blind: Any, request: gr.Request) -> Any:
        shown = show(split, run, typed, is_blind, request)
        named = shown if signed_in(request) else shown._replace(reviewer=typed_name(typed))
        return (*named, is_blind or desk.is_blind)

    def open_video(
        live: Any, split: Any, run: Any, typed: Any, is_blind: Any, event: gr.SelectData, request: gr.Request
    ) -> Any:
        return handlers.open_video(bench, batches, desk, live, ask(split, run, typed, is_blind, request), event)

    def open_event(
        live: Any, split: Any, run: Any, typed: Any, is_blind: Any, event: gr.SelectData, request: gr.Request
    ) -> Any:
        return handlers.open_event(bench, batches, desk, live, ask(split, run, typed, is_blind, request), event)

    def export(
        split: Any,
        run: Any,
        typed: Any,
        is_blind: Any,
        content: Any,
        prefer: Any,
        without: Any,
        request: gr.Request,
    ) -> Any:
        yield from handlers.export(batches, desk, ask(split, run, typed, is_blind, request), content, prefer, without)

    def take_documents(
        split: Any, run: Any, typed: Any, is_blind: Any, paths: Any, allow_deletions: Any, request: gr.Request
    ) -> Any:
        """Return what became of each file, no file and no permission: the next import begins with those given then."""
        question = ask(split, run, typed, is_blind, request)
        return handlers.take_documents(desk, question, paths, allow_deletions=bool(allow_deletions)), None, False

    here.select(enter, asked, [*view, blind], js=REMEMBERED, **AT_ONCE)
    here.select(lambda: gr.Dropdown(choices=list_splits(desk)), None, split, **AT_ONCE)
    changes = [split.select, runs.select, blind.input, reviewer.submit, reviewer.blur, refresh.click]
    gr.on(changes, show, asked, list(view), **AT_ONCE)
    keep_name = REMEMBER.format(name="reviewer", words="value.trim()")
    keep_blind = REMEMBER.format(name="blind", words="value ? 'yes' : 'no'")
    reviewer.blur(None, reviewer, None, js=keep_name, api_visibility="private")
    blind.input(None, blind, None, js=keep_blind, api_visibility="private")
    videos.select(open_video, [live, *asked], [*player, rooms], **ends)
    to_settle.select(open_event, [live, *asked], [*player, rooms], **ends)
    writing: dict[str, Any] = {**AT_ONCE, "show_progress": "minimal"}
    write.click(export, [*asked, content, prefer, without], [exported, download], **writing)
    taking = documents.upload(
        take_documents, [*asked, documents, deletions], [imported, documents, deletions], **writing
    )
    taking.then(show, asked, list(view), **AT_ONCE)
