"""The batch tab's layout and wiring; what happens is in ``app.batch.handlers``."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import gradio as gr

from app.batch import add_split as adding
from app.batch import compare as comparing
from app.batch import handlers
from app.batch import saved_runs as saved
from app.batch.charts import DIFFERENCE_COLOURS, HEAD_COLOURS, PLOT
from app.batch.compare import TURN_HEADERS, VIDEO_HEADERS, WRONG_IN, CompareView
from app.batch.context import BatchContext
from app.batch.downloads import TABLES, download
from app.batch.form import DEVICES, use_settings
from app.batch.handlers import BatchView, ShownRun
from app.batch.results import HEADERS, ORDERS
from app.batch.selection.panel import make_selection_panel, wire_selection_panel, with_filter
from app.batch.sweeps import handlers as sweeping
from app.batch.sweeps.panel import make_sweep_panel
from app.player.context import Bench
from app.player.downloads import SAVE, make_download
from app.widgets import AT_ONCE, MOVE, THRESHOLD, make_line
from eval.metrics.definitions import NUM_FAILURES

EVERY_S: Final = 1.0
"""How often a window asks how far its run is, while the tab is open."""


def make_batch_tab(
    bench: Bench,
    batches: BatchContext,
    *,
    live: Any,
    player: Sequence[Any],
    ends: Mapping[str, Any],
    rooms: Any,
    here: Any,
    elsewhere: Sequence[Any],
) -> None:
    """Lay out the tab, inside ``here``, and wire it.

    Args:
        bench: The page's model and videos.
        batches: Runs, splits and jobs.
        live: The window's own run, in the player.
        player: Outputs of the player, in the order of ``saved.open_video``.
        ends: For events that show another video: what they cancel.
        rooms: The ``gr.Tabs``.
        here: The ``gr.Tab`` of this tab.
        elsewhere: The other ``gr.Tab`` components.
    """
    shown = gr.State(ShownRun())
    with gr.Row():
        with gr.Column(scale=3, min_width=200, elem_classes="setup"):
            gr.Markdown("### New run", elem_id="new_run")
            split = gr.Dropdown(list(batches.splits), label="Split", interactive=True, elem_id="split")
            with gr.Accordion("Another split", open=False, elem_id="another_split"):
                path = gr.Textbox(
                    label="Its path on this machine, then Enter",
                    placeholder="/data/val.json",
                    max_lines=1,
                    visible=batches.takes_paths,
                    elem_id="split_path",
                )
                split_file = gr.File(label="or upload: manifest, DST, ProAssist", height=130, elem_id="split_file")
            checkpoint = gr.Textbox(
                batches.work.checkpoint,
                label="Checkpoint, folder or hub id" if batches.takes_paths else "Checkpoint",
                interactive=batches.takes_paths,
                elem_id="batch_checkpoint",
            )
            speak = gr.Slider(label="Speak threshold", elem_id="batch_speak", **THRESHOLD)
            update = gr.Slider(label="Update threshold", elem_id="batch_update", **THRESHOLD)
            devices = gr.Dropdown(
                DEVICES,
                value="auto",
                allow_custom_value=batches.takes_paths,
                label="Devices",
                info="cpu:2 is two processes; cuda takes every GPU",
                elem_id="devices",
            )
            taught = gr.Checkbox(
                label="Teacher-forced pass",
                info="a second pass, which gives VideoLLM-online's scores",
                elem_id="batch_live",
            )
            name = gr.Textbox(
                label="Name (optional)", placeholder="the time, or the same run again", elem_id="run_name"
            )
            start = gr.Button("Start", variant="primary", min_width=80, elem_id="start")
        with gr.Column(scale=11, min_width=640, elem_classes="work"):
            status = make_line("batch_status")
            progress = gr.HTML(elem_id="batch_progress", padding=False)
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
                cancel = gr.Button(
                    "Cancel", variant="stop", size="sm", scale=0, min_width=90, interactive=False, elem_id="cancel"
                )
            with gr.Tabs():
                with gr.Tab("Videos"):
                    panel = make_selection_panel()
                    videos = gr.Dataframe(
                        headers=HEADERS,
                        datatype=["str", *["number"] * (len(HEADERS) - 2), "str"],
                        interactive=False,
                        max_height=560,
                        show_search="search",
                        elem_id="videos",
                        label="A click opens the video at its worst moment",
                        column_widths=["18%", *["9.7%"] * (len(HEADERS) - 2), "14%"],
                        wrap=True,
                    )
                    slice_scores = gr.HTML(elem_id="slice_scores", padding=False)
                with gr.Tab("Scores"):
                    corpus = gr.HTML(elem_id="corpus", padding=False)
                with gr.Tab("Charts"), gr.Row():
                    curves = gr.LinePlot(
                        x="recall", y="precision", color="head", color_map=HEAD_COLOURS, x_lim=[0, 1],
                        y_lim=[0, 1], title="Precision and recall over frames", tooltip="all", **PLOT,
                    )  # fmt: skip
                    reliability = gr.LinePlot(
                        x="probability", y="share", color="head", color_map=HEAD_COLOURS, x_lim=[0, 1],
                        y_lim=[0, 1], title="Reliability: expected share by probability", tooltip="all", **PLOT,
                    )  # fmt: skip
                    leads = gr.BarPlot(
                        x="seconds", y="events", color="head", color_map=HEAD_COLOURS, sort=None,
                        title="Early (-) and late (+) decisions, in seconds", **PLOT,
                    )  # fmt: skip
                    failures = gr.BarPlot(
                        x="kind", y="failures", title="Failures", x_label_angle=-30, sort=None, **PLOT
                    )
                    states = gr.BarPlot(
                        x="step", y="share", color="state", color_map=DIFFERENCE_COLOURS, sort=None,
                        title="Step states that differ, share of frames", **PLOT,
                    )  # fmt: skip
                    latency = gr.LinePlot(
                        x="milliseconds", y="share", y_lim=[0, 1], title="Share of frames done in so many ms",
                        **PLOT,
                    )  # fmt: skip
                with gr.Tab("Thresholds") as sweep_tab:
                    sweep = make_sweep_panel(bench, batches, runs=runs, shown=shown, devices=devices, here=sweep_tab)
                with gr.Tab("Compare") as compare_tab:
                    with gr.Row():
                        other = gr.Dropdown([], label="Run B; A is the run above", interactive=True, elem_id="other")
                        who = gr.Dropdown(WRONG_IN, value="only B", label="Turns wrong in", elem_id="who")
                        by = gr.Dropdown(
                            comparing.metric_choices(), value=NUM_FAILURES, label="Videos by", elem_id="compare_by"
                        )
                    said = make_line("compared")
                    held = gr.State(None)
                    failed = gr.HTML(elem_id="compared_failures", padding=False)
                    turns = gr.Dataframe(
                        headers=TURN_HEADERS,
                        datatype=["str", "number", "str", "str", "str"],
                        interactive=False,
                        max_height=260,
                        label="Turns; a click opens both runs in the player",
                        column_widths=["20%", "10%", "12%", "12%", "46%"],
                        wrap=True,
                        elem_id="turns",
                    )
                    compared = gr.Dataframe(
                        headers=VIDEO_HEADERS,
                        datatype=["str", *["number"] * (len(VIDEO_HEADERS) - 1)],
                        interactive=False,
                        max_height=260,
                        label="Videos, where B is worse first; a click opens both runs at the worst moment",
                        column_widths=["28%", *["12%"] * 6],
                        wrap=True,
                        elem_id="compared_videos",
                    )
                    differences = gr.HTML(elem_id="differences", padding=False)
    view = BatchView(
        shown=shown, status=status, progress=progress, runs=runs, videos=videos, corpus=corpus, precision_recall=curves,
        reliability=reliability, leads=leads, failures=failures, states=states, latency=latency, cancel=cancel,
        use=use, **downloads, origin=origin,
    )  # fmt: skip
    outputs = list(view)
    form = [split, checkpoint, speak, update, devices, taught, name]
    path.submit(partial(adding.add_path, batches), path, [status, split], **AT_ONCE)
    split_file.upload(partial(adding.add_file, batches), split_file, [status, split], **AT_ONCE)
    use.click(partial(use_settings, batches), [runs, devices], [status, *form[:-1]], **AT_ONCE)
    timer = gr.Timer(EVERY_S, active=False)
    choice = [order, panel.only, panel.part]
    chosen = partial(with_filter, batches)
    start.click(chosen(handlers.start), [*form, *choice], outputs, **AT_ONCE)
    cancel.click(chosen(handlers.cancel), [runs, *choice], outputs, **AT_ONCE)
    changes = [runs.select, order.select, panel.only.input, panel.part.input]
    gr.on(changes, chosen(handlers.show), [runs, *choice], outputs, **AT_ONCE)
    offered = wire_selection_panel(bench, batches, panel, runs=runs, said=slice_scores)

    def show_all(*inputs: Any) -> Any:
        return chosen(handlers.show)(*inputs)._replace(runs=gr.skip())

    offered.then(show_all, [runs, *choice], outputs, **AT_ONCE)
    file = make_download()
    for table in TABLES:

        def write(name: Any, table: str = table) -> Any:
            yield from download(batches, name, table)

        asked = downloads[table.replace(".", "_")].click(write, runs, file, **AT_ONCE)
        asked.then(None, file, None, js=SAVE, api_visibility="private")
    timer.tick(chosen(handlers.tick), [shown, runs, *choice], outputs, **AT_ONCE)

    def open_video(live: Any, name: Any, event: gr.SelectData) -> Any:
        return saved.open_video(bench, batches, live, name, event)

    def open_both(live: Any, held: Any, event: gr.SelectData) -> Any:
        return saved.open_both(bench, batches, live, held, event)

    def open_turn(live: Any, held: Any, event: gr.SelectData) -> Any:
        return saved.open_turn(bench, batches, live, held, event)

    sliders = list(player[-2:])
    used = [speak, update, *sliders, sweep.said]
    applying = sweep.apply.click(sweeping.apply_best, [sweep.best, sweep.said], used, **AT_ONCE)
    applying.then(None, sliders, None, js=MOVE, api_visibility="private")
    comparison = CompareView(
        compared=held, said=said, failures=failed, scores=differences, videos=compared, turns=turns
    )
    videos.select(open_video, [live, runs], [*player, rooms], **ends)
    compared.select(open_both, [live, held], [*player, rooms], **ends)
    turns.select(open_turn, [live, held], [*player, rooms], **ends)
    list_other_runs = partial(comparing.list_other_runs, batches)
    gr.on([compare_tab.select, runs.select], list_other_runs, [runs, other], other, **AT_ONCE)
    gr.on(
        [other.select, runs.select],
        partial(comparing.compare, bench, batches),
        [runs, other, who, by],
        list(comparison),
        concurrency_limit=None,
        api_visibility="private",
    )
    by.select(partial(comparing.sort_videos, batches), [held, by], compared, **AT_ONCE)
    who.select(partial(comparing.choose_turns, batches), [held, who], turns, **AT_ONCE)
    here.select(chosen(handlers.enter), [runs, *choice], [*outputs, timer], **AT_ONCE)
    here.select(partial(adding.list_splits, batches), None, split, **AT_ONCE)
    gr.on([tab.select for tab in elsewhere], handlers.leave, None, timer, **AT_ONCE)
