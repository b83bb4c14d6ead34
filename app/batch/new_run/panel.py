"""Layout and wiring of the form of a new run. ``app.batch.tab`` wires the start, which shows the run."""

from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from app.batch.context import BatchContext
from app.batch.new_run import add_split as adding
from app.batch.new_run.add_split import AddedSplit
from app.batch.new_run.form import DEVICES, FilledForm, use_settings
from app.widgets import AT_ONCE, THRESHOLD_SLIDER, make_status_line, wire


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
        """The inputs of ``app.batch.new_run.start.start``, in order."""
        return [
            self.split, self.checkpoint, self.speak, self.update, self.devices, self.teacher_forced, self.name,
        ]  # fmt: skip


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
            label="Speak threshold", elem_id="batch_speak", **{**THRESHOLD_SLIDER, "value": config.speak_threshold}
        )
        update = gr.Slider(
            label="Update threshold", elem_id="batch_update", **{**THRESHOLD_SLIDER, "value": config.update_threshold}
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


def wire_form_panel(batches: BatchContext, form: FormPanel, *, runs: Any, use: Any, status: Any, here: Any) -> None:
    """Wire the splits of the form, and the button ``use`` that fills it with the settings of the shown run.

    Args:
        batches: Runs, splits and jobs.
        form: The form.
        runs: The dropdown of the shown run.
        use: The button *Use these settings*.
        status: The status line of the tab.
        here: The ``gr.Tab`` of the batch tab; when it is opened, the splits are listed again.
    """
    added = AddedSplit(status=status, split=form.split)
    wire(form.path.submit, partial(adding.add_path, batches), form.path, added, **AT_ONCE)
    wire(form.split_file.upload, partial(adding.add_file, batches), form.split_file, added, **AT_ONCE)
    here.select(partial(adding.list_splits, batches), None, form.split, **AT_ONCE)
    changes = [entry.change for entry in form.entries]
    gr.on(changes, None, None, form.problem, js="() => ''", api_visibility="private")  # the refusal was of another form
    filled = FilledForm(
        status=status,
        split=form.split,
        checkpoint=form.checkpoint,
        speak=form.speak,
        update=form.update,
        devices=form.devices,
        live=form.teacher_forced,
        problem=form.problem,
    )
    wire(use.click, partial(use_settings, batches), [runs, form.devices], filled, **AT_ONCE)
