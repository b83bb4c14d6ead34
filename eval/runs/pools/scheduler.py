"""The queue of videos of a batch: longest first, as many per worker as it runs at once, retries after a worker died.

The videos in flight when a worker dies run alone on a worker from then on. A video has failed once two workers died
that ran it alone. So a video that kills its worker never takes a neighbour along.

``run_scheduler`` holds the logic that all back ends share and starts no process itself. A back end starts workers,
sends them videos and reports their events: ``eval.runs.pools.local_pool`` for processes on this machine,
``eval.runs.pools.ray_pool`` for actors on a Ray cluster. A worker is known by its name, which only one live worker has.
"""

from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final, Protocol

from stepscope.engine.errors import EngineError
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.folder import VideoRecord, digest_sample
from stepscope.eval.runs.worker_messages import (
    REPORT_INTERVAL_S,
    FramesDone,
    VideoResult,
    VideoStatus,
    WorkerError,
    WorkerReady,
    WorkerSpec,
    WorkerStatus,
    WorkerUsage,
)

MAX_DEATHS: Final = 2
"""Workers that may die while they run a video alone, until the video has failed."""
MAX_STARTUP_FAILURES: Final = 3
"""Workers in a row that may die before they are ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerExited:
    """A worker has ended; its back end has released it."""

    reason: str


WorkerEvent = WorkerReady | FramesDone | VideoResult | WorkerError | WorkerExited


class Backend(Protocol):
    """Starts and stops workers, and carries videos and events between them and the scheduler."""

    @property
    def worker_kind(self) -> str:
        """One worker in an error message, such as ``process``."""

    def slots(self) -> Mapping[str, WorkerSpec]:
        """Return the workers that can run at this moment by name, at least one; a cluster may grow and shrink."""

    def max_startup_failures(self, num_workers: int) -> int:
        """Return how many workers in a row may die before they are ready, while ``num_workers`` live."""

    def start_worker(self, name: str, spec: WorkerSpec) -> int | None:
        """Start a worker; return its process id if it runs on this machine."""

    def dispatch(self, name: str, sample: Sample) -> None:
        """Send a further video to a worker that is ready. A dead worker is reported by ``poll``, not here."""

    def poll(self, timeout_s: float) -> Iterable[tuple[str, WorkerEvent]]:
        """Yield events by worker name, after at most ``timeout_s`` seconds without one."""

    def shutdown(self) -> None:
        """Stop all workers, by force if necessary."""


@dataclass(slots=True, eq=False)
class _Worker:
    """The scheduler's view of one live worker."""

    name: str
    spec: WorkerSpec
    pid: int | None
    host: str = ""
    num_videos: int = 0
    """Videos that it runs at once; 0 until it is ready."""
    samples: dict[str, Sample] = field(default_factory=dict)
    num_done: Counter[str] = field(default_factory=Counter)
    usage: WorkerUsage | None = None
    error: str = ""


class _Scheduler:
    """The queue, the live workers, and the attempts per video."""

    def __init__(self, samples: Sequence[Sample], backend: Backend) -> None:
        self._backend = backend
        # The longest first: a long video at the end would leave the other workers idle.
        self._queue = deque(sorted(samples, key=lambda sample: -sample.num_frames))
        self._workers: dict[str, _Worker] = {}
        self._deaths = Counter[str]()  # of workers that ran the video alone
        self._suspects = set[str]()  # videos in flight at a death, each of which runs alone from then on
        self._frames_done = Counter[str]()  # of finished videos, by worker name, so that a replacement continues it
        self._num_startup_failures = 0

    @property
    def num_left(self) -> int:
        """The number of videos that wait or run."""
        return len(self._queue) + sum(len(worker.samples) for worker in self._workers.values())

    def statuses(self) -> tuple[WorkerStatus, ...]:
        """Return the status of every live worker."""
        return tuple(
            WorkerStatus(
                name=f"{worker.name} ({worker.host})" if worker.host else worker.name,
                pid=worker.pid,
                videos=tuple(
                    VideoStatus(video_id=video_id, num_frames=sample.num_frames, num_done=worker.num_done[video_id])
                    for video_id, sample in worker.samples.items()
                ),
                total_done=self._frames_done[worker.name] + worker.num_done.total(),
                usage=worker.usage if worker.samples else None,
            )
            for worker in self._workers.values()
        )

    def start_workers(self) -> None:
        """Start workers in vacant slots, but no more workers than there are videos left.

        With 4 slots, 2 running videos and 1 waiting video, a third worker is started and the fourth slot stays vacant.
        """
        slots = self._backend.slots()
        num_wanted = min(len(slots), self.num_left)
        for name in [name for name in slots if name not in self._workers]:
            if len(self._workers) >= num_wanted:
                return
            pid = self._backend.start_worker(name, slots[name])
            self._workers[name] = _Worker(name=name, spec=slots[name], pid=pid)

    def dispatch(self) -> None:
        """Send the next videos to the workers with room, in turn.

        No worker takes more than its share of the videos left. So 16 videos on two workers are 8 for each, even if
        one worker is ready first.
        """
        share = ceil(self.num_left / max(len(self._workers), 1))
        is_any_sent = True
        while is_any_sent:
            is_any_sent = False
            for worker in sorted(self._workers.values(), key=lambda worker: len(worker.samples)):
                if len(worker.samples) < min(worker.num_videos, share):
                    is_any_sent = self._send_next(worker) or is_any_sent

    def _send_next(self, worker: _Worker) -> bool:
        """Send a worker the next video that may run beside its present ones; return whether there is one."""
        if not self._suspects.isdisjoint(worker.samples):
            return False
        fits = (sample for sample in self._queue if not worker.samples or sample.video_id not in self._suspects)
        sample = next(fits, None)
        if sample is None:
            return False
        self._queue.remove(sample)
        worker.samples[sample.video_id] = sample
        self._backend.dispatch(worker.name, sample)
        return True

    def handle(self, name: str, event: WorkerEvent) -> VideoResult | None:
        """Process an event; return a result once its video is finished or has failed for good.

        Raises ``EngineError`` if no worker can run the videos.
        """
        worker = self._workers[name]
        if isinstance(event, WorkerExited):
            return self._handle_exit(worker, worker.error or event.reason)
        if isinstance(event, WorkerError):
            if event.is_final:
                raise EngineError(event.reason)
            worker.error = event.reason
        elif isinstance(event, WorkerReady):
            worker.num_videos, worker.host = event.num_videos, event.host
            self._num_startup_failures = 0
        elif isinstance(event, FramesDone):
            worker.usage = event.usage or worker.usage
            if event.video_id in worker.samples:
                most = worker.samples[event.video_id].num_frames
                worker.num_done[event.video_id] = min(event.num_done, most)
        else:
            sample = worker.samples.pop(event.record.video_id)
            del worker.num_done[event.record.video_id]
            self._frames_done[name] += sample.num_frames
            return event
        return None

    def _handle_exit(self, worker: _Worker, reason: str) -> VideoResult | None:
        """Remove a dead worker; put its videos back at the front of the queue, or give up one that was alone."""
        del self._workers[worker.name]
        kind = self._backend.worker_kind
        if not worker.num_videos:
            self._num_startup_failures += 1
            if self._num_startup_failures >= self._backend.max_startup_failures(len(self._workers)):
                raise EngineError(
                    f"no {kind} on {worker.spec.device} became ready, {self._num_startup_failures} died: {reason}"
                )
        *others, sample = worker.samples.values() or (None,)
        if sample is None:
            return None
        self._deaths[sample.video_id] += not others
        if self._deaths[sample.video_id] < MAX_DEATHS:
            self._suspects.update(worker.samples)
            self._queue.extendleft(reversed(worker.samples.values()))
            return None
        error = f"the {kind} that ran it died {MAX_DEATHS} times: {reason}"
        record = VideoRecord(
            video_id=sample.video_id, source=digest_sample(sample), device=worker.spec.device, error=error
        )
        return VideoResult(record=record)


def run_scheduler(samples: Sequence[Sample], backend: Backend) -> Generator[VideoResult | tuple[WorkerStatus, ...]]:
    """Run all samples on a back end's workers; yield each result, and the workers' statuses between polls.

    Closing the generator shuts the back end down. Raises ``EngineError`` if the workers cannot load the checkpoint.
    """
    scheduler = _Scheduler(samples, backend)
    try:
        while scheduler.num_left:
            scheduler.start_workers()
            scheduler.dispatch()
            yield scheduler.statuses()
            for name, event in backend.poll(REPORT_INTERVAL_S):
                result = scheduler.handle(name, event)
                scheduler.dispatch()
                if result is not None:
                    yield result
    finally:
        backend.shutdown()
