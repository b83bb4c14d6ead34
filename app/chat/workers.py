"""The workers that answer questions, one per device."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepscope.engine.chat.ray_worker import RayChatWorker
from stepscope.engine.chat.service import AnsweringWorker
from stepscope.engine.chat.worker import WorkerOptions
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.eval.runs.batch import parse_devices
from stepscope.eval.runs.pools.ray_pool import connect_cluster, count_gpus, is_cluster


@contextmanager
def open_workers(devices: str, checkpoint: Checkpoint, options: WorkerOptions) -> Iterator[Sequence[AnsweringWorker]]:
    """Yield one worker for each device; those of a Ray cluster end with the context.

    ``devices`` are as in ``parse_devices``; empty for that of ``checkpoint``; ``ray`` or the address of a
    Ray cluster. Workers on the device of ``checkpoint`` share its weights; the others load it by ``options``.

    Raises ``ValueError`` for a device or cluster that does not exist, ``EngineError`` if a node cannot load it.
    """
    if not is_cluster(devices):
        yield _make_local_workers(devices, checkpoint, options)
        return
    with connect_cluster(devices) as ray:
        workers: list[RayChatWorker] = []
        try:
            _add_ray_workers(workers, ray, checkpoint, options)
            yield workers
        finally:
            for worker in workers:
                worker.close()


def _make_local_workers(devices: str, checkpoint: Checkpoint, options: WorkerOptions) -> Sequence[AnsweringWorker]:
    own = str(checkpoint.model.device)
    names = [spec.device for spec in parse_devices(devices)] if devices else [own]
    loaded = {own: checkpoint}
    for name in names:
        if name not in loaded:
            loaded[name] = options.load(name)
    return [
        options.make_worker(
            loaded[name], name=name if names.count(name) == 1 else f"{name} {names[:number].count(name)}"
        )
        for number, name in enumerate(names, start=1)
    ]


def _add_ray_workers(workers: list[RayChatWorker], ray: Any, checkpoint: Checkpoint, options: WorkerOptions) -> None:
    """Start one worker per GPU of a joined cluster; without a GPU, one per node."""
    if Path(options.checkpoint).exists():
        options = replace(options, checkpoint=str(Path(options.checkpoint).absolute()))
    options = replace(options, heads=options.heads and str(Path(options.heads).absolute()))
    num_gpus = count_gpus(ray)
    num_workers = num_gpus or sum(bool(node["Alive"]) for node in ray.nodes())
    for number in range(1, num_workers + 1):
        device = "cuda" if num_gpus else "cpu"
        workers.append(RayChatWorker(ray, options, device=device, digest=checkpoint.digest, number=number))
