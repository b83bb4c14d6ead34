"""Views: updates of the player's components by name, as ``app.player.tab`` wires them (see ``app.controls.widgets``).

Texts are only passed to text boxes and the player; templates of HTML receive numbers and definitions of metrics.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import gradio as gr

from stepscope.app.controls.widgets import Updates
from stepscope.app.core.run import Run, analyze_run, write_task
from stepscope.app.core.videos import Clip
from stepscope.app.formatting import format_clock, format_rate
from stepscope.app.player.score_tiles import render_baselines, render_scores
from stepscope.app.review_store.events import name_events
from stepscope.app.templates import render
from stepscope.app.window.increments import StreamIncrements
from stepscope.app.window.landing import STAY, Destination, find_landing
from stepscope.app.window.payload import pack_nothing, pack_run
from stepscope.engine.control.task import Task
from stepscope.engine.io.files import replace_surrogates, show_turns
from stepscope.engine.plurals import format_count
from stepscope.eval.annotations.corrected_samples import CorrectedSample
from stepscope.eval.annotations.corrections import name_turns
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.matching.turns import Encode
from stepscope.eval.reports.scoring import describe_scoring


class PlayerView(Updates):
    """Updates of the components of the player's tab, and of the fields of the ``Window``, by name."""


@dataclass(frozen=True, kw_only=True)
class PlayerComponents:
    """The components of the player's tab that its handlers update."""

    window: Any
    """The ``gr.State`` of the ``Window``."""
    video: Any
    upload: Any
    goal: Any
    steps: Any
    user_turns: Any
    status: Any
    progress: Any
    player: Any
    scores: Any
    run: Any
    stop: Any
    speak: Any
    update: Any
    strategy: Any
    """The context strategy of the next run."""
    tabs: Any
    """The ``gr.Tabs`` of the page."""

    def choose(self, *names: str) -> dict[str, Any]:
        """Return some components by their names."""
        return {name: getattr(self, name) for name in names}

    @property
    def of_run(self) -> dict[str, Any]:
        """The components that a run updates while it streams."""
        return self.choose("status", "progress", "player", "scores")

    @property
    def task(self) -> list[Any]:
        """The boxes of the task."""
        return [self.goal, self.steps, self.user_turns]

    @property
    def sliders(self) -> list[Any]:
        """The sliders of the thresholds."""
        return [self.speak, self.update]


NO_REFERENCE: Final = "It has no reference to score against."
OTHER_STEPS: Final = "No scores: the steps differ from those of the reference."
COPIED: Final = (
    "It has no scores: its turns are a copy of the model's own. Correct them in Review, beside the video, "
    "and turn on “score by corrected”."
)


def show_clip(clip: Clip, video: Path | None, *, run: Run | None = None) -> PlayerView:
    """Return the view of a clip, played from the file ``video``; without a reference its ``run`` has the task."""
    boxes = task_boxes(clip.sample or run or Task())
    return PlayerView(clip=clip, video=video and str(video), upload=None, **boxes)


def task_boxes(source: Run | Sample | Task) -> dict[str, str]:
    """Return the texts of the task boxes: ``goal``, ``steps``, ``user_turns``."""
    if isinstance(source, Run):
        return asdict(source.typed_task or write_task(source.task))
    return asdict(write_task(build_task(source) if isinstance(source, Sample) else source))


def status_line(text: str, *, is_problem: bool = False) -> Any:
    """Return the update of a status line; a problem is marked with ⚠ and a border."""
    text = show_turns(replace_surrogates(text))
    return gr.HTML(value=f"⚠ {text}" if is_problem else text, elem_classes=["problem"] if is_problem else [])


def show_status(status: str, *, is_problem: bool = False) -> PlayerView:
    """Return a view that changes the status line only."""
    return PlayerView(status=status_line(status, is_problem=is_problem))


def show_run(
    run: Run,
    status: str = "",
    *,
    encode: Encode,
    is_problem: bool = False,
    other: Run | None = None,
    destination: Destination = STAY,
    corrected: CorrectedSample | None = None,
    answers: int | None = None,
) -> PlayerView:
    """Return the complete view of a run that has ended.

    Args:
        run: The run, scored by its own settings.
        status: Text of the status line, of what has happened.
        encode: Sentence encoder that compares generated texts with the reference.
        is_problem: Whether the status is a problem.
        other: A second run of the video, whose lanes are shown below and scored by the settings of ``run``.
        destination: Where the player goes.
        corrected: The corrected reference to score against; None for the source reference.
        answers: Number of the threshold request that this view answers.
    """
    names = name_turns(run.clip.sample.turns) if run.clip.sample else ()
    if corrected is not None:
        run = replace(run, clip=replace(run.clip, sample=corrected.sample), judge=None)  # it knows the source alone
        names = tuple(turn.name for turn in corrected.turns)
        other = other and replace(other, clip=replace(other.clip, sample=corrected.sample))
    analysis = analyze_run(run, encode)
    below = analyze_run(replace(other, scoring=run.scoring), encode) if other is not None else None
    judged, beside = (found.judged if found is not None else None for found in (analysis, below))
    events = name_events(run.clip.video_id, outputs=run.outputs, references=names, judged=judged)
    if run.is_finished and 0 < len(run.outputs) < run.clip.num_frames:
        status += f" It has {len(run.outputs)} of {format_count(run.clip.num_frames, 'frame')}."
    pair = (other, beside) if other is not None else None
    landing = find_landing(destination, run, judged, events, other=pair)
    if judged is None and run.outputs and destination.at not in (None, "first from start"):
        no_reference = OTHER_STEPS if run.has_other_steps else NO_REFERENCE
        status += f" {COPIED if run.clip.sample is not None and run.clip.sample.is_copied else no_reference}"
    return PlayerView(
        status=status_line(status.strip(), is_problem=is_problem),
        progress="",
        player=pack_run(
            run,
            judged,
            events=events,
            is_corrected=corrected is not None,
            landing=landing,
            other=pair,
            answers=answers,
        ),
        scores=render_scores(
            analysis, run.reference, describe_scoring(run.scoring_settings), rules=run.provenance.rules
        )
        + (render_baselines(run, encode) if analysis and run.is_untrained else ""),
    )


def show_running(clip: Clip, increments: StreamIncrements, *, rate: float | None, usage: str = "") -> PlayerView:
    """Return the progress of a streaming run, with its ``rate`` in frames per second, and its ``usage`` as text.

    Without a rate the run has just started: the player receives the stream id, and fetches all further frames itself.
    """
    at, end_s = format_clock(increments.outputs[-1].time_s), format_clock(clip.duration_s)
    done, total = len(increments.outputs), clip.num_frames
    pace = "" if rate is None else f"{format_rate(rate)}, {format_clock((total - done) / rate)} left, {usage}"
    view = show_status(f"Running: {done} of {format_count(total, 'frame')}, {pace}at {at} of {end_s}.")
    view.progress = _bar(done, total)
    return view if rate is not None else PlayerView(view, player=increments.since(0), scores="")


def show_rerunning(run: Run, done: int, action: str) -> PlayerView:
    """Return the progress of a re-run; the previous run stays visible until it is done."""
    total = len(run.outputs) or run.clip.num_frames
    shown = show_status(f"{action}: {done} of {format_count(total, 'frame')}.")
    return PlayerView(shown, progress=_bar(done, total))


def show_nothing(status: str, *, clip: Clip | None = None, is_problem: bool = False) -> PlayerView:
    """Return a view with the status line, and optionally a video that has no run yet."""
    shown = show_status(status, is_problem=is_problem)
    return PlayerView(shown, progress="", player=pack_nothing(clip), scores="")


def _bar(done: int, total: int) -> str:
    return render("progress", done=done, total=total)
