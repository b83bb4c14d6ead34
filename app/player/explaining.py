"""*Explain*: the diagnosis of the displayed run, or of its video alone, on request; see ``eval.diagnosis``.

It writes the files of ``stepscope explain`` into the run folder, and the text of own experiments beside them, so that
everybody who opens the run finds it, and a cancelled diagnosis continues. A run of the page is kept for it in a folder
of its own, the bundled run as a copy.
"""

import shutil
from collections.abc import Generator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.controls.cancellable import WorkButtons, show_ended, show_working, wire_work
from stepscope.app.controls.widgets import LATEST, MODEL_QUEUE, UPDATE_INTERVAL_S, Pace, Updates, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.run import Run
from stepscope.app.core.saved import BUNDLED_NAME
from stepscope.app.formatting import as_sentence, name_files
from stepscope.app.player.opening import read_saved
from stepscope.app.player.views import show_run
from stepscope.app.server.identity import current_user
from stepscope.app.templates import render, render_note
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import Cancellable, Window
from stepscope.app.window.reasons import explain_unrepeatable
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import atomic_write, read_text
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Turn, turn_order
from stepscope.eval.data.writers import write_samples
from stepscope.eval.diagnosis.experiments import parse_experiments
from stepscope.eval.diagnosis.folder import diagnose_run, read_diagnosis
from stepscope.eval.diagnosis.plan import Plan, digest_text, make_plan
from stepscope.eval.runs.folder import (
    OWN_SPLIT,
    RunFolder,
    VideoRecord,
    digest_entry,
    digest_sample,
    make_file_name,
    signal_settings,
)
from stepscope.eval.runs.roots import DIAGNOSIS_FILE

VIDEO, RUN = "this video", "all videos of the run"
OWN_FILE: Final = "experiments.yaml"
CANCELLED: Final = "Cancelled. Finished videos are kept; start it again to continue."
_PLACEHOLDER: Final = "polite:\n  goal: please {goal}\n  speak_threshold: 0.35"


class ExplainForm(NamedTuple):
    """What is explained: the videos, the most cost in runs, and own experiments as YAML."""

    scope: Any
    max_cost: Any
    own: Any


def make_explain_panel(context: AppContext, batches: BatchContext, window: Any, view: Mapping[str, Any]) -> None:
    """Lay out and wire the panel below the run of ``window``, whose components are ``view``."""
    with gr.Accordion("Explain the failures of this run", open=False, elem_id="explain") as panel:
        with gr.Row():
            scope = gr.Radio([VIDEO, RUN], value=VIDEO, label="Explain", elem_id="explain_scope")
            max_cost = gr.Number(10, label="Most cost, in runs", minimum=1, elem_id="explain_cost")
        own = gr.Textbox(
            label="Own experiments as YAML: names with goal, steps or settings (optional)",
            placeholder=_PLACEHOLDER,
            lines=3,
            elem_id="own_experiments",
        )
        with gr.Row():
            start = gr.Button("Explain", variant="primary", elem_id="start_explain")
            cancel = gr.Button("Cancel", variant="stop", interactive=False, elem_id="cancel_explain")
        progress = gr.HTML(elem_id="explain_progress", padding=False)
    form = ExplainForm(scope=scope, max_cost=max_cost, own=own)
    buttons = WorkButtons(start=start, cancel=cancel, progress=progress)
    for event in (panel.expand, scope.change, max_cost.change, own.blur):
        wire(event, partial(show_cost, context, batches), [window, form], {"own": own, "progress": progress}, **LATEST)
    run = partial(explain_run, context, batches)
    outputs = {**view, **buttons._asdict()}  # with the progress of the panel, not that of a run
    wire_work(buttons, run, [gr.State(None), window, form], outputs, cancelled=CANCELLED, **MODEL_QUEUE)


def show_cost(context: AppContext, batches: BatchContext, window: Window, form: ExplainForm) -> Updates:
    """Show what the diagnosis will cost, or why there can be none, and the experiments that its run folder has."""
    try:
        run = _find_run(context, window)
        name = _name_kept(run)
        if not (batches.runs / name).exists():
            own = ", and those of your own experiments" if form.own else ""
            kept = f"At most {float(form.max_cost or 0):g} runs{own}; the run is kept in Batch for it, as {name}."
            return Updates(progress=render_note(kept))
        form = _with_kept_experiments(batches, name, form)
        plan = _plan(batches, run, name, form)
    except (EngineError, ValueError, OSError) as error:
        return Updates(progress=render_note(_name_run(error, batches, window), is_problem=True))
    words = f"{format_count(len(plan.samples), 'video')}, {plan.describe_cost()}."
    words += f" Left out: {left_out}." if (left_out := plan.describe_left_out("a cost of")) else ""
    return Updates(progress=render_note(words), own=form.own)


def explain_run(
    context: AppContext, batches: BatchContext, handle: Cancellable, window: Window, form: ExplainForm
) -> Generator[Updates]:
    """Diagnose the displayed run, yield the progress, and show its reasons. Finished videos are kept when cancelled."""
    handle.is_started, pace = True, Pace(UPDATE_INTERVAL_S)
    try:
        run = _find_run(context, window)
        name = _name_kept(run)
        _keep(batches, run, name)
        form = _with_kept_experiments(batches, name, form)
        plan, folder = _plan(batches, run, name, form), batches.folder(name)
        if form.own:
            with atomic_write(folder / OWN_FILE) as file:
                file.write(form.own)
        num_done, failed = 0, list[str]()
        with closing(diagnose_run(folder, plan, checkpoint=context.checkpoint)) as steps:
            for step in steps:
                if handle.is_cancelled:
                    break
                if not isinstance(step, str):
                    num_done += 1
                    failed += [f"{step.video_id} failed: {as_sentence(step.error)}"] if step.error else []
                if pace.is_due():
                    at = "" if not isinstance(step, str) else f" Now: {step}."
                    done = f"{num_done} of {format_count(len(plan.samples), 'video')} explained."
                    yield show_working(render_note(" ".join([done + at, *failed])))
        if handle.is_cancelled:
            yield show_ended(CANCELLED)
            return
        found, video_id = read_diagnosis(folder, plan), run.clip.video_id if form.scope == VIDEO else ""
        table = render("effects", found=found, failed=failed, video_id=video_id)
        ended = Updates(show_ended(""), progress=table)
        yield Updates(ended, **_show_again(context, batches, window, run, name=name))
    except (EngineError, ValueError, OSError) as error:
        yield show_ended(_name_run(error, batches, window), is_problem=True)
    finally:
        handle.ended.set()


def _name_run(error: Exception, batches: BatchContext, window: Window) -> str:
    """Return an error as a sentence that shows no folder of the server."""
    folder = batches.folder(_name_kept(window.run) if window.run is not None else "")
    return as_sentence(name_files(str(error), [folder / DIAGNOSIS_FILE, folder]))


def _find_run(context: AppContext, window: Window) -> Run:
    """Return the displayed run. Raises ``ValueError`` if it cannot be explained."""
    _, run = window.find_finished("explain")
    if run.branch is not None:
        raise ValueError("a what-if is not explained; show the run itself")
    if run.reference is None:
        raise ValueError("nothing is known to fail without a reference")
    if not run.name and (why := explain_unrepeatable(run, context.checkpoint.digest)):
        raise ValueError(why)
    return run


def _name_kept(run: Run) -> str:
    """Return the name of the run in the folder of runs, where it is explained."""
    if run.name not in ("", BUNDLED_NAME):
        return run.name
    parts = [run.clip.name, run.digest[:8], *([digest_entry(run.reference)[:4]] if run.reference else [])]
    return f"{BUNDLED_NAME}-copy" if run.name or run.kept_as else make_file_name("-".join(parts))


def _keep(batches: BatchContext, run: Run, name: str) -> None:
    """Keep a run in the folder of runs: copied whole if it is the bundled one, else written with a split of its own."""
    if not (batches.runs / name).exists():
        with TemporaryDirectory(dir=batches.runs) as made:
            folder = RunFolder(Path(made, name))
            if run.name or run.kept_as:
                shutil.copytree(batches.folder(BUNDLED_NAME), folder.path)
                split = batches.need_split(BUNDLED_NAME).path
                folder.write_settings({**batches.settings_of(BUNDLED_NAME), "split": str(split)})
            else:
                _write(folder, run)
            folder.path.rename(batches.runs / name)
    if (batches.runs / name / OWN_SPLIT).exists():
        batches.recent.own_split(batches.runs / name / OWN_SPLIT, current_user.get())


def _write(folder: RunFolder, run: Run) -> None:
    """Write a run of the page as one of a split with its video alone, of which an upload is copied."""
    clip, reference = run.clip, run.reference
    assert reference is not None
    folder.path.mkdir()
    video = clip.path
    if clip.content_digest:
        video = Path(shutil.copy(video, folder.path / f"video{video.suffix}"))
    asked = [Turn(time_s=turn.time_s, role="user", text=turn.text) for turn in run.task.user_turns]
    turns = sorted((*asked, *(turn for turn in reference.turns if turn.role != "user")), key=turn_order)
    file: dict[str, Any] = {"video_path": video, "fps": clip.fps, "start_s": clip.start_s}
    task: dict[str, Any] = {"goal": run.task.goal, "steps": run.task.steps, "initial_state": run.task.initial_state}
    sample = replace(reference, video_id=clip.video_id, num_frames=len(run.outputs), turns=tuple(turns), **file, **task)
    write_samples(folder.path / OWN_SPLIT, [sample], file_format="manifest")
    settings = {**run.settings, **asdict(run.scoring), "config": asdict(run.config), "model_digest": run.model_digest}
    folder.write_settings({**settings, **signal_settings(run.config), "split": OWN_SPLIT})
    record = VideoRecord(video_id=clip.video_id, source=digest_sample(sample), num_frames=len(run.outputs))
    folder.save_video(replace(record, fps=clip.fps, device=str(run.settings.get("device", ""))), run.outputs)


def _with_kept_experiments(batches: BatchContext, name: str, form: ExplainForm) -> ExplainForm:
    """Return the form with the experiments of the run folder, if none are typed."""
    path = batches.folder(name) / OWN_FILE
    with suppress(FileNotFoundError):
        return form if form.own else form._replace(own=read_text(path))
    return form


def _plan(batches: BatchContext, run: Run, name: str, form: ExplainForm) -> Plan:
    return make_plan(
        batches.need_run(name).path,
        batches.need_split(name),
        batches.work,
        video_id=run.clip.video_id if form.scope == VIDEO else "",
        own=parse_experiments(form.own or ""),
        own_digest=digest_text(form.own or ""),
        budget=float(form.max_cost or 0),
    )


def _show_again(context: AppContext, batches: BatchContext, window: Window, run: Run, *, name: str) -> dict[str, Any]:
    """Return the run with the reasons in its folder ``name``, unless the window shows another one by now."""
    live = window.live
    if live is None or live.run is not run:
        return {}
    again = read_saved(context, batches, name, run.clip.video_id)
    live.run = replace(again, letter=run.letter)
    view = show_run(live.run, f"{name} is explained.", encode=context.encode, other=live.other)
    return {name: part for name, part in vars(view).items() if name != "progress"}
