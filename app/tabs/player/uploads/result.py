"""Result files of other systems for an upload: checked first, then shown like a run, scored if it has a reference."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.run_inputs import read_rule
from stepscope.app.core.live_run import LiveRun
from stepscope.app.core.references import MAX_RESULT_BYTES, check_size, find_max_frames
from stepscope.app.core.run import Run, read_task
from stepscope.app.core.videos import Clip
from stepscope.app.formatting import as_sentence, format_clock, name_files
from stepscope.app.opening.clips import cancel_run
from stepscope.app.tabs.player.handlers import set_reference
from stepscope.app.tabs.player.uploads.video import CheckedReference, is_running
from stepscope.app.web.views import UNCHANGED_CLIP, PlayerView, show_nothing, show_run, status_line, task_boxes
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.io.files import digest_file
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Sample, Turn, build_task
from stepscope.eval.runs.folder import read_signal_specs, versions
from stepscope.eval.runs.imports.import_results import list_missing, read_result
from stepscope.eval.runs.imports.system_output import SignalRule

_NO_TASK: Final = Task()


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedResult:
    """A valid result file. Every check creates a new object, so that Gradio reports a change."""

    path: Path | None
    """The file; None after it was removed."""
    rule: SignalRule | None = None
    """The rule by which one of its signals decides; None for that of the file."""


class ResultCheck(NamedTuple):
    """Outputs of the check of a result file."""

    checked: Any
    status: Any
    problem: Any
    rule_panel: Any
    """The panel of the rule, which is shown for files with signals."""
    signal: Any
    """The choice of the signal that decides."""


def check_result(
    live: LiveRun | None,
    clip: Clip | None,
    result: str | None,
    signal: str | None = None,
    policy: str = "above",
    threshold: str | None = None,
) -> ResultCheck:
    """Check a result file for the open upload, with a rule where it has a threshold.

    A refused file or rule cancels no run and changes nothing else.
    """
    if result is None:
        hidden = gr.Column(visible=False)
        return ResultCheck(CheckedResult(path=None), gr.skip(), "", rule_panel=hidden, signal=gr.skip())
    try:
        if clip is None or not clip.content_digest:
            raise ValueError("a result file belongs to an upload: upload its video first")
        rule = read_rule(signal, policy, threshold)
        specs = read_signal_specs(_read(clip, Path(result), settings={}, rule=rule)[0].settings)
    except (ValueError, OSError) as error:
        problem, is_busy = as_sentence(name_files(str(error), [Path(result)])), is_running(live)
        status = gr.skip() if is_busy else status_line(problem, is_problem=True)
        shown = f"⚠ {problem}" if is_busy else ""
        return ResultCheck(gr.skip(), status, shown, rule_panel=gr.skip(), signal=gr.skip())
    names = [spec.name for spec in specs]
    chosen = signal if signal in names else next((spec.name for spec in specs if spec.decides), None)
    return ResultCheck(
        checked=CheckedResult(path=Path(result), rule=rule),
        status=gr.skip(),
        problem="",
        rule_panel=gr.Column(visible=bool(specs)),
        signal=gr.Dropdown(choices=names, value=chosen),
    )


def show_result(
    context: AppContext, live: LiveRun | None, clip: Clip | None, checked: CheckedResult | None, *boxes: str | None
) -> PlayerView:
    """Show an accepted result file as the run of the upload; the status names the values that it does not hold.

    ``boxes`` are the typed goal, steps and user turns, which stay, and are the task of a run without a reference.
    """
    if checked is None or clip is None or not clip.content_digest:
        return PlayerView()  # another video was opened
    if checked.path is None:
        status = f"{clip.name}, {format_clock(clip.duration_s)}, without results. Press Run."
        return PlayerView(run=show_nothing(status, clip=clip), buttons=cancel_run(live))
    settings = {"versions": versions(), **context.encoder}
    run, problems = _read(clip, checked.path, settings=settings, rule=checked.rule, typed=_read_boxes(clip, *boxes))
    context.recent.keep_run(run)
    notes = [f"{clip.name}, {format_clock(clip.duration_s)}, with the results of {checked.path.name}."]
    if clip.num_frames - len(run.outputs) > clip.fps:  # the last entry of a form per second lasts one
        notes.append(f"They end after {len(run.outputs)} of {format_count(clip.num_frames, 'frame')}.")
    notes += map(as_sentence, list_missing(run.settings))
    notes += [as_sentence(name_files(problem, [checked.path])) for problem in problems[:1]]
    notes += [f"{format_count(len(problems) - 1, 'more line')} of the file cannot be read."] if problems[1:] else []
    notes += ["Add a reference to score it."] if clip.sample is None else []
    open_at: Literal["first"] | None = None if clip.sample is None else "first"
    return PlayerView(
        clip=UNCHANGED_CLIP._replace(clip=clip, **({} if clip.sample is None else task_boxes(run))),
        run=show_run(run, " ".join(notes), encode=context.encode, open_at=open_at),
        buttons=cancel_run(live)._replace(live=LiveRun.finished(run)),
    )


def show_reference(
    context: AppContext,
    live: LiveRun | None,
    clip: Clip | None,
    checked: CheckedReference,
    result: CheckedResult | None,
    *boxes: str | None,
) -> PlayerView:
    """Show the upload with an accepted reference, and the open result file scored by it."""
    view = set_reference(context, live, clip, checked.path)
    if result is None or result.path is None or not isinstance(view.clip.clip, Clip):
        return view
    try:
        return show_result(context, live, view.clip.clip, result, *boxes)
    except (ValueError, OSError) as error:
        return view._replace(run=view.run._replace(status=status_line(as_sentence(error), is_problem=True)))


def _read_boxes(clip: Clip, goal: str | None = None, steps: str | None = None, user_turns: str | None = None) -> Task:
    """Return the typed task; an empty one where a line of it is invalid, which Run refuses."""
    try:
        return read_task(clip, goal=goal, steps=steps, user_turns=user_turns)
    except ValueError:
        return _NO_TASK


def _read(
    clip: Clip, path: Path, *, settings: Mapping[str, Any], rule: SignalRule | None, typed: Task = _NO_TASK
) -> tuple[Run, tuple[str, ...]]:
    """Return the results of a file as a run, and its damaged lines. Raises ``ValueError`` with file, field and cure."""
    check_size(path, limit=MAX_RESULT_BYTES)
    sample = clip.sample or _without_reference(clip, typed)
    # a reference may have a turn hours after the end of the video
    named = replace(sample, video_path=Path(clip.name), num_frames=min(sample.num_frames, find_max_frames(clip)))
    found = read_result(path, named, rule=rule)
    systems = ", ".join(found.settings["missing"])
    run = Run(
        clip=clip,
        task=build_task(sample),
        config=StreamConfig(fps=clip.fps),
        model_digest=digest_file(path)[:16],
        outputs=found.outputs,
        is_finished=True,
        settings={**settings, **found.settings, "checkpoint": f"{systems} file {path.name}", "imported": [path.name]},
    )
    return run, found.problems


def _without_reference(clip: Clip, typed: Task) -> Sample:
    return Sample(
        video_id=clip.video_id,
        video_path=None,
        fps=clip.fps,
        num_frames=clip.num_frames,
        goal=typed.goal,
        steps=typed.steps,
        turns=tuple(Turn(time_s=turn.time_s, role="user", text=turn.text) for turn in typed.user_turns),
        initial_state={},
        has_reference=False,
    )
