"""The command ``live``: stream a camera, a network stream or a file in real time, and record the session."""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from stepscope.engine.cli.commands import load_checkpoint, read_task
from stepscope.engine.live.session import LiveOptions, LiveSession
from stepscope.engine.live.sources import Clock, FileSource, LiveSource, UrlSource
from stepscope.engine.plurals import format_count
from stepscope.engine.records import FrameOutput
from stepscope.eval.cli.options import LiveCommandOptions, RecoverOptions
from stepscope.eval.matching.turns import DEFAULT_ENCODER
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.live_recording import SESSION_NAME, LiveRecording, recover_recording

_POLL_S = 0.2
_STATUS_S = 5.0


def live(options: LiveCommandOptions) -> int:
    """Stream a live source until it ends or Ctrl-C; return 1 if it was lost."""
    name, fps = options.source, options.stream.fps
    source: LiveSource = UrlSource(name) if "://" in name else FileSource(Path(name).expanduser(), fps=fps)
    task = read_task(options)
    checkpoint = load_checkpoint(options)
    config = checkpoint.fit_config(options.stream)
    recording = LiveRecording(
        options.out,
        task=task,
        config=config,
        checkpoint=checkpoint,
        source=source.name,
        scoring=asdict(ScoreSettings(text_encoder=DEFAULT_ENCODER)),
    )
    lines: SimpleQueue[str] = SimpleQueue()

    def add(output: FrameOutput) -> None:
        recording.add(output)
        for text in (*output.updates, *([output.response] if output.response else ())):
            lines.put(f"{output.time_s:7.1f} s  {text}")

    limits = LiveOptions(on_time_s=options.on_time_s, stall_s=options.stall_s, queue_frames=options.queue_frames)
    session = LiveSession(
        checkpoint,
        source,
        task=task,
        config=config,
        options=limits,
        on_output=add,
        on_picture=recording.video.write,
        on_question=recording.add_question,
    )
    try:
        session.start()
        Thread(target=_read_questions, args=(session, lines.put), daemon=True).start()
        _follow(session, lines)
    except KeyboardInterrupt:
        print("stopping", file=sys.stderr)
    finally:
        session.stop()
        sample = recording.finish()
    _print_lines(lines)
    print(session.status.describe())
    print(f"recorded in {options.out}" if sample else "nothing was recorded: no frame arrived")
    return 1 if session.problem else 0


def recover(options: RecoverOptions) -> int:
    """Complete the recording of a live session whose process was killed."""
    if not (options.folder / SESSION_NAME).is_file():
        raise ValueError(f"{options.folder} is not the folder of an unfinished session; nothing was changed")
    sample = recover_recording(options.folder)
    print(
        f"{options.folder}: {format_count(sample.num_frames, 'frame')}"
        if sample
        else "nothing was recorded: no frame was decided"
    )
    return 0


def _follow(session: LiveSession, lines: "SimpleQueue[str]") -> None:
    """Print the texts as they come, and the status every few seconds."""
    clock = Clock()
    shown_s = clock.now()
    while not clock.wait(session.ended, _POLL_S):
        session.check()
        _print_lines(lines)
        if clock.now() - shown_s >= _STATUS_S:
            shown_s = clock.now()
            print(session.status.describe(), file=sys.stderr, flush=True)


def _print_lines(lines: "SimpleQueue[str]") -> None:
    with suppress(Empty):
        while True:
            print(lines.get_nowait(), flush=True)


def _read_questions(session: LiveSession, report: Callable[[str], None]) -> None:
    for line in sys.stdin:
        try:
            session.ask(line)
        except ValueError as error:
            report(f"not asked: {error}")
