"""What handlers return: views of the parts of the page, named tuples that ``app.ui`` wires field by field.

Here records become component updates. Texts go into text boxes and table cells; markup is made of numbers alone.
"""

from dataclasses import dataclass, field
from threading import Event
from typing import Any, NamedTuple

import gradio as gr

from app.charts import draw_run
from app.clips import Clip
from app.runs import Run
from app.scores import draw_scores
from app.transcript import HEADERS, STATE_HEADERS, state_rows, transcript_rows
from app.words import clock
from eval.metrics import Encode

LONGEST_FRAME_S = 60.0
"""Longest wait for a run to end that was told to: one pass of a slow model."""
WIDTHS = ["12%", "18%", "30%", "11%", "29%"]
WIDTHS_ALONE = ["12%", "18%", "59%", "11%"]
"""Widths of the transcript's columns, with and without a reference."""


@dataclass(slots=True, kw_only=True)
class LiveRun:
    """What a window has under way, from one click on Run to its end; the thread that streams writes into it."""

    run: Run | None = None
    """The run so far; None before its first frame."""
    is_started: bool = False
    """Whether it has had its turn."""
    is_wanted: bool = True
    """Whether it shall go on."""
    ended: Event = field(default_factory=Event)
    """Set when nothing more will come."""

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
    transcript: Any
    scores: Any
    charts: Any
    states: Any


class Buttons(NamedTuple):
    """What a window has under way, and which of the two buttons can be pressed."""

    live: Any
    run: Any
    stop: Any


Page = tuple[Any, ...]
"""Several views one after another."""


def say(text: str, *, is_problem: bool = False) -> Any:
    """Return the status line with a sentence in it."""
    return gr.Textbox(value=f"⚠ {text}" if is_problem else text, elem_classes=["problem"] if is_problem else [])


def show_run(run: Run, status: str, *, encode: Encode, is_problem: bool = False) -> RunView:
    """Show everything of a run that goes on no more; ``encode`` compares its texts with the reference's."""
    return RunView(
        status=say(status, is_problem=is_problem),
        progress=_bar(len(run.outputs), run.clip.num_frames),
        transcript=_transcript(run),
        scores=draw_scores(run, encode),
        charts=draw_run(run) if run.outputs else None,
        states=_states(run),
    )


def show_running(run: Run, *, rate: float) -> RunView:
    """Show what there is of a run that goes on, at ``rate`` frames a second."""
    at, end_s = clock(run.reached_s), clock(run.clip.duration_s)
    done, total = len(run.outputs), run.clip.num_frames
    return RunView(
        status=say(f"Running: {done} of {total} frames, {rate:.0f} frames/s, at {at} of {end_s}."),
        progress=_bar(done, total),
        transcript=_transcript(run),
        scores="",
        charts=gr.skip(),
        states=_states(run),
    )


def show_nothing(status: str, *, is_problem: bool = False) -> RunView:
    """Show a sentence alone."""
    said = say(status, is_problem=is_problem)
    return RunView(status=said, progress=_bar(0, 1), transcript=[], scores="", charts=None, states=[])


def _transcript(run: Run) -> Any:
    return _table(run, HEADERS, transcript_rows(run), column_widths=WIDTHS if run.clip.sample else WIDTHS_ALONE)


def _states(run: Run) -> Any:
    return _table(run, STATE_HEADERS, state_rows(run))


def _table(run: Run, headers: list[str], rows: list[list[str]], **settings: Any) -> Any:
    """Return a table, without its last column where there is no reference to fill it."""
    width = len(headers) if run.clip.sample else len(headers) - 1
    return gr.Dataframe(value={"headers": headers[:width], "data": [row[:width] for row in rows]}, **settings)


def _bar(done: int, total: int) -> str:
    return f'<progress value="{min(done, total)}" max="{total}" aria-label="frames done"></progress>'
