"""The queue of videos of a batch: longest first, one video per free worker, one retry after a worker died.

``run_scheduler`` holds the logic that all back ends share and starts no process itself. A back end starts workers,
sends them videos and reports their events: ``eval.runs.local_pool`` for processes on this machine,
``eval.runs.ray_pool`` for actors on a Ray cluster. A worker is known by its name, which only one live worker has.
"""

from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from engine.errors import EngineError
from eval.data.samples import Sample
from eval.runs.folder import VideoRecord, digest_sample
from eval.runs.progress import WorkerStatus
from eval.runs.worker import VideoResult, WorkerSpec

MAX_ATTEMPTS: Final = 2
"""Attempts to run a video whose worker dies."""
MAX_STARTUP_FAILURES: Final = 3
"""Workers in a row that may die before they are ready."""
REPORT_INTERVAL_S: Final = 0.25
"""Time between two progress reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReady:
    """A worker has loaded the checkpoint."""

    host: str = ""
    """Name of its machine; empty for this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FramesDone:
    """A worker reports the frames of its video that are done."""

    num_done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerError:
    """An exception in a worker."""

    reason: str
    is_final: bool
    """Whether every other worker would fail in the same way, so that the run ends."""


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
        """Send a video to a worker that is ready and idle. A dead worker is reported by ``poll``, not here."""

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
    is_ready: bool = False
    sample: Sample | None = None
    num_done: int = 0
    error: str = ""


class _Scheduler:
    """The queue, the live workers, and the attempts per video."""

    def __init__(self, samples: Sequence[Sample], backend: Backend) -> None:
        self._backend = backend
        self._queue = deque(sorted(samples, key=lambda sample: -sample.num_frames))
        self._workers: dict[str, _Worker] = {}
        self._attempts = Counter[str]()
        self._frames_done = Counter[str]()  # of finished videos, by worker name, so that a replacement continues it
        self._num_startup_failures = 0

    @property
    def is_finished(self) -> bool:
        """Whether no video waits or runs."""
        return not self._queue and not self._num_busy

    @property
    def _num_busy(self) -> int:
        return sum(worker.sample is not None for worker in self._workers.values())

    def statuses(self) -> tuple[WorkerStatus, ...]:
        """Return the status of every live worker."""
        return tuple(self._status(worker) for worker in self._workers.values())

    def start_workers(self) -> None:
        """Start workers in vacant slots, but no more workers than there are videos left.

        With 4 slots, 2 busy workers and 1 waiting video, a third worker is started and the fourth slot stays vacant.
        """
        slots = self._backend.slots()
        num_wanted = min(len(slots), self._num_busy + len(self._queue))
        for name in [name for name in slots if name not in self._workers]:
            if len(self._workers) >= num_wanted:
                return
            pid = self._backend.start_worker(name, slots[name])
            self._workers[name] = _Worker(name=name, spec=slots[name], pid=pid)

    def dispatch(self) -> None:
        """Send the next videos to the idle workers."""
        for worker in self._workers.values():
            if worker.is_ready and worker.sample is None and self._queue:
                worker.sample, worker.num_done = self._queue.popleft(), 0
                self._attempts[worker.sample.video_id] += 1
                self._backend.dispatch(worker.name, worker.sample)

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
            worker.is_ready, worker.host = True, event.host
            self._num_startup_failures = 0
        elif isinstance(event, FramesDone):
            if worker.sample is not None:
                worker.num_done = min(event.num_done, worker.sample.num_frames)
        else:
            assert worker.sample is not None
            self._frames_done[name] += worker.sample.num_frames
            worker.sample, worker.num_done = None, 0
            return event
        return None

    def _handle_exit(self, worker: _Worker, reason: str) -> VideoResult | None:
        """Remove a dead worker; put its video back at the front of the queue, or give the video up."""
        del self._workers[worker.name]
        kind = self._backend.worker_kind
        if not worker.is_ready:
            self._num_startup_failures += 1
            if self._num_startup_failures >= self._backend.max_startup_failures(len(self._workers)):
                raise EngineError(
                    f"no {kind} on {worker.spec.device} became ready, {self._num_startup_failures} died: {reason}"
                )
        sample = worker.sample
        if sample is None:
            return None
        if self._attempts[sample.video_id] < MAX_ATTEMPTS:
            self._queue.appendleft(sample)
            return None
        error = f"the {kind} that ran it died {MAX_ATTEMPTS} times: {reason}"
        record = VideoRecord(
            video_id=sample.video_id, source=digest_sample(sample), device=worker.spec.device, error=error
        )
        return VideoResult(record=record)

    def _status(self, worker: _Worker) -> WorkerStatus:
        sample = worker.sample
        return WorkerStatus(
            name=f"{worker.name} ({worker.host})" if worker.host else worker.name,
            pid=worker.pid,
            video_id=None if sample is None else sample.video_id,
            num_frames=0 if sample is None else sample.num_frames,
            num_done=worker.num_done,
            total_done=self._frames_done[worker.name] + worker.num_done,
        )


def run_scheduler(samples: Sequence[Sample], backend: Backend) -> Generator[VideoResult | tuple[WorkerStatus, ...]]:
    """Run all samples on a back end's workers; yield each result, and the workers' statuses between polls.

    Closing the generator shuts the back end down. Raises ``EngineError`` if the workers cannot load the checkpoint.
    """
    scheduler = _Scheduler(samples, backend)
    try:
        while not scheduler.is_finished:
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
