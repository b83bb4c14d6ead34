"""Layout of the panels of the batch tab. ``app.batch.tab`` wires them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gradio as gr

from app.batch.charts import DIFFERENCE_COLOURS, HEAD_COLOURS, PLOT
from app.batch.compare import TURN_HEADERS, VIDEO_HEADERS, WRONG_IN, metric_choices
from app.batch.context import BatchContext
from app.batch.downloads import TABLES
from app.batch.form import DEVICES
from app.batch.results import HEADERS, ORDERS
from app.widgets import THRESHOLD_SLIDER, make_status_line
from eval.metrics.definitions import NUM_FAILURES


class FormPanel(NamedTuple):
    """The form of a new run."""

    split: Any
    path: Any
    split_file: Any
    checkpoint: Any
    speak: Any
    update: Any
    devices: Any
    teacher_forced: Any
    name: Any
    start: Any
    problem: Any
    """Why the last start was refused."""

    @property
    def entries(self) -> list[Any]:
        """The inputs of ``app.batch.handlers.start``, in order."""
        return [
            self.split, self.checkpoint, self.speak, self.update, self.devices, self.teacher_forced, self.name,
        ]  # fmt: skip


class RunPanel(NamedTuple):
    """The shown run: its choice, its downloads and its buttons."""

    runs: Any
    order: Any
    downloads: Mapping[str, Any]
    """By file name with ``_`` for ``.``, as in ``BatchView``."""
    origin: Any
    use: Any
    cancel: Any


class ComparePanel(NamedTuple):
    """The inputs and outputs of a comparison."""

    other: Any
    wrong_in: Any
    metric: Any
    said: Any
    compared: Any
    failures: Any
    turns: Any
    videos: Any
    scores: Any


def make_form_panel(batches: BatchContext) -> FormPanel:
    """Lay out the form of a new run."""
    with gr.Column(scale=3, min_width=200, elem_classes="setup"):
        gr.Markdown("### New run", elem_id="new_run")
        split, path, split_file = _make_split_inputs(batches)
        checkpoint = gr.Textbox(
            batches.work.checkpoint,
            label="Checkpoint, folder or hub id" if batches.takes_paths else "Checkpoint",
            interactive=batches.takes_paths,
            elem_id="batch_checkpoint",
        )
        config = batches.work.config
        speak = gr.Slider(
            value=config.speak_threshold, label="Speak threshold", elem_id="batch_speak", **THRESHOLD_SLIDER
        )
        update = gr.Slider(
            value=config.update_threshold, label="Update threshold", elem_id="batch_update", **THRESHOLD_SLIDER
        )
        devices = gr.Dropdown(
            DEVICES,
            value="auto",
            allow_custom_value=batches.takes_paths,
            label="Devices",
            info="cpu:2 is two processes; cuda is all GPUs",
            elem_id="devices",
        )
        teacher_forced = gr.Checkbox(
            label="Teacher-forced pass",
            info="a second pass that computes the scores of VideoLLM-online",
            elem_id="batch_live",
        )
        name = gr.Textbox(label="Name (optional)", placeholder="default: the time, or the same run", elem_id="run_name")
        start = gr.Button("Start", variant="primary", min_width=80, elem_id="start")
        problem = make_status_line("start_problem")
    return FormPanel(
        split=split,
        path=path,
        split_file=split_file,
        checkpoint=checkpoint,
        speak=speak,
        update=update,
        devices=devices,
        teacher_forced=teacher_forced,
        name=name,
        start=start,
        problem=problem,
    )


def _make_split_inputs(batches: BatchContext) -> tuple[Any, Any, Any]:
    """Lay out the choice of the split, and the path and the upload of a new one."""
    split = gr.Dropdown(list(batches.splits), label="Split", interactive=True, elem_id="split")
    with gr.Accordion("Another split", open=False, elem_id="another_split"):
        path = gr.Textbox(
            label="Path on this machine, then Enter",
            placeholder="/data/val.json",
            max_lines=1,
            visible=batches.takes_paths,
            elem_id="split_path",
        )
        split_file = gr.File(label="or upload: manifest, DST, ProAssist", height=130, elem_id="split_file")
    return split, path, split_file


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
        cancel = gr.Button(
            "Cancel", variant="stop", size="sm", scale=0, min_width=90, interactive=False, elem_id="cancel"
        )
    return RunPanel(runs=runs, order=order, downloads=downloads, origin=origin, use=use, cancel=cancel)


def make_video_table() -> Any:
    """Lay out the table of videos."""
    return gr.Dataframe(
        headers=HEADERS,
        datatype=["str", *["number"] * (len(HEADERS) - 2), "str"],
        interactive=False,
        max_height=560,
        show_search="search",
        elem_id="videos",
        label="Click a row to open the video at its worst moment",
        column_widths=["18%", *["9.7%"] * (len(HEADERS) - 2), "14%"],
        wrap=True,
    )


def make_charts() -> dict[str, Any]:
    """Lay out the charts; return them by their names in ``BatchView``."""
    by_head: dict[str, Any] = {"color": "head", "color_map": HEAD_COLOURS, **PLOT}
    return {
        "precision_recall": gr.LinePlot(
            x="recall", y="precision", x_lim=[0, 1], y_lim=[0, 1], title="Precision and recall over frames",
            tooltip="all", **by_head,
        ),
        "reliability": gr.LinePlot(
            x="probability", y="share", x_lim=[0, 1], y_lim=[0, 1], title="Reliability: expected share by probability",
            tooltip="all", **by_head,
        ),
        "leads": gr.BarPlot(
            x="seconds", y="events", sort=None, title="Early (-) and late (+) decisions, in seconds", **by_head
        ),
        "failures": gr.BarPlot(x="kind", y="failures", title="Failures", x_label_angle=-30, sort=None, **PLOT),
        "states": gr.BarPlot(
            x="step", y="share", color="state", color_map=DIFFERENCE_COLOURS, sort=None,
            title="Step states that differ, share of frames", **PLOT,
        ),
        "latency": gr.LinePlot(
            x="milliseconds", y="share", y_lim=[0, 1], title="Share of frames by latency in ms, cumulative", **PLOT
        ),
    }  # fmt: skip


def make_compare_panel() -> ComparePanel:
    """Lay out the comparison of two runs."""
    with gr.Row():
        other = gr.Dropdown([], label="Run B; A is the run above", interactive=True, elem_id="other")
        wrong_in = gr.Dropdown(WRONG_IN, value="only B", label="Turns wrong in", elem_id="who")
        metric = gr.Dropdown(metric_choices(), value=NUM_FAILURES, label="Videos by", elem_id="compare_by")
    said = make_status_line("compared")
    compared = gr.State(None)
    failures = gr.HTML(elem_id="compared_failures", padding=False)
    turns = gr.Dataframe(
        headers=TURN_HEADERS,
        datatype=["str", "number", "str", "str", "str"],
        interactive=False,
        max_height=260,
        label="Turns: click a row to open both runs in the player",
        column_widths=["20%", "10%", "12%", "12%", "46%"],
        wrap=True,
        elem_id="turns",
    )
    videos = gr.Dataframe(
        headers=VIDEO_HEADERS,
        datatype=["str", *["number"] * (len(VIDEO_HEADERS) - 1)],
        interactive=False,
        max_height=260,
        label="Videos, largest losses of B first: click a row to open both runs at the worst moment",
        column_widths=["28%", *["12%"] * 6],
        wrap=True,
        elem_id="compared_videos",
    )
    scores = gr.HTML(elem_id="differences", padding=False)
    return ComparePanel(
        other=other,
        wrong_in=wrong_in,
        metric=metric,
        said=said,
        compared=compared,
        failures=failures,
        turns=turns,
        videos=videos,
        scores=scores,
    )
