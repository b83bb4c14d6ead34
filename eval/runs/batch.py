"""Runs a split over devices into a run folder: the door of the command line and of the page.

``run_batch`` is a generator: it yields each video when its files are on disk, and how far all is now and then; closing
it cancels the run and leaves the finished videos. A later run with ``resume`` keeps those and runs the rest.
"""

import hashlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from engine.model.checkpoint import identify_model, pick_device
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
    """What is known of it; with an ``error`` when it failed."""
    is_kept: bool
    """Whether it was finished by an earlier run of the folder."""


def run_batch(
    split: Split,
    worker_config: WorkerConfig,
    *,
    out: Path,
    devices: str = "auto",
    resume: bool = False,
    scoring: Mapping[str, Any] | None = None,
) -> Generator[FinishedVideo | Progress]:
    """Run the videos of a split; yield each that is done, and the progress about four times a second.

    Args:
        split: What ``read_split`` returned; records that cannot be used are left out.
        worker_config: Checkpoint and settings.
        out: The run folder; see ``eval.runs.folder.open_run_folder`` for which are refused.
        devices: ``ray`` or ``ray://...``, see ``join_cluster``; for all others see ``parse_devices``.
        resume: Keep the finished videos of an earlier run with the same settings.
        scoring: Settings of the scores, which go into ``run.json`` as they are.

    Raises:
        ValueError: Wrong use: an absent device or cluster, a folder that is refused.
        EngineError: A checkpoint that cannot be loaded.
        OSError: A folder that cannot be written, for one when the disk is full; no half file stays.
    """
    samples, more = split.samples, scoring or {}
    with (
        _opened(devices) as source,
        open_run_folder(
            out, {**build_run_settings(split, worker_config, source.worker_specs), **more}, resume=resume
        ) as folder,
    ):
        waiting, num_kept = [], 0
        for sample in samples:
            record = folder.find_finished(sample)
            if record is None:
                folder.delete_video(sample.video_id)
                waiting.append(sample)
            else:
                num_kept += 1
                yield FinishedVideo(record=record, is_kept=True)
        tally = _Tally(waiting, num_videos=len(samples), num_finished=num_kept)
        yield tally.progress(())
        with closing(source.run_videos(waiting, worker_config, source.worker_specs)) as events:
            for event in events:
                if isinstance(event, VideoResult):
                    folder.save_video(event.record, event.outputs)
                    tally.finish(event.record.video_id)
                    yield FinishedVideo(record=event.record, is_kept=False)
                else:
                    yield tally.progress(event)
        yield tally.progress(())


def build_run_settings(split: Split, worker_config: WorkerConfig, worker_specs: Sequence[WorkerSpec]) -> dict[str, Any]:
    """Return the settings of a run as they stand in ``run.json``. Raises as ``load_model`` for a wrong checkpoint."""
    heads = None
    if worker_config.heads is not None:
        if not worker_config.heads.is_file():
            raise ValueError(f"the heads file {worker_config.heads} is not there")
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
    """Return where processes run: one per GPU, or so many on the CPU.

    ``auto`` takes all GPUs, else mps, else ``cpu``; ``cuda`` all GPUs; ``cuda:0,cuda:1`` those; ``cpu:2`` two processes
    of one torch thread each; ``cpu`` one with as many threads as torch likes. Raises ``ValueError`` for a device that
    is not there, and for kinds that are mixed: their numbers differ.
    """
    worker_specs: list[WorkerSpec] = []
    for name in devices.split(","):
        kind, _, number = name.strip().partition(":")
        if kind == "auto":
            kind = pick_device().type
        if kind == "cpu" and number:
            if not number.isdecimal() or not 1 <= int(number) <= 1024:
                raise ValueError(f"cpu:{number} must give a number of processes, such as cpu:2")
            worker_specs += [WorkerSpec(device="cpu", num_threads=1)] * int(number)
        elif kind == "cuda" and not number:
            pick_device("cuda")
            worker_specs += [WorkerSpec(device=f"cuda:{index}") for index in range(torch.cuda.device_count())]
        else:
            worker_specs.append(WorkerSpec(device=str(pick_device(f"{kind}:{number}" if number else kind))))
    if len({torch.device(spec.device).type for spec in worker_specs}) != 1:
        raise ValueError(f"devices {devices!r} are of several kinds; choose one, since their numbers differ")
    return worker_specs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Who runs the videos."""

    worker_specs: Sequence[WorkerSpec]
    """Where."""
    run_videos: Callable[
        [Sequence[Sample], WorkerConfig, Sequence[WorkerSpec]], Generator[VideoResult | tuple[WorkerStatus, ...]]
    ]
    """Runs them there; see ``eval.runs.local_pool.run_videos``."""


@contextmanager
def _opened(devices: str) -> Iterator[_Source]:
    """Find devices of this machine, or join a Ray cluster and leave it at the end."""
    if not is_cluster(devices):
        yield _Source(worker_specs=parse_devices(devices), run_videos=run_videos)
        return
    with join_cluster(devices) as cluster:
        yield _Source(worker_specs=cluster.worker_specs(), run_videos=cluster.run_videos)


class _Tally:
    """Counts what is done."""

    def __init__(self, samples: Iterable[Sample], *, num_videos: int, num_finished: int) -> None:
        self._frames = {sample.video_id: sample.num_frames for sample in samples}
        self._total = sum(self._frames.values())
        self._num_videos = num_videos
        self._num_finished = num_finished
        self._began: float | None = None

    def finish(self, video_id: str) -> None:
        self._begin()
        self._num_finished += 1
        del self._frames[video_id]

    def progress(self, workers: tuple[WorkerStatus, ...]) -> Progress:
        at_hand = sum(min(worker.num_done, self._frames.get(worker.video_id or "", 0)) for worker in workers)
        if at_hand:
            self._begin()
        return Progress(
            num_videos=self._num_videos,
            num_finished=self._num_finished,
            num_frames=self._total,
            num_done=self._total - sum(self._frames.values()) + at_hand,
            elapsed_s=0.0 if self._began is None else time.perf_counter() - self._began,
            workers=workers,
        )

    def _begin(self) -> None:
        self._began = time.perf_counter() if self._began is None else self._began
