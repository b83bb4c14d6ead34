"""The form of a new run: layout and wiring, its entries as a ``WorkerConfig``, and filling by the shown run's settings.

Choosing a run never changes the form; only its button *Use these settings*, or *Continue*, does. ``app.batch.tab``
wires the start, which shows the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.batch.new_run import own_splits as adding
from stepscope.app.controls import run_inputs
from stepscope.app.controls.widgets import (
    AT_ONCE,
    CHECK_QUEUE,
    Updates,
    list_components,
    list_parts,
    make_status_line,
    run_script,
    wire,
)
from stepscope.app.core.batch_context import FEATURES_FOLDER, BatchContext
from stepscope.app.formatting import as_sentence
from stepscope.app.player.views import status_line
from stepscope.engine.config import ContextStrategy, read_threshold
from stepscope.engine.decisions.policies import find_policy
from stepscope.engine.errors import EngineError
from stepscope.engine.model.checkpoint_folder import find_policy_of
from stepscope.engine.model.files.bundled import BUNDLED_CHECKPOINTS, bundled_name
from stepscope.eval.data.samples import Split
from stepscope.eval.runs.batch import build_run_settings, parse_devices
from stepscope.eval.runs.folder import IDENTITY
from stepscope.eval.runs.output_folder import describe_changes, find_changed_settings, with_defaults
from stepscope.eval.runs.pools.ray_pool import is_cluster
from stepscope.eval.runs.provenance import Provenance
from stepscope.eval.runs.worker_messages import WorkerConfig

DEVICES = ("auto", "cpu:1", "cpu:2", "cpu:4", "cuda", "cuda:0")
"""Offered devices; a local page accepts any value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRunForm:
    """The settings of a new run."""

    split: Any
    checkpoint: Any
    speak: Any
    update: Any
    strategy: Any
    devices: Any
    live: Any
    name: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsForm:
    """Results of another system, which become a run."""

    split: Any
    files: Any
    name: Any
    rule: run_inputs.RuleBoxes


def make_work(
    batches: BatchContext,
    checkpoint: str | None,
    speak: Any,
    update: Any,
    *,
    live: bool,
    strategy: ContextStrategy | None = None,
) -> WorkerConfig:
    """Return the work of a run with the entries of the form. Raises ``ValueError`` for an invalid entry."""
    config = batches.work.config
    work = replace(
        batches.work,
        config=replace(
            config,
            speak_threshold=read_threshold(speak, "speak"),
            update_threshold=read_threshold(update, "update"),
            context_strategy=strategy or config.context_strategy,
        ),
        live=live,
        features=batches.runs / FEATURES_FOLDER,
    )
    checkpoint = (checkpoint or "").strip()
    if checkpoint in ("", work.checkpoint):
        return work
    if not batches.takes_paths and checkpoint not in BUNDLED_CHECKPOINTS:
        raise ValueError("this page runs its own checkpoint and the bundled ones only")
    config = replace(work.config, decision_policy=find_policy_of(checkpoint) or "heads")
    return replace(
        work, checkpoint=checkpoint, heads=None, quantize="none", frame_pixels=None, dtype="auto", config=config
    )


def own_checkpoint(batches: BatchContext) -> str:
    """Return the value of the checkpoint of the page: empty where others use it, who are sent no path of the server."""
    return batches.work.checkpoint if batches.takes_paths else ""


def list_checkpoints(batches: BatchContext) -> list[tuple[str, str]]:
    """Return label and value of the checkpoint of the page and of the bundled ones."""
    own = Path(batches.work.checkpoint)
    own_name = bundled_name(own) or own_checkpoint(batches) or own.name
    return [(own_name, own_checkpoint(batches)), *((name, name) for name in BUNDLED_CHECKPOINTS if name != own_name)]


def show_rule(batches: BatchContext, checkpoint: str | None) -> Updates:
    """Show the sliders of the rule of a checkpoint. One that is not on this machine leaves them as they are."""
    chosen = (checkpoint or "").strip() or batches.work.checkpoint
    if chosen == batches.work.checkpoint:
        return run_inputs.show_sliders(batches.work.config.policy)
    if chosen not in BUNDLED_CHECKPOINTS and not (batches.takes_paths and Path(chosen).is_dir()):
        return Updates()
    try:
        return run_inputs.show_sliders(find_policy(find_policy_of(chosen) or "heads"))
    except EngineError:  # the start of a run names the problem
        return Updates()


def use_settings(batches: BatchContext, name: str | None, devices: str) -> Updates:
    """Fill the form with the settings of a run; the status lists settings in which a new run would differ.

    The name becomes that of a run that Start would continue, else it stays. ``devices`` change only if an entry of
    the list gives the devices of the run.
    """
    try:
        settings = batches.settings_of(name)
        if not settings:
            raise ValueError("no run is shown; choose one")
        return _fill(batches, str(name), settings, devices)
    except (EngineError, ValueError, OSError) as error:
        return Updates(status=status_line(as_sentence(error), is_problem=True))


def _fill(batches: BatchContext, name: str, settings: Mapping[str, Any], devices: str) -> Updates:
    source, split = Provenance.of_settings(name, settings), batches.split_of(settings)
    speak, update = (source.threshold(head) for head in ("speak", "update"))
    if not source.checkpoint or speak is None or update is None:
        raise ValueError(f"{name} was imported: its model and stream settings are unknown")
    is_known = batches.takes_paths or source.checkpoint in BUNDLED_CHECKPOINTS
    checkpoint = str(settings["checkpoint"]) if is_known else own_checkpoint(batches)
    live, devices = settings.get("live") is True, _find_devices(settings.get("devices"), devices)
    strategy = with_defaults(settings)["config"]["context_strategy"]
    work = make_work(batches, checkpoint, speak, update, live=live, strategy=strategy)
    differences = _describe_differences(split, work, settings, devices)
    is_continued = batches.is_unfinished(name) and not differences
    more = "; Start continues it" if is_continued else differences
    view = Updates(
        status=status_line(f"The form has the settings of {name}{more}.", is_problem=bool(differences)),
        checkpoint=checkpoint,
        speak=speak,
        update=update,
        strategy=strategy,
        devices=devices,
        live=live,
        problem=status_line(""),
    )
    named = next((key for key, known in batches.splits.items() if known is split), None)
    view = Updates(view, name=name) if is_continued else view
    return view if named is None else Updates(view, split=named)


def _describe_differences(split: Split | None, work: WorkerConfig, settings: Mapping[str, Any], devices: str) -> str:
    if split is None:
        file_name = Path(str(settings.get("split", ""))).name or "unknown"
        return f", but not its split ({file_name}): add it under Another split"
    if is_cluster(devices):  # connecting to the cluster would block the page
        return ""
    wanted = build_run_settings(split, work, parse_devices(devices))
    differences = describe_changes(find_changed_settings(settings, wanted, IDENTITY), settings, wanted)
    return f", but a new run would have {differences}" if differences else ""


def _find_devices(wanted: Any, current: str) -> str:
    """Return the entry that gives the devices of a run: ``current`` if it does or no entry does."""
    for devices in (current, *DEVICES):
        try:
            if not is_cluster(devices) and [place.device for place in parse_devices(devices)] == wanted:
                return devices
        except (EngineError, ValueError):  # not on this machine
            continue
    return current


SLIDERS: Final = run_inputs.ThresholdSliders("batch_speak", "batch_update", "batch_theta")


class FormPanel(NamedTuple):
    """The forms of a new run and of results, their buttons, and why the last start or import was refused."""

    entries: NewRunForm
    start: Any
    results: ResultsForm
    import_results: Any
    problem: Any


def make_form_panel(batches: BatchContext, *, runs: Any, use: Any, views: Any, here: Any) -> FormPanel:
    """Lay out the form of a new run; wire its splits, and the event ``use`` of the shown settings.

    An import of annotations opens the tab *Split* of ``views``.
    """
    with gr.Column(min_width=180, elem_id="new_run"):
        status = make_status_line("batch_status")
        split = _make_split(batches, status=status, views=views, here=here)
        checkpoint = gr.Dropdown(
            list_checkpoints(batches),
            value=own_checkpoint(batches),
            allow_custom_value=batches.takes_paths,
            label="Checkpoint, or a folder or hub id" if batches.takes_paths else "Checkpoint",
            elem_id="batch_checkpoint",
        )
        sliders = run_inputs.make_threshold_sliders(batches.work.config, SLIDERS)
        strategy = run_inputs.make_context_choice(batches.work.config, elem_id="batch_context")
        devices = gr.Dropdown(
            DEVICES,
            value="auto",
            allow_custom_value=batches.takes_paths,
            label="Devices",
            info="auto is all GPUs, else one process; cpu:2 is two",
            elem_id="devices",
        )
        live = gr.Checkbox(
            label="Teacher-forced pass",
            info="a second pass that computes the scores of VideoLLM-online",
            elem_id="batch_live",
        )
        name = gr.Textbox(label="Name (optional)", placeholder="default: split and time", elem_id="run_name")
        problem = make_status_line("start_problem")
        start = gr.Button("Start", variant="primary", min_width=80, elem_id="start")
        with gr.Accordion("Results of another system", open=False, elem_id="other_results"):
            results = gr.File(
                label="Files for the split above: MMDuet, ProAssist, …",
                file_count="multiple",
                height=130,
                elem_id="result_files",
            )
            rule = run_inputs.make_rule_boxes("import")
            import_results = gr.Button("Import", min_width=80, elem_id="import_results")
    entries = NewRunForm(
        split=split,
        checkpoint=checkpoint,
        speak=sliders.speak,
        update=sliders.update,
        strategy=strategy,
        devices=devices,
        live=live,
        name=name,
    )
    imported = ResultsForm(split=split, files=results, name=name, rule=rule)
    changes = [entry.change for entry in dict.fromkeys(list_components((entries, imported)))]
    run_script(partial(gr.on, changes), "clear", None, problem)  # the refusal was of another form
    filled = {**(list_parts(entries) or {}), "status": status, "problem": problem}
    wire(checkpoint.change, partial(show_rule, batches), checkpoint, sliders, **AT_ONCE)
    wire(use, partial(use_settings, batches), [runs, devices], filled, **AT_ONCE)
    run_script(use, "openForm")
    return FormPanel(entries, start, imported, import_results, problem)


def _make_split(batches: BatchContext, *, status: Any, views: Any, here: Any) -> Any:
    """Return the dropdown of the splits, listed when the tab ``here`` is opened, above a box for another one."""
    split = gr.Dropdown(list(batches.listed_splits()), label="Split", interactive=True, elem_id="split")
    with gr.Accordion("Another split", open=False, elem_id="another_split"):
        path = gr.Textbox(
            label="Path on this machine, then Enter",
            placeholder="/data/val.json",
            max_lines=1,
            visible=batches.takes_paths,
            elem_id="split_path",
        )
        files = gr.File(
            label="or upload: split or annotations",
            file_count="multiple",
            height=130,
            elem_id="split_file",
        )
        draws = gr.Checkbox(
            label="Draw missing videos",
            info="of annotated segments: a card with the step's name",
            elem_id="split_draws",
        )
        delete = gr.Button("Delete the chosen upload", size="sm", elem_id="delete_split")
    added = {"status": status, "split": split, "views": views}
    wire(path.submit, partial(adding.add_path, batches), [path, draws], added, **CHECK_QUEUE)
    read = wire(files.upload, partial(adding.add_files, batches), [files, draws], added, **CHECK_QUEUE)
    read.then(lambda: None, None, files, **AT_ONCE)  # the next files are of another split
    asked = {"js": "(name) => [confirm(`Delete the split “${name}”?`) ? name : null]"}
    wire(delete.click, partial(adding.delete_upload, batches), [split], added, **asked, **CHECK_QUEUE)
    here.select(lambda: gr.Dropdown(choices=list(batches.listed_splits())), None, split, **AT_ONCE)
    return split
