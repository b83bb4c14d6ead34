"""Wires the reviews tab; ``panels`` has its layout, ``handlers`` its handlers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gradio as gr

from stepscope.app.context import AppContext, ReviewContext
from stepscope.app.controls.widgets import AT_ONCE, LATEST, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.opening import InPlayer, OpenedHit
from stepscope.app.security.identity import typed_name
from stepscope.app.tabs.reviews import assigning, handlers
from stepscope.app.tabs.reviews.handlers import UNCHANGED, ReviewView
from stepscope.app.tabs.reviews.panels import (
    ExportPanel,
    ImportPanel,
    QueuePanel,
    SetupPanel,
    Tables,
    list_splits,
    make_agreement_panel,
    make_export_panel,
    make_import_panel,
    make_progress_table,
    make_queue_panel,
    make_setup_panel,
)
from stepscope.app.tabs.reviews.query import ReviewQuery
from stepscope.app.web.views import PlayerView

_KEPT_JS = """
    let kept = {};
    try { kept = {who: localStorage['stepscope:reviewer'], blind: localStorage['stepscope:blind']}; } catch {}
    const known = [kept.who || who || '', blind || kept.blind === 'yes'];
"""
RESTORE_JS = f"(who, blind) => {{{_KEPT_JS} return known; }}"
"""Script: show the reviewer's name and blind mode of the browser's storage, which the player shares."""
REMEMBERED_JS = f"(split, run, who, blind) => {{{_KEPT_JS} return [split, run, ...known]; }}"
"""Script: read them as inputs."""
REMEMBER = """(value) => {{
    try {{ localStorage['stepscope:{name}'] = {words}; }} catch {{}}
    document.dispatchEvent(new CustomEvent('stepscope:{name}', {{detail: {words}}}));
}}"""
"""Script: store a value in the browser, and notify the player of this window."""
WITH_PROGRESS: dict[str, Any] = {**AT_ONCE, "show_progress": "minimal"}


def make_review_tab(
    context: AppContext, batches: BatchContext, reviews: ReviewContext, in_player: InPlayer, *, here: Any
) -> None:
    """Lay out the tab, inside its ``gr.Tab`` ``here``, and wire it."""
    with gr.Row():
        setup = make_setup_panel(reviews)
        with gr.Column(scale=11, min_width=640, elem_classes="work"):
            status = make_status_line("desk_status")
            progress = gr.HTML(elem_id="desk_progress", padding=False)
            with gr.Tabs(elem_id="review_views"):
                videos = make_progress_table()
                queue = make_queue_panel()
                tables = make_agreement_panel(videos)
                with gr.Tab("Export and import"), gr.Row():
                    exporting = make_export_panel()
                    importing = make_import_panel()
    view = ReviewView(
        status=status,
        progress=progress,
        runs=setup.runs,
        reviewer=setup.reviewer,
        blind=setup.blind,
        videos=tables.videos,
        agreement=tables.agreement,
        to_settle=tables.to_settle,
        unsettled=tables.unsettled,
        prefer=exporting.prefer,
    )
    show = _wire_view(batches, reviews, setup, view, queue, refresh_on=here)
    _wire_queue(context, batches, reviews, setup, queue, in_player)
    _wire_player(context, batches, reviews, setup, tables, queue, in_player)
    _wire_export(batches, reviews, setup, exporting)
    wire(_wire_import(reviews, setup, importing).then, show, setup.inputs, view, **AT_ONCE)


def _make_query(request: Any, split: Any, run: Any, typed: Any, is_blind: Any) -> ReviewQuery:
    return ReviewQuery(split=split, run=run or None, typed=typed_name(typed), is_blind=bool(is_blind), request=request)


def _with_query(handler: Callable[..., Any], *first: Any) -> Callable[..., Any]:
    """Return a handler whose first inputs, those of ``SetupPanel``, become a ``ReviewQuery`` after ``first``."""

    def handle(request: gr.Request, split: Any, run: Any, typed: Any, is_blind: Any, *rest: Any) -> Any:
        return handler(*first, _make_query(request, split, run, typed, is_blind), *rest)

    return handle


def _wire_view(
    batches: BatchContext,
    reviews: ReviewContext,
    setup: SetupPanel,
    view: ReviewView,
    queue: QueuePanel,
    *,
    refresh_on: Any,
) -> Callable[..., Any]:
    """Update the view when the tab ``refresh_on`` is opened and on every input; return the handler."""
    show = _with_query(handlers.show, batches, reviews)
    show_queue = _with_query(assigning.show_queue, batches, reviews)

    def enter(request: gr.Request, *inputs: Any) -> Any:
        return show(request, *inputs), inputs

    def confirm(request: gr.Request, asked: Any, *inputs: Any) -> Any:
        """Show the tab again if its inputs changed while it was opened: the reply may have come after a later one."""
        return UNCHANGED if inputs == tuple(asked) else show(request, *inputs)

    known, asked = [setup.reviewer, setup.blind], gr.State(())
    refresh_on.select(None, known, known, js=RESTORE_JS, api_visibility="private")
    entered = wire(refresh_on.select, enter, setup.inputs, (view, asked), js=REMEMBERED_JS, **AT_ONCE)
    wire(entered.then, confirm, [asked, *setup.inputs], view, **AT_ONCE)
    wire(entered.then, show_queue, setup.inputs, queue.view, **LATEST)
    refresh_on.select(lambda: gr.Dropdown(choices=list_splits(reviews)), None, setup.split, **AT_ONCE)
    changes = [
        setup.split.select,
        setup.runs.select,
        setup.blind.input,
        setup.reviewer.submit,
        setup.reviewer.blur,
        setup.refresh.click,
    ]
    wire(partial(gr.on, changes), show, setup.inputs, view, **LATEST)
    wire(partial(gr.on, changes), show_queue, setup.inputs, queue.view, **LATEST)
    keep_name = REMEMBER.format(name="reviewer", words="value.trim()")
    keep_blind = REMEMBER.format(name="blind", words="value ? 'yes' : 'no'")
    setup.reviewer.blur(None, setup.reviewer, None, js=keep_name, api_visibility="private")
    setup.blind.input(None, setup.blind, None, js=keep_blind, api_visibility="private")
    return show


def _wire_player(
    context: AppContext,
    batches: BatchContext,
    reviews: ReviewContext,
    setup: SetupPanel,
    tables: Tables,
    queue: QueuePanel,
    in_player: InPlayer,
) -> None:

    def open_video(
        live: Any, split: Any, run: Any, typed: Any, is_blind: Any, event: gr.SelectData, request: gr.Request
    ) -> PlayerView:
        query = _make_query(request, split, run, typed, is_blind)
        return handlers.open_video(context, batches, reviews, live, query, event)

    def open_row(event: gr.SelectData, request: gr.Request, live: Any, unsettled: Any, *inputs: Any) -> OpenedHit:
        place = handlers.find_row(unsettled, event)
        return handlers.open_event(context, batches, reviews, live, _make_query(request, *inputs), unsettled, place)

    def step(by: int, request: gr.Request, live: Any, unsettled: Any, at: int, *inputs: Any) -> OpenedHit:
        return handlers.open_event(context, batches, reviews, live, _make_query(request, *inputs), unsettled, at + by)

    for videos in (tables.videos, queue.view.videos):
        in_player.wire(videos.select, open_video, *setup.inputs)
    opened, shown = OpenedHit(player=in_player.view, at=tables.at), [in_player.live, tables.unsettled]
    wire(tables.to_settle.select, open_row, [*shown, *setup.inputs], opened, **in_player.ends)
    with tables.here:
        in_player.make_steps("settle", step, [*shown, tables.at, *setup.inputs], opened)


def _wire_queue(
    context: AppContext,
    batches: BatchContext,
    reviews: ReviewContext,
    setup: SetupPanel,
    panel: QueuePanel,
    in_player: InPlayer,
) -> None:
    """Assign videos, and open the next one of a queue, here or after that in the player."""

    def open_next(live: Any, split: Any, run: Any, typed: Any, is_blind: Any, request: gr.Request) -> PlayerView:
        return assigning.open_next(context, batches, reviews, live, _make_query(request, split, run, typed, is_blind))

    view = panel.view
    assign = _with_query(assigning.assign, batches, reviews)
    wire(panel.assign.click, assign, [*setup.inputs, view.names, panel.overlap, view.slices], view, **AT_ONCE)
    in_player.wire(view.following.click, open_next, *setup.inputs)
    open_following = partial(assigning.open_following, context, batches, reviews)
    in_player.wire(in_player.view.run.player.next_video, open_following)


def _wire_export(batches: BatchContext, reviews: ReviewContext, setup: SetupPanel, panel: ExportPanel) -> None:
    """Write a zip file; a changed input removes the last one."""

    def export(request: gr.Request, split: Any, run: Any, typed: Any, is_blind: Any, *choices: Any) -> Any:
        query = _make_query(request, split, run, typed, is_blind)
        yield from handlers.export(batches, reviews, query, *choices)

    inputs = [*setup.inputs, panel.content, panel.prefer, panel.omit]
    wire(panel.write.click, export, inputs, panel.view, **WITH_PROGRESS)
    changes = [one.input for one in (setup.split, setup.runs, setup.blind, panel.content, panel.prefer, panel.omit)]
    wire(partial(gr.on, changes), handlers.forget_export, None, panel.view, **AT_ONCE)


def _wire_import(reviews: ReviewContext, setup: SetupPanel, panel: ImportPanel) -> Any:
    """Import files as soon as they are chosen; return the event."""

    def import_documents(query: ReviewQuery, paths: Any, allow_deletions: Any) -> Any:
        status = handlers.import_documents(reviews, query, paths, allow_deletions=bool(allow_deletions))
        return {panel.imported: status, panel.documents: None, panel.deletions: False}  # one tick is for one import

    inputs = [*setup.inputs, panel.documents, panel.deletions]
    return panel.documents.upload(_with_query(import_documents), inputs, list(panel), **WITH_PROGRESS)
