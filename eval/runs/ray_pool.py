"""Actors on a Ray cluster, one per GPU, or per CPU core where the cluster has no GPU; a back end of the scheduler.

Ray places the actors and reports which died, alone or with their node. New nodes are used as they join; lost nodes are
not waited for unless no node is left. Every node needs this package, and split and checkpoint under the same paths.
Ray is imported only when a cluster is joined.
"""

import re
import signal
import socket
import threading
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from engine.errors import EngineError
from engine.model.checkpoint import Checkpoint
from eval.data.samples import Sample
from eval.runs.progress import WorkerStatus
from eval.runs.scheduler import (
    MAX_STARTUP_FAILURES,
    FramesDone,
    WorkerError,
    WorkerEvent,
    WorkerExited,
    WorkerReady,
    run_scheduler,
)
from eval.runs.worker import VideoResult, WorkerConfig, WorkerSpec, load_checkpoint, run_sample

_MAX_REASON_LENGTH: Final = 300


class VideoActor:
    """A loaded checkpoint on a node; ``num_done`` is answered from a second thread while ``run`` works.

    It is a plain class, from which Ray makes an actor. Errors are returned, not raised, so that only records are
    pickled.

    Args:
        worker_config: Checkpoint and settings.
        spec: Device and threads.
    """

    def __init__(self, worker_config: WorkerConfig, spec: WorkerSpec) -> None:
        self._config = worker_config
        self._spec = spec
        self._checkpoint: Checkpoint | None = None
        self._num_done = 0

    def load(self) -> WorkerReady | WorkerError:
        """Load the checkpoint."""
        try:
            self._checkpoint = load_checkpoint(self._config, self._spec)
        except (EngineError, ValueError, OSError) as error:
            return WorkerError(reason=f"{socket.gethostname()}: {error}", is_final=True)
        return WorkerReady(host=socket.gethostname())

    def run(self, sample: Sample) -> VideoResult | WorkerError:
        """Run one video."""
        assert self._checkpoint is not None
        self._num_done = 0
        try:
            return run_sample(
                self._checkpoint, self._config, sample, device=self._spec.device, on_frame=self._count_frames
            )
        except OSError as error:
            return WorkerError(reason=f"{socket.gethostname()}: {error}", is_final=True)
        except Exception as error:
            return WorkerError(reason=f"{type(error).__name__}: {error}", is_final=False)

    def num_done(self) -> int:
        """Return the number of frames of the current video that are done."""
        return self._num_done

    def _count_frames(self, num_done: int) -> None:
        self._num_done = num_done


@dataclass(slots=True, eq=False)
class _RemoteActor:
    """The driver's view of an actor; ``handle`` and the references are Ray's."""

    handle: Any
    task: Any
    """Reference to the result of loading or of a video; None while the actor is idle."""
    is_running: bool = False
    progress: Any = None
    """Reference to the number of frames done, once requested."""


class _ActorPool:
    """Back end with the actors that the cluster has room for."""

    worker_kind = "Ray actor"

    def __init__(self, ray: Any, worker_config: WorkerConfig, spec: WorkerSpec) -> None:
        self._ray = ray
        self._config = worker_config
        self._spec = spec
        self._actors: dict[str, _RemoteActor] = {}

    def slots(self) -> Mapping[str, WorkerSpec]:
        resource = "GPU" if self._spec.device == "cuda" else "CPU"
        num_slots = int(self._ray.cluster_resources().get(resource, 0))
        return {f"ray {number}": self._spec for number in range(1, max(num_slots, 1) + 1)}

    def max_startup_failures(self, num_workers: int) -> int:
        return MAX_STARTUP_FAILURES * (num_workers + 1)  # the loss of one node ends several actors

    def start_worker(self, name: str, spec: WorkerSpec) -> None:
        actor = (
            self._ray.remote(VideoActor)
            .options(
                num_cpus=1,
                num_gpus=1 if spec.device == "cuda" else None,
                scheduling_strategy="SPREAD",
                max_concurrency=2,  # one call for the video, one for its progress
                max_restarts=0,  # a restarted actor would keep its video until Ray has room for it again
            )
            .remote(self._config, spec)
        )
        self._actors[name] = _RemoteActor(handle=actor, task=actor.load.remote())

    def dispatch(self, name: str, sample: Sample) -> None:
        actor = self._actors[name]
        actor.task, actor.is_running, actor.progress = actor.handle.run.remote(sample), True, None

    def poll(self, timeout_s: float) -> Iterator[tuple[str, WorkerEvent]]:
        by_task = {actor.task: name for name, actor in self._actors.items() if actor.task is not None}
        for task in self._ray.wait(list(by_task), timeout=timeout_s)[0]:
            yield by_task[task], self._read_result(by_task[task])
        for name, actor in list(self._actors.items()):
            num_done = self._read_progress(actor) if actor.is_running else None
            if num_done is not None:
                yield name, FramesDone(num_done=num_done)

    def shutdown(self) -> None:
        for actor in self._actors.values():
            self._ray.kill(actor.handle)

    def _read_result(self, name: str) -> WorkerEvent:
        actor = self._actors[name]
        try:
            event: WorkerEvent = self._ray.get(actor.task)
        except self._ray.exceptions.RayError as error:
            return self._remove(name, _to_one_line(error))
        if isinstance(event, WorkerError) and not event.is_final:
            return self._remove(name, event.reason)
        actor.task, actor.is_running = None, False
        return event

    def _read_progress(self, actor: _RemoteActor) -> int | None:
        """Return the number of frames done if the actor has answered, and request the next number.

        A dead actor is ignored here, since its task fails too.
        """
        num_done: int | None = None
        if actor.progress is not None and self._ray.wait([actor.progress], timeout=0)[0]:
            with suppress(self._ray.exceptions.RayError):
                num_done = self._ray.get(actor.progress)
            actor.progress = None
        if actor.progress is None:
            actor.progress = actor.handle.num_done.remote()
        return num_done

    def _remove(self, name: str, reason: str) -> WorkerExited:
        self._ray.kill(self._actors.pop(name).handle)
        return WorkerExited(reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Ray cluster that was joined; see ``join_cluster``."""

    ray: Any
    """The module."""

    def worker_specs(self) -> list[WorkerSpec]:
        """Return a worker per GPU, else one of one thread per CPU core; a single worker while no node has joined."""
        total = self.ray.cluster_resources()
        num_gpus, num_cpus = int(total.get("GPU", 0)), int(total.get("CPU", 0))
        spec = WorkerSpec(device="cuda") if num_gpus else WorkerSpec(device="cpu", num_threads=1)
        return [spec] * max(num_gpus or num_cpus, 1)

    def run_videos(
        self, samples: Sequence[Sample], worker_config: WorkerConfig, worker_specs: Sequence[WorkerSpec]
    ) -> Generator[VideoResult | tuple[WorkerStatus, ...]]:
        """Run all samples on actors of the cluster, each with the first of ``worker_specs``; see ``run_scheduler``."""
        pool = _ActorPool(self.ray, _with_absolute_paths(worker_config), worker_specs[0])
        return run_scheduler([_with_absolute_path(sample) for sample in samples], pool)


def is_cluster(devices: str) -> bool:
    """Whether these devices are a Ray cluster: ``ray``, or an address such as ``ray://head:10001``."""
    return devices == "ray" or devices.startswith("ray://")


@contextmanager
def join_cluster(devices: str) -> Iterator[Cluster]:
    """Join a running Ray cluster and leave it at the end; a cluster that this program joined before is reused and kept.

    ``ray`` is the cluster of this machine, or of ``RAY_ADDRESS``. Raises ``ValueError`` if Ray is not installed or no
    cluster answers.
    """
    ray = _import_ray()
    if ray.is_initialized():
        yield Cluster(ray=ray)
        return
    with _preserve_sigterm(), warnings.catch_warnings(action="ignore"):  # the error below is enough
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
                f"{where}; start one with 'ray start --head', or give an address such as ray://HOST:10001"
            ) from error
    try:
        yield Cluster(ray=ray)
    finally:
        ray.shutdown()


def _with_absolute_path(sample: Sample) -> Sample:
    """Return the sample with an absolute path, for nodes with a different working directory."""
    return sample if sample.video_path is None else replace(sample, video_path=sample.video_path.absolute())


def _with_absolute_paths(worker_config: WorkerConfig) -> WorkerConfig:
    return replace(
        worker_config,
        checkpoint=str(Path(worker_config.checkpoint).absolute())
        if Path(worker_config.checkpoint).exists()
        else worker_config.checkpoint,
        heads=None if worker_config.heads is None else worker_config.heads.absolute(),
        features=None if worker_config.features is None else worker_config.features.absolute(),
    )


def _import_ray() -> ModuleType:
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        raise ValueError("devices ray need Ray, which is not installed: pip install '.[ray]'") from error


@contextmanager
def _preserve_sigterm() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _to_one_line(error: Exception) -> str:
    """Return the message of a Ray error in one line, without its ids and cut to a readable length."""
    lines = (line.strip() for line in str(error).splitlines())
    text = " ".join(line for line in lines if line and not re.fullmatch(r"[a-z_]+: \S+", line))
    text = text.removeprefix("The actor died unexpectedly before finishing this task. ")
    return text if len(text) <= _MAX_REASON_LENGTH else f"{text[:_MAX_REASON_LENGTH]}..."
