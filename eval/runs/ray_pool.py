"""A Ray cluster that runs the videos of a split: an actor per GPU, or per CPU core where the cluster has no GPU.

Ray places the actors and tells which died, with their node or alone; whoever is free takes the longest video left. A
video whose actor died is tried once more by another, then it has failed, with the reason. Nodes that join are used,
lost ones are not waited for unless none is left. Every node needs this package, and split and checkpoint under the same
paths. Ray is imported when a cluster is joined, and nowhere else.
"""

import re
import signal
import threading
import warnings
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from engine.errors import EngineError
from eval.runs.ray_actor import Ready, Trouble, VideoActor
from eval.runs.local_pool import MOST_DEATHS, NUM_TRIES, REPORT_S, Place
from eval.runs.progress import Station
from eval.runs.folder import VideoRecord, digest_sample
from eval.data.samples import Sample
from eval.runs.worker import VideoResult, Work

_LONGEST_REASON: Final = 300


@dataclass(slots=True, eq=False)
class _Member:
    """An actor as its driver sees it; references are Ray's."""

    name: str
    actor: Any
    pending: Any
    """What it is at: loading, then a video; None while it is free."""
    asked: Any = None
    """The question how far it is."""
    ready: Ready | None = None
    sample: Sample | None = None
    num_done: int = 0
    total_done: int = 0

    def station(self) -> Station:
        sample = self.sample
        return Station(
            name=self.name if self.ready is None else f"{self.name} ({self.ready.host})",
            video_id=None if sample is None else sample.video_id,
            num_frames=0 if sample is None else sample.num_frames,
            num_done=self.num_done,
            total_done=self.total_done + self.num_done,
        )


@dataclass(slots=True, eq=False)
class _Run:
    """The actors of one run, and the videos that wait for one."""

    ray: Any
    work: Work
    place: Place
    waiting: deque[Sample]
    members: list[_Member] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    num_deaths: int = 0

    def hire(self, num_slots: int) -> None:
        """Have Ray start as many actors as the cluster has room for and videos wait for, at least one."""
        num_busy = sum(member.sample is not None for member in self.members)
        taken = {member.name for member in self.members}
        while len(self.members) < min(max(num_slots, 1), num_busy + len(self.waiting)):
            name = next(name for number in range(1, len(taken) + 2) if (name := f"ray {number}") not in taken)
            taken.add(name)
            actor = (
                self.ray.remote(VideoActor)
                .options(
                    num_cpus=1,
                    num_gpus=1 if self.place.device == "cuda" else None,
                    scheduling_strategy="SPREAD",
                    max_concurrency=2,  # the video, and the question how far it is
                    max_restarts=0,  # a restarted actor would keep its video until Ray has room for it again
                )
                .remote(self.work, self.place)
            )
            self.members.append(_Member(name=name, actor=actor, pending=actor.load.remote()))

    def hand_out(self) -> None:
        """Give the next videos to those that are free."""
        for member in self.members:
            if member.pending is None and self.waiting:
                sample = self.waiting.popleft()
                self.tries[sample.video_id] += 1
                member.sample, member.num_done = sample, 0
                member.pending = member.actor.run.remote(sample)

    def hear(self, member: _Member) -> VideoResult | None:
        """Take what a member has done; a result when its video is finished or has failed for good."""
        try:
            answer = self.ray.get(member.pending)
        except self.ray.exceptions.RayError as error:
            return self._bury(member, _one_line(error))
        member.pending = None
        if isinstance(answer, Trouble):
            if answer.is_final:
                raise EngineError(answer.reason)
            return self._bury(member, answer.reason)
        if isinstance(answer, Ready):
            member.ready, self.num_deaths = answer, 0
            return None
        assert isinstance(answer, VideoResult)
        assert member.sample is not None
        member.total_done += member.sample.num_frames
        member.sample, member.num_done, member.asked = None, 0, None
        return answer

    def ask(self) -> None:
        """Hear how far each video is, and ask again; who does not answer is at fault elsewhere, in ``hear``."""
        for member in self.members:
            if member.sample is None:
                continue
            if member.asked is not None and self.ray.wait([member.asked], timeout=0)[0]:
                with suppress(self.ray.exceptions.RayError):
                    member.num_done = min(self.ray.get(member.asked), member.sample.num_frames)
                member.asked = None
            if member.asked is None:
                member.asked = member.actor.num_done.remote()

    def _bury(self, member: _Member, reason: str) -> VideoResult | None:
        """Drop a member that died; its video waits again, or has failed."""
        self.members.remove(member)
        self.ray.kill(member.actor)
        sample = member.sample
        if member.ready is None:
            self.num_deaths += 1
            if self.num_deaths >= MOST_DEATHS * (len(self.members) + 1):  # one node that is lost takes several along
                raise EngineError(f"{self.num_deaths} Ray actors died before they were ready: {reason}")
        if sample is None:
            return None
        if self.tries[sample.video_id] < NUM_TRIES:
            self.waiting.appendleft(sample)
            return None
        error = f"the Ray actor that ran it died {NUM_TRIES} times: {reason}"
        return VideoResult(
            record=VideoRecord(
                video_id=sample.video_id, source=digest_sample(sample), device=self.place.device, error=error
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Ray cluster that was joined; see ``join_cluster``."""

    ray: Any
    """The module."""

    def places(self) -> list[Place]:
        """Return where actors can run: all GPUs, else one thread on each CPU core; one where nothing has joined yet."""
        total = self.ray.cluster_resources()
        num_gpus, num_cpus = int(total.get("GPU", 0)), int(total.get("CPU", 0))
        place = Place(device="cuda") if num_gpus else Place(device="cpu", num_threads=1)
        return [place] * max(num_gpus or num_cpus, 1)

    def run_videos(
        self, samples: Sequence[Sample], work: Work, places: Sequence[Place]
    ) -> Generator[VideoResult | tuple[Station, ...]]:
        """Run all samples on the kind of ``places``; yields and closes as ``eval.runs.local_pool.run_videos`` does."""
        waiting = deque(map(_rooted, sorted(samples, key=lambda sample: -sample.num_frames)))
        run = _Run(ray=self.ray, work=_rooted_work(work), place=places[0], waiting=waiting)
        kind = "GPU" if run.place.device == "cuda" else "CPU"
        try:
            while run.waiting or any(member.sample is not None for member in run.members):
                run.hire(int(self.ray.cluster_resources().get(kind, 0)))
                run.hand_out()
                yield tuple(member.station() for member in run.members)
                by_pending = {member.pending: member for member in run.members if member.pending is not None}
                for pending in self.ray.wait(list(by_pending), timeout=REPORT_S)[0]:
                    result = run.hear(by_pending[pending])
                    if result is not None:
                        yield result
                run.ask()
        finally:
            for member in run.members:
                self.ray.kill(member.actor)


def is_cluster(devices: str) -> bool:
    """Whether these devices are a Ray cluster: ``ray``, or an address such as ``ray://head:10001``."""
    return devices == "ray" or devices.startswith("ray://")


@contextmanager
def join_cluster(devices: str) -> Iterator[Cluster]:
    """Join a running Ray cluster and leave it at the end; one that this program has joined before is used and kept.

    ``ray`` is the cluster of this machine, or of ``RAY_ADDRESS``. Raises ``ValueError`` when Ray is not
    installed, or the cluster not there.
    """
    ray = _import_ray()
    if ray.is_initialized():
        yield Cluster(ray=ray)
        return
    with _kept_signals(), warnings.catch_warnings(action="ignore"):  # what is wrong is said once, below
        try:
            ray.init(
                address="auto" if devices == "ray" else devices,
                log_to_driver=False,
                logging_level="ERROR",
                configure_logging=False,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = "no running Ray cluster was found" if devices == "ray" else f"no Ray cluster answers at {devices}"
            raise ValueError(
                f"{where}; start one with 'ray start --head', or name another as ray://HOST:10001"
            ) from error
    try:
        yield Cluster(ray=ray)
    finally:
        ray.shutdown()


def _rooted(sample: Sample) -> Sample:
    """Return the sample with a path that other working directories understand."""
    return sample if sample.video_path is None else replace(sample, video_path=sample.video_path.absolute())


def _rooted_work(work: Work) -> Work:
    return replace(
        work,
        checkpoint=str(Path(work.checkpoint).absolute()) if Path(work.checkpoint).exists() else work.checkpoint,
        heads=None if work.heads is None else work.heads.absolute(),
        features=None if work.features is None else work.features.absolute(),
    )


def _import_ray() -> ModuleType:
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        raise ValueError("devices ray need Ray, which is not installed: pip install '.[ray]'") from error


@contextmanager
def _kept_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray would replace."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _one_line(error: Exception) -> str:
    """Return what Ray says without its lines of ids."""
    lines = (line.strip() for line in str(error).splitlines())
    text = " ".join(line for line in lines if line and not re.fullmatch(r"[a-z_]+: \S+", line))
    text = text.removeprefix("The actor died unexpectedly before finishing this task. ")
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
