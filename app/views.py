"""What handlers return: views of the parts of the page, named tuples that ``app.ui`` wires field by field.

Here records become component updates. Texts go into text boxes and the player; markup is made of numbers alone.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, Literal, NamedTuple, Self

import gradio as gr

from app.clips import Clip
from app.player.pack import pack_run
from app.reviews.events import name_events
from app.runs import Run
from app.scores import draw_scores
from app.words import clock
from engine.replay import Recording
from eval.corrections import CorrectedSample, name_turns
from eval.failures import JudgedVideo, judge_video, worst_frame
from eval.matching import Encode

LONGEST_FRAME_S = 60.0
"""Longest wait for a run to end that was told to: one pass of a slow model."""


@dataclass(slots=True, kw_only=True)
class LiveRun:
    """What a window has under way, from one click on Run to its end; the thread that streams writes into it."""

    run: Run | None = None
    """The run so far; None before its first frame."""
    is_started: bool = False
    """Whether it has had its turn."""
    is_wanted: bool = True
    """Whether it shall go on."""
    recording: Recording | None = None
    """The run as the engine keeps it, to try other thresholds on; None when it is too large to be kept."""
    other: Run | None = None
    """Another run of the video, whose lanes are shown below."""
    linked_digest: str | None = None
    """Digest of the run that a link asks for."""
    ended: Event = field(default_factory=Event)
    """Set when nothing more will come."""

    @classmethod
    def over(cls, run: Run, *, other: Run | None = None) -> Self:
        """Return a run that has ended elsewhere."""
        live = cls(run=run, other=other, is_started=True)
        live.ended.set()
        return live

    def stop(self) -> None:
        """Ask it to end, and wait until nothing more can come."""
        self.is_wanted = False
        if self.is_started:
            self.ended.wait(timeout=LONGEST_FRAME_S)


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
        goal=sample.goal,
        steps="\n".join(f"{step.id}: {step.name}" for step in sample.steps),
        user_turns="\n".join(f"{str(turn.time_s).removesuffix('.0')}: {turn.text}" for turn in sample.user_turns),
    )


def say(text: str, *, is_problem: bool = False) -> Any:
    """Return the status line with a sentence in it."""
    return gr.Textbox(value=f"⚠ {text}" if is_problem else text, elem_classes=["problem"] if is_problem else [])


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
) -> RunView:
    """Show everything of a run that goes on no more; ``encode`` compares its texts with the reference's.

    The player goes to ``open_at``, in seconds or to the start of the seconds that hold most failures (the status says
    whether there are any), there to the event of the key ``open_event``. It has the lanes of the ``other`` run of the
    video, whose failures count as well, below those of this one. With ``corrected`` both are judged against that.
    """
    names = name_turns(run.clip.sample.turns) if run.clip.sample else ()
    if corrected is not None:
        run = replace(run, clip=replace(run.clip, sample=corrected.sample))
        names = tuple(turn.name for turn in corrected.turns)
        other = other and replace(other, clip=replace(other.clip, sample=corrected.sample))
    judged = _judge(run, encode)
    beside = (other, _judge(other, encode)) if other is not None else None
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
        ),
        scores=draw_scores(run, encode),
    )


def _judge(run: Run, encode: Encode) -> JudgedVideo | None:
    sample = run.clip.sample
    return judge_video(sample, run.outputs, encode=encode) if sample is not None and run.outputs else None


def show_running(run: Run, *, rate: float) -> RunView:
    """Show what there is of a run that goes on, at ``rate`` frames a second."""
    at, end_s = clock(run.reached_s), clock(run.clip.duration_s)
    done, total = len(run.outputs), run.clip.num_frames
    return RunView(
        status=say(f"Running: {done} of {total} frames, {rate:.0f} frames/s, at {at} of {end_s}."),
        progress=_bar(done, total),
        player=pack_run(run),
        scores="",
    )


def show_nothing(status: str, *, is_problem: bool = False) -> RunView:
    """Show a sentence alone."""
    return RunView(status=say(status, is_problem=is_problem), progress=_bar(0, 1), player="", scores="")


def _bar(done: int, total: int) -> str:
    return f'<progress value="{min(done, total)}" max="{total}" aria-label="frames done"></progress>'
