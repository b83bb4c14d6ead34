"""Run of a split on several devices into a run folder, for the command line and the page.

``run_batch`` is a generator: it yields each video once its files are on disk, and the progress in between. Closing it
cancels the run and leaves the finished videos; a later run with ``resume`` keeps them and runs the rest.
"""

import hashlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from engine.model.checkpoint import identify_model, resolve_device
from eval.data.samples import Sample, Split
from eval.runs.folder import VideoRecord, open_run_folder
from eval.runs.local_pool import run_videos
from eval.runs.progress import Progress, WorkerStatus
from eval.runs.ray_pool import is_cluster, join_cluster
from eval.runs.worker import VideoResult, WorkerConfig, WorkerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedVideo:
    """A video whose files are on disk."""

    record: VideoRecord
    """Its record, with an ``error`` if it failed."""
    is_kept: bool
    """Whether an earlier run into this folder finished it."""


def run_batch(
    split: Split,
    worker_config: WorkerConfig,
    *,
    out: Path,
    devices: str = "auto",
    resume: bool = False,
    scoring: Mapping[str, Any] | None = None,
) -> Generator[FinishedVideo | Progress]:
    """Run the videos of a split; yield each finished video, and the progress about four times a second.

    Args:
        split: The split from ``read_split``; invalid records are left out.
        worker_config: Checkpoint and settings.
        out: The run folder; ``eval.runs.folder.open_run_folder`` lists the folders that are refused.
        devices: ``ray`` or ``ray://...`` (see ``join_cluster``), or devices of this machine (see ``parse_devices``).
        resume: Keep the finished videos of an earlier run with the same settings.
        scoring: Settings of the scores, copied into ``run.json``.

    Raises:
        ValueError: A device or cluster that does not exist, or a folder that is refused.
        EngineError: A checkpoint that cannot be loaded.
        OSError: A folder that cannot be written, such as on a full disk; no partial file remains.
    """
    samples = split.samples
    with (
        _open_executor(devices) as executor,
        open_run_folder(
            out, {**build_run_settings(split, worker_config, executor.worker_specs), **(scoring or {})}, resume=resume
        ) as folder,
    ):
        pending, num_kept = [], 0
        for sample in samples:
            record = folder.find_finished(sample)
            if record is None:
                folder.delete_video(sample.video_id)
                pending.append(sample)
            else:
                num_kept += 1
                yield FinishedVideo(record=record, is_kept=True)
        counter = _ProgressCounter(pending, num_videos=len(samples), num_finished=num_kept)
        yield counter.progress(())
        with closing(executor.run_videos(pending, worker_config, executor.worker_specs)) as events:
            for event in events:
                if isinstance(event, VideoResult):
                    folder.save_video(event.record, event.outputs)
                    counter.finish(event.record.video_id)
                    yield FinishedVideo(record=event.record, is_kept=False)
                else:
                    yield counter.progress(event)
        yield counter.progress(())


def build_run_settings(split: Split, worker_config: WorkerConfig, worker_specs: Sequence[WorkerSpec]) -> dict[str, Any]:
    """Return the settings of a run for ``run.json``. Raises as ``load_model`` for an invalid checkpoint."""
    heads = None
    if worker_config.heads is not None:
        if not worker_config.heads.is_file():
            raise ValueError(f"the heads file {worker_config.heads} does not exist")
        heads = hashlib.sha256(worker_config.heads.read_bytes()).hexdigest()[:16]
    identity = identify_model(worker_config.checkpoint, heads=worker_config.heads)
    return {
        "split": str(split.path.resolve()),
        "checkpoint": worker_config.checkpoint,
        "model_digest": identity.digest,
        "model_parts": asdict(identity),
        "heads_digest": heads,
        "device": torch.device(worker_specs[0].device).type,
        "devices": [spec.device for spec in worker_specs],
        "config": asdict(worker_config.config),
        "live": worker_config.live,
        "kept_features": worker_config.features is not None,
    }


def parse_devices(devices: str = "auto") -> list[WorkerSpec]:
    """Return one worker per device of a list separated by commas.

    ``auto`` is all GPUs, else mps, else ``cpu``; ``cuda`` is all GPUs and ``cuda:1`` the second one. ``cpu:2`` is two
    workers of one torch thread each; ``cpu`` is one worker with torch's default number of threads.

    Raises ``ValueError`` for a device that does not exist, and for mixed kinds of devices, whose results differ
    numerically.
    """
    worker_specs: list[WorkerSpec] = []
    for name in devices.split(","):
        kind, _, number = name.strip().partition(":")
        if kind == "auto":
            kind = resolve_device().type
        if kind == "cpu" and number:
            if not number.isdecimal() or not 1 <= int(number) <= 1024:
                raise ValueError(f"cpu:{number} must give a number of processes, such as cpu:2")
            worker_specs += [WorkerSpec(device="cpu", num_threads=1)] * int(number)
        elif kind == "cuda" and not number:
            resolve_device("cuda")
            worker_specs += [WorkerSpec(device=f"cuda:{index}") for index in range(torch.cuda.device_count())]
        else:
            worker_specs.append(WorkerSpec(device=str(resolve_device(f"{kind}:{number}" if number else kind))))
    if len({torch.device(spec.device).type for spec in worker_specs}) != 1:
        raise ValueError(
            f"devices {devices!r} are of several kinds; choose one kind, since results differ between kinds"
        )
    return worker_specs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Executor:
    """Workers, and the function that runs videos on them."""

    worker_specs: Sequence[WorkerSpec]
    run_videos: Callable[
        [Sequence[Sample], WorkerConfig, Sequence[WorkerSpec]], Generator[VideoResult | tuple[WorkerStatus, ...]]
    ]
    """See ``eval.runs.scheduler.run_scheduler``."""


@contextmanager
def _open_executor(devices: str) -> Iterator[_Executor]:
    """Use devices of this machine, or join a Ray cluster and leave it at the end."""
    if not is_cluster(devices):
        yield _Executor(worker_specs=parse_devices(devices), run_videos=run_videos)
        return
    with join_cluster(devices) as cluster:
        yield _Executor(worker_specs=cluster.worker_specs(), run_videos=cluster.run_videos)


class _ProgressCounter:
    """Counts finished videos and frames."""

    def __init__(self, samples: Iterable[Sample], *, num_videos: int, num_finished: int) -> None:
        self._frames = {sample.video_id: sample.num_frames for sample in samples}
        self._total = sum(self._frames.values())
        self._num_videos = num_videos
        self._num_finished = num_finished
        self._started_s: float | None = None

    def finish(self, video_id: str) -> None:
        self._start_clock()
        self._num_finished += 1
        del self._frames[video_id]

    def progress(self, workers: tuple[WorkerStatus, ...]) -> Progress:
        num_in_progress = sum(min(worker.num_done, self._frames.get(worker.video_id or "", 0)) for worker in workers)
        if num_in_progress:
            self._start_clock()
        return Progress(
            num_videos=self._num_videos,
            num_finished=self._num_finished,
            num_frames=self._total,
            num_done=self._total - sum(self._frames.values()) + num_in_progress,
            elapsed_s=0.0 if self._started_s is None else time.perf_counter() - self._started_s,
            workers=workers,
        )

    def _start_clock(self) -> None:
        self._started_s = time.perf_counter() if self._started_s is None else self._started_s
