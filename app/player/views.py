"""What handlers return: views of the parts of the page, named tuples that ``app.page`` wires field by field.

Here records become component updates. Texts go into text boxes and the player; markup is made of numbers alone.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gradio as gr

from app.formatting import clock
from app.player.increments import Increments
from app.player.payload import pack_nothing, pack_run
from app.player.score_tiles import draw_scores
from app.player.session.run import Run, score_outputs, write_task
from app.reviews.events import name_events
from app.videos import Clip
from engine.control.controller import Task
from engine.io import replace_surrogates
from eval.annotations.corrected_samples import CorrectedSample
from eval.annotations.corrections import name_turns
from eval.data.samples import Sample
from eval.matching.turns import Encode
from eval.metrics.failures import JudgedVideo, worst_frame
from eval.runs.worker import task_of


class ClipView(NamedTuple):
    """The boxes of the video and its task."""

    clip: Clip | None
    video: Any
    chosen: Any
    upload: Any
    goal: Any
    steps: Any
    user_turns: Any


class RunView(NamedTuple):
    """What a run shows, while it goes on and after."""

    status: Any
    progress: Any
    player: Any
    scores: Any


UNCHANGED = RunView(status=gr.skip(), progress=gr.skip(), player=gr.skip(), scores=gr.skip())
"""What is shown stays."""


class Buttons(NamedTuple):
    """What a window has under way, and which of the two buttons can be pressed."""

    live: Any
    run: Any
    stop: Any


class Thresholds(NamedTuple):
    """The two sliders."""

    speak: Any
    update: Any


Page = tuple[Any, ...]
"""Several views one after another."""


def show_clip(clip: Clip, video: Path, *, chosen: Any) -> ClipView:
    """Show a video of a split as the file ``video``, with the task of its reference, which must be there."""
    sample = clip.sample
    assert sample is not None
    return ClipView(
        clip=clip,
        video=str(video),
        chosen=chosen,
        upload=None,
        **task_boxes(sample),
    )


def task_boxes(of: Run | Sample | Task) -> dict[str, str]:
    """Return what the boxes of the task hold for a run or a sample: ``goal``, ``steps``, ``user_turns``."""
    if isinstance(of, Run):
        return asdict(of.written or write_task(of.task))
    return asdict(write_task(task_of(of) if isinstance(of, Sample) else of))


def say(text: str, *, is_problem: bool = False) -> Any:
    """Return the status line with a sentence in it."""
    text = replace_surrogates(text)
    return gr.HTML(value=f"⚠ {text}" if is_problem else text, elem_classes=["problem"] if is_problem else [])


def say_only(status: str, *, is_problem: bool = False) -> RunView:
    """Show a sentence; all else of the run stays."""
    return UNCHANGED._replace(status=say(status, is_problem=is_problem))


def show_run(
    run: Run,
    status: str,
    *,
    encode: Encode,
    is_problem: bool = False,
    other: Run | None = None,
    open_at: float | Literal["worst"] | None = None,
    open_event: str | None = None,
    corrected: CorrectedSample | None = None,
    answers: int | None = None,
) -> RunView:
    """Show everything of a run that goes on no more; ``encode`` compares its texts with the reference's.

    The player goes to ``open_at``, in seconds or to the start of the seconds that hold most failures (the status says
    whether there are any), there to the event of the key ``open_event``. It has the lanes of the ``other`` run of the
    video, whose failures count as well, below those of this one; both are judged by the settings of this one, and with
    ``corrected`` against that reference.
    ``answers`` is the request for thresholds that is settled by it.
    """
    names = name_turns(run.clip.sample.turns) if run.clip.sample else ()
    if corrected is not None:
        run = replace(run, clip=replace(run.clip, sample=corrected.sample))
        names = tuple(turn.name for turn in corrected.turns)
        other = other and replace(other, clip=replace(other.clip, sample=corrected.sample))
    scored = score_outputs(run, encode)
    judged = None if scored is None else scored.judged
    beside = (other, _judge(replace(other, scoring=run.scoring), encode)) if other is not None else None
    if open_at == "worst":
        worst = worst_frame([of_run for of_run in (judged, beside and beside[1]) if of_run], fps=run.config.fps)
        status += " It has no failure." if worst is None else " This is its worst moment; press N for the next failure."
        longest = max(run.outputs, other.outputs if other is not None else (), key=len)
        open_at = None if worst is None else longest[worst].time_s
    return RunView(
        status=say(status, is_problem=is_problem),
        progress=_bar(len(run.outputs), run.clip.num_frames),
        player=pack_run(
            run,
            judged,
            events=name_events(run.clip.video_id, outputs=run.outputs, references=names, judged=judged),
            is_corrected=corrected is not None,
            open_at_s=open_at,
            open_event=open_event,
            other=beside,
            answers=answers,
        ),
        scores=draw_scores(scored),
    )


def _judge(run: Run, encode: Encode) -> JudgedVideo | None:
    scored = score_outputs(run, encode)
    return None if scored is None else scored.judged


def show_running(clip: Clip, increments: Increments, *, rate: float | None) -> RunView:
    """Show how far a streaming run is, with its ``rate`` in frames per second.

    Without a rate it has just begun: the player is given its stream and fetches the frames that follow.
    """
    at, end_s = clock(increments.outputs[-1].time_s), clock(clip.duration_s)
    done, total = len(increments.outputs), clip.num_frames
    pace = "" if rate is None else f"{rate:.0f} frames/s, "
    view = say_only(f"Running: {done} of {total} frames, {pace}at {at} of {end_s}.")._replace(
        progress=_bar(done, total)
    )
    return view if rate is not None else view._replace(player=increments.since(0), scores="")


def show_rerunning(run: Run, done: int, doing: str) -> RunView:
    """Show how far a run of the same frames is; all else stays until it is done."""
    total = len(run.outputs)
    return say_only(f"{doing}: {done} of {total} frames.")._replace(progress=_bar(done, total))


def show_nothing(status: str, *, clip: Clip | None = None, is_problem: bool = False) -> RunView:
    """Show a sentence alone, or with a video that has no run yet."""
    return RunView(status=say(status, is_problem=is_problem), progress=_bar(0, 1), player=pack_nothing(clip), scores="")


def _bar(done: int, total: int) -> str:
    return f'<progress value="{min(done, total)}" max="{total}" aria-label="frames done"></progress>'
