"""Layout and wiring of *Publish*. The handlers are in ``app.tabs.batch.publishing.handlers``."""

from functools import partial
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.downloads import SAVE_JS, make_download
from stepscope.app.controls.widgets import AT_ONCE, LATEST, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.tabs.batch.publishing import handlers as publishing
from stepscope.app.tabs.batch.publishing.handlers import PublishInputs, PublishView
from stepscope.app.tabs.batch.selection.panel import SelectionPanel

_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "publish", "concurrency_limit": 1, "api_visibility": "private"}
_ADD_STORY_JS: Final = "(...inputs) => [...inputs.slice(0, -1), localStorage.getItem('stepscope:story') ?? '']"
"""Replaces the last input by the story of the browser."""


class PublishPanel(NamedTuple):
    """The panel; ``open_story`` opens it with the story, from the player."""

    open: Any
    open_story: Any
    is_open: Any
    box: Any
    what: Any
    has_videos: Any
    target: Any
    folder: Any
    title: Any
    size: Any
    view: PublishView


def make_publish_button() -> tuple[Any, Any]:
    """Lay out the buttons that open the panel, in the row of the shown run."""
    return (
        gr.Button("Publish", size="sm", scale=0, min_width=90, elem_id="publish_open"),
        gr.Button("Publish the story", size="sm", scale=0, visible="hidden", elem_id="publish_story"),
    )


def make_publish_panel(batches: BatchContext, buttons: tuple[Any, Any]) -> PublishPanel:
    """Lay out the panel, closed, below the shown run."""
    targets = [publishing.AS_ZIP, *([publishing.AS_FOLDER] if batches.takes_paths else []), publishing.AS_MARKDOWN]
    with gr.Column(visible=False, elem_id="publish") as box:
        with gr.Row():
            what = gr.Dropdown(
                [publishing.ALL, publishing.SHOWN, publishing.STORY],
                value=publishing.ALL,
                label="Publish",
                elem_id="publish_what",
            )
            target = gr.Dropdown(targets, value=publishing.AS_ZIP, label="As", elem_id="publish_as")
            title = gr.Textbox(label="Title", placeholder="of the story, or of the run", max_lines=1, max_length=120)
            folder = gr.Textbox(label="Folder to write", max_lines=1, visible=False, elem_id="publish_folder")
            has_videos = gr.Checkbox(value=True, label="with the videos", elem_id="publish_videos")
        with gr.Row():
            size = gr.HTML(elem_id="publish_size", padding=False)
            publish = gr.Button(
                "Publish", variant="primary", size="sm", scale=0, min_width=110, elem_id="publish_start"
            )
            cancel = gr.Button(
                "Cancel", variant="stop", size="sm", scale=0, min_width=90, interactive=False, elem_id="publish_cancel"
            )
        said = gr.HTML(elem_id="publish_said", padding=False)
    return PublishPanel(
        *buttons,
        is_open=gr.State(False),
        box=box,
        what=what,
        has_videos=has_videos,
        target=target,
        folder=folder,
        title=title,
        size=size,
        view=PublishView(publish=publish, cancel=cancel, said=said, file=make_download()),
    )


def wire_publish_panel(
    context: AppContext, batches: BatchContext, panel: PublishPanel, *, runs: Any, selection: SelectionPanel
) -> None:
    """Publish the shown run, its selected videos, or the story of the browser."""
    view, live = panel.view, gr.State(None)
    inputs = PublishInputs(
        run=runs,
        only=selection.only,
        part=selection.part,
        what=panel.what,
        has_videos=panel.has_videos,
        target=panel.target,
        folder=panel.folder,
        title=panel.title,
        story=gr.Textbox(visible="hidden"),
    )
    opened = [
        panel.open.click(publishing.toggle_panel, panel.is_open, [panel.is_open, panel.box], **AT_ONCE),
        panel.open_story.click(publishing.open_for_story, None, [panel.is_open, panel.box, panel.what], **AT_ONCE),
    ]
    describe = partial(publishing.describe_plan, context, batches)
    changes = [choice.input for choice in (panel.what, panel.target, panel.folder, panel.has_videos)]
    changes += [runs.change, selection.only.change, selection.part.change]
    for event in (*(event.then for event in opened), partial(gr.on, changes)):
        event(describe, list(inputs), panel.size, js=_ADD_STORY_JS, **LATEST)
    panel.target.change(
        lambda target: gr.Textbox(visible=target == publishing.AS_FOLDER), panel.target, panel.folder, **AT_ONCE
    )

    def publish(live: Any, *values: Any) -> Any:
        yield from publishing.publish(context, batches, live, *values)

    begun = wire(view.publish.click, publishing.begin, None, (live, view), **AT_ONCE)
    running = wire(begun.then, publish, [live, *inputs], view, js=_ADD_STORY_JS, show_progress="hidden", **_QUEUE)
    running.then(None, view.file, None, js=SAVE_JS, api_visibility="private")
    wire(view.cancel.click, publishing.halt, live, view, **AT_ONCE)
