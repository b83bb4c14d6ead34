"""Processes on this machine that run the videos of a split: one per device, longest video first, work as it is free.

A process that dies is replaced and its video tried once more; then the video has failed, with the reason. The processes
end with the one that started them, whatever ends it, and leave no half files unless they are themselves killed by -9.
They come from a fork server that has read the libraries but run nothing, so a replacement starts at once.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, NoReturn

import torch
from transformers.utils import logging as transformers_logging

from engine.loading import load_model
from engine.errors import EngineError
from eval.runs.progress import Station
from eval.runs.folder import VideoRecord, digest_sample
from eval.data.samples import Sample
from eval.runs.worker import VideoResult, Work, run_sample

NUM_TRIES: Final = 2
"""How often a video is begun."""
MOST_DEATHS: Final = 3
"""So many processes in a row may die before they are ready."""
REPORT_S: Final = 0.25
"""So often is told how far all is."""
_PATIENCE_S: Final = 10.0
_CONTEXT: Final = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one process runs."""

    device: str
    """A torch device."""
    num_threads: int | None = None
    """Torch threads; None leaves that to torch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frames:
    """A process says how many frames of its video are done."""

    num_done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """A process has loaded the checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    """A process cannot go on: nothing will help (``is_final``), or its last words."""

    reason: str
    is_final: bool


@dataclass(slots=True, eq=False)
class _Member:
    """A process as its parent sees it."""

    name: str
    place: Place
    process: BaseProcess
    connection: Connection
    is_ready: bool = False
    sample: Sample | None = None
    num_done: int = 0
    total_done: int = 0
    last_words: str = ""

    def station(self) -> Station:
        sample = self.sample
        return Station(
            name=self.name,
            pid=self.process.pid,
            video_id=None if sample is None else sample.video_id,
            num_frames=0 if sample is None else sample.num_frames,
            num_done=self.num_done,
            total_done=self.total_done + self.num_done,
        )


@dataclass(slots=True, eq=False)
class _Crew:
    """The processes, and the videos that wait for one."""

    work: Work
    waiting: deque[Sample]
    members: list[_Member] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    num_deaths: int = 0

    def hire(self, name: str, place: Place, *, total_done: int = 0) -> _Member:
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(
            target=_serve, args=(theirs, self.work, place), name=f"stepscope {name}", daemon=True
        )
        process.start()
        theirs.close()
        return _Member(name=name, place=place, process=process, connection=ours, total_done=total_done)

    def hand_out(self) -> None:
        """Give the next videos to those that are free."""
        for member in self.members:
            if member.is_ready and member.sample is None and self.waiting:
                member.sample = self.waiting.popleft()
                self.tries[member.sample.video_id] += 1
                try:
                    member.connection.send(member.sample)
                except OSError:
                    continue  # it is dead, which its end of the pipe tells in a moment

    def hear(self, member: _Member) -> VideoResult | None:
        """Take what a member says; a result when its video is finished or has failed for good."""
        try:
            message = member.connection.recv()
        except (EOFError, OSError):
            return self._bury(member)
        if isinstance(message, _Trouble):
            if message.is_final:
                raise EngineError(message.reason)
            member.last_words = message.reason
        elif isinstance(message, _Ready):
            member.is_ready, self.num_deaths = True, 0
        elif isinstance(message, _Frames):
            member.num_done = message.num_done
        else:
            assert isinstance(message, VideoResult)
            assert member.sample is not None
            member.total_done += member.sample.num_frames
            member.sample, member.num_done = None, 0
            return message
        return None

    def _bury(self, member: _Member) -> VideoResult | None:
        """Replace a member that died; its video waits again, or has failed."""
        member.process.join()
        reason = member.last_words or _cause(member.process.exitcode)
        member.connection.close()
        self.members.remove(member)
        sample = member.sample
        if not member.is_ready:
            self.num_deaths += 1
            if self.num_deaths >= MOST_DEATHS:
                raise EngineError(f"{self.num_deaths} processes for {member.place.device} died at once: {reason}")
        has_failed = sample is not None and self.tries[sample.video_id] >= NUM_TRIES
        if sample is not None and not has_failed:
            self.waiting.appendleft(sample)
        if self.waiting:
            self.members.append(self.hire(member.name, member.place, total_done=member.total_done))
        if sample is None or not has_failed:
            return None
        error = f"the process that ran it died {NUM_TRIES} times: {reason}"
        return VideoResult(
            record=VideoRecord(
                video_id=sample.video_id, source=digest_sample(sample), device=member.place.device, error=error
            )
        )

    def dismiss(self) -> None:
        """End every process, with force if need be."""
        for member in self.members:
            member.process.terminate()
            member.connection.close()  # so that one that waits for a video hears of it too
        until = time.monotonic() + _PATIENCE_S
        for member in self.members:
            member.process.join(max(until - time.monotonic(), 0))
            if member.process.exitcode is None:
                member.process.kill()
                member.process.join()


def run_videos(
    samples: Sequence[Sample], work: Work, places: Sequence[Place]
) -> Generator[VideoResult | tuple[Station, ...]]:
    """Run all samples on processes of this machine; yield each result as it comes, and what all are at now and then.

    Closing the generator ends the processes. Raises ``EngineError`` when a process cannot load the checkpoint.
    """
    crew = _Crew(work=work, waiting=deque(sorted(samples, key=lambda sample: -sample.num_frames)))
    _CONTEXT.set_forkserver_preload([__name__])
    names = _names(places[: len(samples)])
    try:
        for name, place in zip(names, places, strict=False):
            crew.members.append(crew.hire(name, place))
        while crew.waiting or any(member.sample is not None for member in crew.members):
            yield tuple(member.station() for member in crew.members)
            by_connection = {member.connection: member for member in crew.members}
            for connection in wait(list(by_connection), timeout=REPORT_S):
                assert isinstance(connection, Connection)
                result = crew.hear(by_connection[connection])
                crew.hand_out()
                if result is not None:
                    yield result
    finally:
        crew.dismiss()


def _names(places: Sequence[Place]) -> list[str]:
    devices = [place.device for place in places]
    numbers = Counter[str]()
    names = []
    for device in devices:
        numbers[device] += 1
        names.append(device if devices.count(device) == 1 else f"{device} {numbers[device]}")
    return names


def _cause(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        hint = "; out of memory, or killed by hand" if exit_code == -signal.SIGKILL else ""
        return f"signal {-exit_code} ({signal.strsignal(-exit_code)}{hint})"
    return f"exit code {exit_code}"


def _serve(connection: Connection, work: Work, place: Place) -> None:
    """Load the checkpoint, then run what comes: the whole life of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this one
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_follow_parent, daemon=True).start()
    transformers_logging.disable_progress_bar()
    if place.num_threads is not None:
        torch.set_num_threads(place.num_threads)
    try:
        checkpoint = load_model(work.checkpoint, device=place.device, heads=work.heads)
    except (EngineError, ValueError, OSError) as error:
        connection.send(_Trouble(reason=str(error), is_final=True))
        return
    reported_s = 0.0

    def report(num_done: int) -> None:
        nonlocal reported_s
        if time.monotonic() - reported_s > REPORT_S:
            reported_s = time.monotonic()
            connection.send(_Frames(num_done=num_done))

    connection.send(_Ready())
    try:
        while True:
            connection.send(run_sample(checkpoint, work, connection.recv(), device=place.device, on_frame=report))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent has closed its end
    except OSError as error:
        connection.send(_Trouble(reason=str(error), is_final=True))
    except Exception as error:
        connection.send(_Trouble(reason=f"{type(error).__name__}: {error}", is_final=False))
        raise


def _leave(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def _follow_parent() -> None:
    """End this process when its parent has ended, so that it cleans up behind itself."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE_S)
    os._exit(1)
