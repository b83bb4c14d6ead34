"""Event handlers of the live tab: start, stream, stop, ask, and open the recording; and the recorded sessions."""

import json
from collections.abc import Generator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import gradio as gr

from stepscope.app.controls.run_inputs import read_strategy
from stepscope.app.controls.widgets import Pace, Updates, make_ticket
from stepscope.app.core.batch_context import BatchContext, unused_folder
from stepscope.app.core.run import Run, check_has_task, check_task_text, write_task
from stepscope.app.core.videos import Clip, is_drawing
from stepscope.app.formatting import as_sentence, format_clock
from stepscope.app.live.window import LiveWindow, LiveWindows
from stepscope.app.player.opening import open_moment
from stepscope.app.player.views import COPIED, PlayerView, status_line
from stepscope.app.server.identity import current_user
from stepscope.app.templates import render
from stepscope.app.window.context import AppContext
from stepscope.app.window.landing import START
from stepscope.engine.config import StreamConfig, read_threshold
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import parse_steps
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import replace_surrogates, strip_text
from stepscope.engine.live.frames import LiveStatus
from stepscope.engine.live.session import LiveSession
from stepscope.engine.live.sources import FileSource, LiveSource, PushedSource, UrlSource
from stepscope.engine.stream import Streamer
from stepscope.engine.video.trial import try_reading
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Split, build_task
from stepscope.eval.runs.folder import OWN_SPLIT
from stepscope.eval.runs.live_recording import SESSION_NAME, LiveRecording, recover_recording
from stepscope.eval.runs.output_folder import FolderRefusedError

WEBCAM, FILE, URL = "Webcam", "Video in real time", "Network stream"
STATUS_INTERVAL_S: Final = 1.0
FIRST_LANES_S: Final = 60.0
"""Length of the empty lanes at the start of a session, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionForm:
    """The source, task and settings of a session."""

    kind: Any
    bundled: Any
    upload: Any
    url: Any
    goal: Any
    steps: Any
    speak: Any
    update: Any
    strategy: Any = None


EXPLAINED: Final[dict[str, str]] = {
    "decided": "frames for which the model has decided whether to speak and to update",
    "dropped": "frames that waited too long: the model or the encoder is too slow, and the latest frames count most",
    "without a picture": "instants at which the source delivered no picture",
    "not reached": "frames that still waited when the session ended",
    "lag": "from the arrival of the last decided picture to its decision",
    "real-time factor": "seconds of work for a second of video, over the last 64 frames; above 1, frames are dropped",
    "on time": "share of the decided and dropped frames that were decided within a second",
}
"""Explanation of each number by its label. The first two and the last three are always shown."""


def render_numbers(status: LiveStatus) -> str:
    """Return the numbers of a session as a line of HTML; empty before the first decision."""
    if not status.num_decided:
        return ""
    rarely = {"without a picture": status.num_without_picture, "not reached": status.num_not_reached}
    numbers = [  # label, value, and whether the model does not keep up
        ("decided", f"{status.num_decided:,}", False),
        ("dropped", f"{status.num_dropped:,}", status.num_dropped > 0),
        *((label, f"{count:,}", False) for label, count in rarely.items() if count),
        ("lag", f"{status.lag_s:.2f} s", False),
        ("real-time factor", f"{status.real_time_factor:.2f}", status.real_time_factor > 1),
        ("on time", f"{status.on_time_share:.0%}", False),
    ]
    return render("live_numbers", numbers=numbers, explained=EXPLAINED)


def render_explained() -> str:
    """Return the explanations of all numbers, which can be unfolded."""
    return render("live_explained", explained=EXPLAINED)


def show_message(text: str, *, is_problem: bool = False) -> Updates:
    """Return the update of the status line."""
    return Updates(status=status_line(text, is_problem=is_problem))


def show_status(text: str, status: LiveStatus, *, is_problem: bool = False) -> Updates:
    """Return the updates of the status line and of the numbers of a session."""
    return Updates(show_message(text, is_problem=is_problem), numbers=render_numbers(status))


def set_buttons(*, is_running: bool, can_open: bool = False) -> Updates:
    """Return the updates that enable the buttons for a running session, or for none."""
    return Updates(
        start=gr.Button(interactive=not is_running),
        stop=gr.Button(interactive=is_running),
        ask=gr.Button(interactive=is_running),
        open=gr.Button(interactive=can_open),
    )


def queue_session(
    context: AppContext,
    windows: LiveWindows,
    browser: str,
    window: LiveWindow | None,
    form: SessionForm,
    *,
    can_connect: bool,
) -> Updates:
    """Prepare a session, which may wait for the model. An invalid input is refused and changes nothing.

    ``browser`` is the session hash of the browser window; ``can_connect`` is whether the page opens addresses, which
    may lead to hosts that only this machine can reach.
    """
    try:
        config = replace(
            context.config,
            speak_threshold=read_threshold(form.speak, "speak"),
            update_threshold=read_threshold(form.update, "update"),
            context_strategy=read_strategy(form.strategy, context.config.context_strategy),
            max_seq_len=min(context.config.max_seq_len, context.checkpoint.model.max_context),
        )
        goal, steps = form.goal or "", form.steps or ""
        check_task_text(goal, steps)
        task = Task(goal=strip_text(replace_surrogates(goal)), steps=parse_steps(replace_surrogates(steps)))
        Streamer(context.checkpoint, config)  # refuses settings that the model cannot have
        if form.kind == URL and not can_connect:
            raise ValueError("this page opens no network streams, since others than its own machine may use it")
        source = _open_source(context, form, fps=config.fps)
        if form.kind != FILE or form.upload:
            check_has_task(source.name, task, needs_steps=config.policy.has_updates, cure="then press Start")
    except (EngineError, ValueError, OSError) as error:
        return show_message(as_sentence(error), is_problem=True)
    if window is not None:
        window.stop()
    window = LiveWindow(source=source, task=task, config=config, browser=browser)
    windows.add(window)
    monitor = {"key": window.key, "is_webcam": isinstance(source, PushedSource), "fps": config.fps}
    view = Updates(show_message("Waiting for the model."), window=window, begin=make_ticket(), numbers="")
    return Updates(view, set_buttons(is_running=True), monitor=json.dumps(monitor))


def _open_source(context: AppContext, form: SessionForm, *, fps: float) -> LiveSource:
    if form.kind == WEBCAM:
        return PushedSource()
    if form.kind == URL:
        if not form.url.strip():
            raise ValueError("there is no address; type one such as rtsp://camera.local/stream")
        return UrlSource(form.url)
    if form.upload:
        try_reading(Path(form.upload))
        return FileSource(Path(form.upload), fps=fps)
    if not form.bundled:
        raise ValueError("there is no video; choose a bundled one or upload one")
    return FileSource(context.bundled_videos.find(form.bundled).path, fps=fps)


def stream_session(context: AppContext, batches: BatchContext, window: LiveWindow | None) -> Generator[Updates]:
    """Run a queued session to its end and show its status; nothing without a queued session."""
    if window is None or window.is_started or window.is_cancelled:
        yield Updates()
        return
    window.is_started = True
    context.model_use.begin_session()
    try:
        yield from _run(context, batches, window)
    except (EngineError, ValueError, OSError) as error:
        yield Updates(show_message(as_sentence(error), is_problem=True), set_buttons(is_running=False))
    finally:
        context.model_use.end_session()
        window.ended.set()


def _run(context: AppContext, batches: BatchContext, window: LiveWindow) -> Generator[Updates]:
    secret = f"-{token_hex(8)}" if batches.recent.has_visitors else ""  # the name is the link
    folder = unused_folder(batches.runs / f"live-{datetime.now():%Y%m%d-%H%M%S}{secret}")
    window.folder_name = folder.name
    origin = {"is_drawing": isinstance(window.source, FileSource) and is_drawing(window.source.path)}
    recording = LiveRecording(
        folder,
        task=window.task,
        config=window.config,
        checkpoint=context.checkpoint,
        source=window.source.name,
        scoring=asdict(batches.jobs.scoring) | dict(context.encoder) | origin,
    )
    batches.recent.own_split(folder / OWN_SPLIT, current_user.get())
    session = window.session = LiveSession(
        context.checkpoint,
        window.source,
        task=window.task,
        config=window.config,
        on_output=recording.add,
        on_picture=recording.video.write,
        on_question=recording.add_question,
    )
    increments = context.streams.begin(
        _begin_run(context, window, folder, origin), outputs=recording.outputs, user_turns=session.asked.turns
    )
    session.on_text = increments.show_text
    has_yielded = False
    try:
        session.start()
        yield Updates(player=increments.since(0))
        pace = Pace(STATUS_INTERVAL_S, due_at_once=False)
        while not session.ended.wait(0.1) and not window.is_cancelled:
            session.check()
            if has_yielded := context.model_use.must_yield:
                break
            if pace.is_due():
                status = session.status
                words = status.sentence or f"Streaming, {format_clock(status.time_s)}."
                yield show_status(f"{context.model_use.describe_waiting()} {words}".strip(), status)
    finally:
        session.stop()
        is_recorded = recording.finish() is not None
        if is_recorded:
            add_recorded(batches.splits, folder)
            window.run_name = folder.name
    status = session.status
    where = f" Recorded as {folder.name}." if is_recorded else ""
    end = "Stopped, because others wait for the model." if has_yielded else "Stopped."
    text = as_sentence(status.sentence) if status.problem or not is_recorded else f"{end} {status.sentence}".strip()
    view = Updates(show_status(f"{text}{where}", status, is_problem=bool(status.problem)), monitor="")
    if not is_recorded:
        view.player = ""  # lanes without a frame would seem to be loading
    yield Updates(view, set_buttons(is_running=False, can_open=is_recorded))


def _begin_run(context: AppContext, window: LiveWindow, folder: Path, origin: Mapping[str, Any]) -> Run:
    config: StreamConfig = window.config
    clip = Clip(
        name=window.source.name,
        path=folder / "video.mp4",
        fps=config.fps,
        num_frames=round(FIRST_LANES_S * config.fps),
        duration_s=FIRST_LANES_S,
    )
    return Run(
        clip=clip,
        task=window.task,
        config=config,
        model_digest=context.checkpoint.digest,
        settings={**context.settings, **origin},
    )


def stop_session(window: LiveWindow | None) -> None:
    """Cancel the session; ``stream_session`` shows its end."""
    if window is not None:
        window.is_cancelled = True


def show_cancelled(window: LiveWindow | None) -> Updates:
    """Enable Start after the cancellation of a session that still waited for the model, and end its wait."""
    if window is None or window.is_started:
        return Updates()
    view = show_message("Stopped before it started.")
    return Updates(view, set_buttons(is_running=False), monitor="", withdraw=make_ticket())


def ask(window: LiveWindow | None, question: str) -> Updates:
    """Ask a question, which is answered at the next frame."""
    try:
        if window is None or window.session is None:
            raise ValueError("no session runs; press Start first")
        window.session.ask(replace_surrogates(question or ""))
    except ValueError as error:
        return show_message(as_sentence(error), is_problem=True)
    return Updates(show_message("Asked; the answer comes at the next frame."), question="")


def open_recording(context: AppContext, batches: BatchContext, window: LiveWindow | None) -> PlayerView:
    """Show the recorded session in the player, with the way to a reference of its own."""
    name = window.run_name if window is not None else ""
    view = open_moment(context, batches, name, names=(name,), destination=START)
    if not isinstance(view.clip, Clip):
        return view  # it could not be opened
    return PlayerView(view, status=status_line(f"{name}, {format_clock(view.clip.duration_s)}. {COPIED}"))


def fill_task(context: AppContext, name: str | None) -> Updates:
    """Return goal and steps of a bundled video."""
    clip = next((clip for clip in context.bundled_videos.clips if clip.name == name), None)
    if clip is None or clip.sample is None:
        return Updates(goal="", steps="")
    task = write_task(build_task(clip.sample))
    return Updates(goal=task.goal, steps=task.steps)


def add_recorded(splits: MutableMapping[str, Split], folder: Path) -> None:
    """Add the split of a recorded session, named after its folder. Raises ``ValueError`` if it cannot be read."""
    splits[folder.name] = read_split(folder / OWN_SPLIT)


def read_recorded(splits: MutableMapping[str, Split], runs: Path) -> list[str]:
    """Add the splits of all recorded sessions; return one message per unreadable session.

    A session whose process was killed is completed first.
    """
    problems = []
    for path in sorted(runs.glob(f"*/{SESSION_NAME}")):
        try:
            with suppress(FolderRefusedError):  # another program records it
                recover_recording(path.parent)
        except (EngineError, ValueError, OSError) as error:
            problems.append(f"The recorded session {path.parent.name} cannot be completed: {as_sentence(error)}")
    for path in sorted(runs.glob(f"*/{OWN_SPLIT}")):
        try:
            if path.parent.name not in splits:
                add_recorded(splits, path.parent)
        except ValueError as error:
            problems.append(f"The recorded session {path.parent.name} is skipped: {error}.")
    return problems
