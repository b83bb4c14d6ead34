"""The batch tab's layout and wiring; what happens is in ``app.batch.handlers``."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import gradio as gr

from app.batch import comparing, handlers, saved, sweeping
from app.batch.batches import Batches
from app.batch.charts import DIFFERENCE_COLOURS, HEAD_COLOURS
from app.batch.comparing import CHOICES, TURN_HEADERS, VIDEO_HEADERS, CompareView
from app.batch.handlers import BatchView, Seen
from app.batch.results import HEADERS, ORDERS, TABLES
from app.batch.sweeping import SIZES, SweepView
from app.handlers import Bench
from app.wiring import AT_ONCE, LINE, MODEL
from eval.grid import DEFAULT_METRICS
from eval.preview import PREVIEWED

EVERY_S: Final = 1.0
"""How often a window asks how far its run is, while the tab is open."""
PLOT: Final[dict[str, Any]] = {"height": 240, "buttons": [], "min_width": 300}


def make_batch_tab(
    bench: Bench,
    batches: Batches,
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
    seen = gr.State(Seen())
    with gr.Row():
        with gr.Column(scale=3, min_width=300):
            split = gr.Dropdown(list(batches.splits), label="Split", interactive=True, elem_id="split")
            checkpoint = gr.Textbox(
                batches.work.checkpoint,
                label="Checkpoint, folder or hub id" if batches.takes_paths else "Checkpoint",
                interactive=batches.takes_paths,
                elem_id="batch_checkpoint",
            )
            speak = gr.Slider(0, 1, 0.5, step=0.01, label="Speak threshold", elem_id="batch_speak")
            update = gr.Slider(0, 1, 0.5, step=0.01, label="Update threshold", elem_id="batch_update")
            devices = gr.Dropdown(
                handlers.DEVICES,
                value="auto",
                allow_custom_value=batches.takes_paths,
                label="Devices",
                info="cpu:2 is two processes; cuda takes every GPU",
                elem_id="devices",
            )
            name = gr.Textbox(
                label="Name (optional)", placeholder="the time, or the same run again", elem_id="run_name"
            )
            with gr.Row():
                start = gr.Button("Start", variant="primary", min_width=100, elem_id="start")
                cancel = gr.Button("Cancel", variant="stop", min_width=100, interactive=False, elem_id="cancel")
        with gr.Column(scale=11, min_width=640):
            status = gr.Textbox(**LINE, elem_id="batch_status")
            progress = gr.HTML(elem_id="batch_progress", padding=False)
            with gr.Row():
                runs = gr.Dropdown([], label="Run", interactive=True, scale=3, elem_id="batch_runs")
                order = gr.Dropdown(list(ORDERS), value="as in the split", label="Videos", scale=2, elem_id="order")
                with gr.Row(elem_id="downloads", scale=3):
                    downloads = {
                        table.replace(".", "_"): gr.DownloadButton(table, size="sm", min_width=90, interactive=False)
                        for table in TABLES
                    }
            with gr.Tabs():
                with gr.Tab("Videos"):
                    videos = gr.Dataframe(
                        headers=HEADERS,
                        datatype=["str", *["number"] * (len(HEADERS) - 2), "str"],
                        interactive=False,
                        max_height=560,
                        show_search="search",
                        elem_id="videos",
                        label="A click opens the video at its worst moment",
                        column_widths=["21%", *["11%"] * (len(HEADERS) - 2), "13%"],
                    )
                with gr.Tab("Scores"):
                    corpus = gr.HTML(elem_id="corpus", padding=False)
                with gr.Tab("Charts"):
                    with gr.Row():
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
                    with gr.Row():
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
                    with gr.Row():
                        metric = gr.Dropdown(
                            list(PREVIEWED),
                            value=DEFAULT_METRICS[1],
                            label="Best by",
                            interactive=True,
                            elem_id="metric",
                        )
                        size = gr.Dropdown(list(SIZES), value=SIZES[1], label="Thresholds an axis", elem_id="size")
                        with gr.Column(min_width=260):
                            exact = gr.Button("Run each point", size="sm", elem_id="exact")
                            apply = gr.Button("Use the best point", size="sm", interactive=False, elem_id="apply")
                    swept = gr.Textbox(**LINE, elem_id="swept")
                    best = gr.State(None)
                    with gr.Row():
                        heat = gr.HTML(elem_id="heat", padding=False)
                        through = gr.LinePlot(
                            x="threshold", y="score", color="head", color_map=HEAD_COLOURS, x_lim=[0, 1],
                            title="Through the chosen point", tooltip="all", **{**PLOT, "height": 360},
                        )  # fmt: skip
                with gr.Tab("Compare") as compare_tab:
                    with gr.Row():
                        other = gr.Dropdown([], label="Run B; A is the run above", interactive=True, elem_id="other")
                        who = gr.Dropdown(CHOICES, value="only B", label="Turns wrong in", elem_id="who")
                    said = gr.Textbox(**LINE, elem_id="compared")
                    held = gr.State(None)
                    turns = gr.Dataframe(
                        headers=TURN_HEADERS,
                        datatype=["str", "number", "str", "str", "str"],
                        interactive=False,
                        max_height=260,
                        label="Turns; a click opens both runs in the player",
                        column_widths=["20%", "10%", "12%", "12%", "46%"],
                        elem_id="turns",
                    )
                    compared = gr.Dataframe(
                        headers=VIDEO_HEADERS,
                        datatype=["str", *["number"] * (len(VIDEO_HEADERS) - 1)],
                        interactive=False,
                        max_height=260,
                        label="Videos; a click opens both runs at the worst moment",
                        column_widths=["16%", *["14%"] * 4, "10%", "9%", "9%"],
                        elem_id="compared_videos",
                    )
                    differences = gr.HTML(elem_id="differences", padding=False)
    view = BatchView(
        seen=seen, status=status, progress=progress, runs=runs, videos=videos, corpus=corpus, precision_recall=curves,
        reliability=reliability, leads=leads, failures=failures, states=states, latency=latency, cancel=cancel,
        **downloads,
    )  # fmt: skip
    outputs = list(view)
    form = [split, checkpoint, speak, update, devices, name]
    timer = gr.Timer(EVERY_S, active=False)
    start.click(partial(handlers.start, batches), [*form, order], outputs, **AT_ONCE)
    cancel.click(partial(handlers.cancel, batches), [runs, order], outputs, **AT_ONCE)
    gr.on([runs.select, order.select], partial(handlers.show, batches), [runs, order], outputs, **AT_ONCE)
    timer.tick(partial(handlers.tick, batches), [seen, runs, order], outputs, **AT_ONCE)

    def open_video(live: Any, name: Any, event: gr.SelectData) -> Any:
        return saved.open_video(bench, batches, live, name, event)

    def open_both(live: Any, held: Any, event: gr.SelectData) -> Any:
        return saved.open_both(bench, batches, live, held, event)

    def open_turn(live: Any, held: Any, event: gr.SelectData) -> Any:
        return saved.open_turn(bench, batches, live, held, event)

    sweep = SweepView(said=swept, heat=heat, curves=through, best=best, apply=apply)
    previews = gr.on(
        [sweep_tab.select, metric.select, size.select, runs.select],
        partial(sweeping.preview_sweep, batches),
        [runs, metric, size],
        list(sweep),
        **AT_ONCE,
    )

    def exact_sweep(*inputs: Any) -> Any:
        yield from sweeping.exact_sweep(bench, batches, *inputs)

    exact.click(
        exact_sweep,
        [runs, metric, size, devices],
        list(sweep),
        cancels=[previews],
        **MODEL,
        show_progress="hidden",
    )
    apply.click(sweeping.apply_best, best, [speak, update, *player[-2:]], **AT_ONCE)
    comparison = CompareView(compared=held, said=said, scores=differences, videos=compared, turns=turns)
    videos.select(open_video, [live, runs], [*player, rooms], **ends)
    compared.select(open_both, [live, held], [*player, rooms], **ends)
    turns.select(open_turn, [live, held], [*player, rooms], **ends)
    gr.on([compare_tab.select, runs.select], partial(comparing.others, batches), [runs, other], other, **AT_ONCE)
    gr.on(
        [other.select, runs.select],
        partial(comparing.compare, bench, batches),
        [runs, other, who],
        list(comparison),
        concurrency_limit=None,
        api_visibility="private",
    )
    who.select(partial(comparing.choose_turns, batches), [held, who], turns, **AT_ONCE)
    here.select(partial(handlers.enter, batches), [runs, order], [*outputs, timer], **AT_ONCE)
    gr.on([tab.select for tab in elsewhere], handlers.leave, None, timer, **AT_ONCE)
