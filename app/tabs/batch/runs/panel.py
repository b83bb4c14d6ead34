"""Layout and wiring of the shown run: its choice, downloads and table of videos."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.controls.downloads import SAVE_JS, make_download
from stepscope.app.controls.widgets import AT_ONCE
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.results import HEADERS, ORDERS
from stepscope.app.tabs.batch.publishing.panel import make_publish_button
from stepscope.app.tabs.batch.runs.downloads import TABLES, download


class RunPanel(NamedTuple):
    """The shown run: its choice, its downloads and its buttons."""

    runs: Any
    order: Any
    downloads: Mapping[str, Any]
    """By file name with ``_`` for ``.``, as in ``BatchView``."""
    origin: Any
    use: Any
    score: Any
    """Button that scores a recorded run."""
    cancel: Any
    publish: tuple[Any, Any]
    """The buttons that open the panel *Publish*, for the run and for the story."""


def make_run_panel() -> RunPanel:
    """Lay out the choice of the shown run, its downloads and its buttons."""
    with gr.Row():
        runs = gr.Dropdown([], label="Run shown", interactive=True, scale=3, elem_id="batch_runs")
        order = gr.Dropdown(list(ORDERS), value="as in the split", label="Videos", scale=2, elem_id="order")
        with gr.Row(elem_id="downloads", scale=3):
            downloads = {
                table.replace(".", "_"): gr.Button(
                    table, size="sm", min_width=90, interactive=False, elem_id=f"get_{table.replace('.', '_')}"
                )
                for table in TABLES
            }
    with gr.Row(elem_id="shown"):
        origin = gr.HTML(elem_id="origin", padding=False, scale=1)
        use = gr.Button(
            "Use these settings", size="sm", scale=0, min_width=140, interactive=False, elem_id="use_settings"
        )
        publish = make_publish_button()
        score = gr.Button("Score", size="sm", scale=0, min_width=90, interactive=False, elem_id="score")
        cancel = gr.Button(
            "Cancel", variant="stop", size="sm", scale=0, min_width=90, interactive=False, elem_id="cancel"
        )
    return RunPanel(
        runs=runs,
        order=order,
        downloads=downloads,
        origin=origin,
        use=use,
        score=score,
        cancel=cancel,
        publish=publish,
    )


def make_video_table() -> tuple[Any, Any, Any]:
    """Lay out the table of videos, and the buttons by which the player goes to the previous and next one."""
    table = gr.Dataframe(
        headers=HEADERS,
        datatype=["str", *["number"] * (len(HEADERS) - 2), "str"],
        interactive=False,
        max_height=900,
        show_search="search",
        elem_id="videos",
        label="Click a row to open the video at its worst moment",
        column_widths=["18%", *["9.7%"] * (len(HEADERS) - 2), "14%"],
        wrap=True,
    )
    previous = gr.Button("Previous video", elem_id="videos_previous", visible="hidden")
    following = gr.Button("Next video", elem_id="videos_next", visible="hidden")
    return table, previous, following


def wire_downloads(batches: BatchContext, run: RunPanel) -> None:
    """Write a file when its button is pressed, and save it in the browser."""
    file = make_download()
    for table in TABLES:

        def write(name: Any, table: str = table) -> Any:
            yield from download(batches, name, table)

        written = run.downloads[table.replace(".", "_")].click(write, run.runs, file, **AT_ONCE)
        written.then(None, file, None, js=SAVE_JS, api_visibility="private")
