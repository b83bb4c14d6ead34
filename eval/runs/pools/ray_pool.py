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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from queue import Empty, Queue
from types import ModuleType
from typing import Any, Final

from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.pools.scheduler import MAX_STARTUP_FAILURES, Backend, WorkerEvent, WorkerExited
from stepscope.eval.runs.worker_messages import REPORT_INTERVAL_S, WorkerConfig, WorkerError, WorkerSpec

_MAX_REASON_LENGTH: Final = 300


class WorkerActor:
    """A worker on a node, which runs in a thread; samples and events travel through queues.

    It is a plain class, from which Ray makes an actor.
    """

    def __init__(self, worker_config: WorkerConfig, spec: WorkerSpec) -> None:
        module = import_module(worker_config.worker_module)  # on the node; the driver does not need it
        self._worker = module.Worker(worker_config, spec, host=socket.gethostname())
        self._samples: Queue[Sample] = Queue()
        self._events: Queue[WorkerEvent] = Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def submit(self, sample: Sample) -> None:
        """Queue a sample."""
        self._samples.put(sample)

    def collect(self) -> list[WorkerEvent]:
        """Return the events since the last call, after at most ``REPORT_INTERVAL_S`` without one."""
        events = []
        with suppress(Empty):
            events.append(self._events.get(timeout=REPORT_INTERVAL_S))
            while True:
                events.append(self._events.get_nowait())
        return events

    def _run(self) -> None:
        event: WorkerEvent = self._worker.load()
        self._events.put(event)
        if not isinstance(event, WorkerError):
            for event in self._worker.run(self._receive):
                self._events.put(event)

    def _receive(self, *, should_wait: bool) -> Sample | None:
        with suppress(Empty):
            return self._samples.get(block=should_wait)
        return None


@dataclass(slots=True, eq=False)
class _RemoteActor:
    """The driver's view of an actor; ``handle`` and ``events`` are Ray's."""

    handle: Any
    events: Any


class _ActorPool:
    """Back end with the actors that a joined cluster has room for: one per GPU, else one of one thread per CPU core."""

    worker_kind = "Ray actor"

    def __init__(self, ray: Any, worker_config: WorkerConfig) -> None:
        self._ray = ray
        self._config = _with_absolute_paths(worker_config)
        self._spec = WorkerSpec(device="cuda")
        if not count_gpus(ray):
            num_cpus = max(int(node["Resources"].get("CPU", 0)) for node in ray.nodes())
            self._spec = WorkerSpec(device="cpu", num_threads=1, num_sharing=max(num_cpus, 1))
        self._actors: dict[str, _RemoteActor] = {}

    def slots(self) -> Mapping[str, WorkerSpec]:
        resource = "GPU" if self._spec.device == "cuda" else "CPU"
        num_slots = int(self._ray.cluster_resources().get(resource, 0))
        return {f"ray {number}": self._spec for number in range(1, max(num_slots, 1) + 1)}

    def max_startup_failures(self, num_workers: int) -> int:
        return MAX_STARTUP_FAILURES * (num_workers + 1)  # the loss of one node ends several actors

    def start_worker(self, name: str, spec: WorkerSpec) -> None:
        actor = (
            self._ray.remote(WorkerActor)
            .options(
                num_cpus=1,
                num_gpus=1 if spec.device == "cuda" else None,
                scheduling_strategy="SPREAD",
                max_concurrency=2,  # one call waits for events while another brings a video
                max_restarts=0,  # a restarted actor would keep its videos until Ray has room for it again
            )
            .remote(self._config, spec)
        )
        self._actors[name] = _RemoteActor(handle=actor, events=actor.collect.remote())

    def dispatch(self, name: str, sample: Sample) -> None:
        # a node may have a different working directory
        task = replace(sample, video_path=sample.video_path and sample.video_path.absolute())
        self._actors[name].handle.submit.remote(task)

    def poll(self, timeout_s: float) -> Iterator[tuple[str, WorkerEvent]]:
        by_events = {actor.events: name for name, actor in self._actors.items()}
        for reference in self._ray.wait(list(by_events), timeout=timeout_s)[0]:
            name = by_events[reference]
            for event in self._collect(name):
                yield name, event

    def shutdown(self) -> None:
        for actor in self._actors.values():
            self._ray.kill(actor.handle)

    def _collect(self, name: str) -> list[WorkerEvent]:
        """Return the events of an actor, the last of which may be its exit, and request the next ones."""
        actor = self._actors[name]
        try:
            events: list[WorkerEvent] = self._ray.get(actor.events)
        except self._ray.exceptions.RayError as error:
            return [self._remove(name, _to_one_line(error))]
        failed = [event for event in events if isinstance(event, WorkerError) and not event.is_final]
        if failed:
            return [*events, self._remove(name, failed[0].reason)]
        actor.events = actor.handle.collect.remote()
        return events

    def _remove(self, name: str, reason: str) -> WorkerExited:
        self._ray.kill(self._actors.pop(name).handle)
        return WorkerExited(reason=reason)


def is_cluster(devices: str) -> bool:
    """Whether these devices are a Ray cluster: ``ray``, or an address such as ``ray://head:10001``."""
    return devices == "ray" or devices.startswith("ray://")


def count_gpus(ray: Any) -> int:
    """Return the GPUs of a joined cluster."""
    return int(ray.cluster_resources().get("GPU", 0))


@contextmanager
def join_cluster(devices: str, worker_config: WorkerConfig) -> Iterator[Backend]:
    """Join a running Ray cluster for a batch and leave it at the end; see ``connect_cluster``."""
    with connect_cluster(devices) as ray:
        yield _ActorPool(ray, worker_config)


@contextmanager
def connect_cluster(devices: str) -> Iterator[Any]:
    """Join a running Ray cluster and leave it at the end; a cluster that this program joined before is reused and kept.

    Yields the module ``ray``. ``ray`` as ``devices`` is the cluster of this machine, or of ``RAY_ADDRESS``.

    Raises:
        ValueError: Ray is not installed, or no cluster answers.
    """
    ray = _import_ray()
    if ray.is_initialized():
        yield ray
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
        yield ray
    finally:
        ray.shutdown()


def _with_absolute_paths(worker_config: WorkerConfig) -> WorkerConfig:
    checkpoint, heads, features = Path(worker_config.checkpoint), worker_config.heads, worker_config.features
    return replace(
        worker_config,
        checkpoint=str(checkpoint.absolute()) if checkpoint.exists() else worker_config.checkpoint,
        heads=heads and heads.absolute(),
        features=features and features.absolute(),
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
