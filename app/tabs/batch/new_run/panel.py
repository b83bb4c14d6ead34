"""Layout and wiring of the form of a new run. ``app.tabs.batch.tab`` wires the start, which shows the run."""

from functools import partial
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.controls.run_inputs import (
    RuleBoxes,
    SliderIds,
    ThresholdSliders,
    make_context_choice,
    make_rule_boxes,
    make_threshold_sliders,
)
from stepscope.app.controls.widgets import AT_ONCE, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.tabs.batch.new_run import own_splits as adding
from stepscope.app.tabs.batch.new_run.form import (
    DEVICES,
    FilledForm,
    list_checkpoints,
    own_checkpoint,
    show_rule,
    use_settings,
)
from stepscope.app.tabs.batch.new_run.own_splits import AddedSplit

SLIDERS: Final = SliderIds("batch_speak", "batch_update", "batch_theta")
KEEP_SPLIT_JS: Final = "(split) => { try { sessionStorage['stepscope:split'] = split; } catch {} }"
"""Script: keep the chosen split for this window, also when it is loaded again."""
READ_SPLIT_JS: Final = """() => {
    const seen = document.documentElement.dataset;
    if (seen.isSplitRead) return '';
    seen.isSplitRead = 'yes';
    const link = new URLSearchParams(location.search).get('split') ?? '';
    try { return sessionStorage['stepscope:split'] ?? link; } catch { return link; }
}"""
"""Script: return the last split of this window, else that of the address; empty after the first time."""


class FormPanel(NamedTuple):
    """The form of a new run."""

    split: Any
    path: Any
    split_file: Any
    checkpoint: Any
    speak: Any
    update: Any
    theta: Any
    """Slider of theta, which writes to that of speak; see ``app.controls.run_inputs``."""
    strategy: Any
    devices: Any
    teacher_forced: Any
    name: Any
    start: Any
    problem: Any
    """Why the last start or import was refused."""
    results: Any
    """Result files of another system."""
    rule: RuleBoxes
    """The rule by which one of their signals decides."""
    import_results: Any
    """The button that imports them."""

    @property
    def entries(self) -> list[Any]:
        """The inputs of ``app.tabs.batch.new_run.start.start``, in order."""
        return [
            self.split, self.checkpoint, self.speak, self.update, self.strategy, self.devices, self.teacher_forced,
            self.name,
        ]  # fmt: skip


def make_form_panel(batches: BatchContext) -> FormPanel:
    """Lay out the form of a new run."""
    with gr.Column(scale=3, min_width=200, elem_classes="setup"):
        gr.Markdown("### New run", elem_id="new_run")
        split, path, split_file = _make_split_inputs(batches)
        checkpoint = gr.Dropdown(
            list_checkpoints(batches),
            value=own_checkpoint(batches),
            allow_custom_value=batches.takes_paths,
            label="Checkpoint, or a folder or hub id" if batches.takes_paths else "Checkpoint",
            elem_id="batch_checkpoint",
        )
        sliders = make_threshold_sliders(batches.work.config, SLIDERS)
        strategy = make_context_choice(batches.work.config, elem_id="batch_context")
        devices = gr.Dropdown(
            DEVICES,
            value="auto",
            allow_custom_value=batches.takes_paths,
            label="Devices",
            info="auto is all GPUs, else one process; cpu:2 is two",
            elem_id="devices",
        )
        teacher_forced = gr.Checkbox(
            label="Teacher-forced pass",
            info="a second pass that computes the scores of VideoLLM-online",
            elem_id="batch_live",
        )
        name = gr.Textbox(label="Name (optional)", placeholder="default: split and time", elem_id="run_name")
        start = gr.Button("Start", variant="primary", min_width=80, elem_id="start")
        problem = make_status_line("start_problem")
        with gr.Accordion("Results of another system", open=False, elem_id="other_results"):
            results = gr.File(
                label="Files for the split above: MMDuet, ProAssist, …",
                file_count="multiple",
                height=130,
                elem_id="result_files",
            )
            rule = make_rule_boxes("import")
            import_results = gr.Button("Import", min_width=80, elem_id="import_results")
    return FormPanel(
        split=split,
        path=path,
        split_file=split_file,
        checkpoint=checkpoint,
        speak=sliders.speak,
        update=sliders.update,
        theta=sliders.theta,
        strategy=strategy,
        devices=devices,
        teacher_forced=teacher_forced,
        name=name,
        start=start,
        problem=problem,
        results=results,
        rule=rule,
        import_results=import_results,
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
    _wire_chosen_split(batches, form, here=here)
    changes = [entry.change for entry in [*form.entries, form.results, *form.rule]]
    gr.on(changes, None, None, form.problem, js="() => ''", api_visibility="private")  # the refusal was of another form
    filled = FilledForm(
        status=status,
        split=form.split,
        checkpoint=form.checkpoint,
        speak=form.speak,
        update=form.update,
        strategy=form.strategy,
        devices=form.devices,
        live=form.teacher_forced,
        problem=form.problem,
    )
    sliders = ThresholdSliders(form.speak, form.update, form.theta)
    wire(form.checkpoint.change, partial(show_rule, batches), form.checkpoint, sliders, **AT_ONCE)
    wire(use.click, partial(use_settings, batches), [runs, form.devices], filled, **AT_ONCE)


def _wire_chosen_split(batches: BatchContext, form: FormPanel, *, here: Any) -> None:
    """List the splits when the tab is opened; the chosen one is the last of this window, else that of the address."""
    wanted = gr.Textbox(visible="hidden")
    here.select(partial(adding.list_splits, batches), wanted, form.split, js=READ_SPLIT_JS, **AT_ONCE)
    form.split.change(None, form.split, None, js=KEEP_SPLIT_JS, api_visibility="private")
