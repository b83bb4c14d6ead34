"""Run of a split on several devices into a run folder, for the command line and the page.

``run_batch`` is a generator: it yields each video once its files are on disk, and the progress in between. Closing it
cancels the run and leaves the finished videos; a later run with ``resume`` keeps them and runs the rest.
"""

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.io.files import digest_file
from stepscope.engine.io.hub_cache import name_file
from stepscope.engine.model.checkpoint_folder import (
    choose_dtype,
    find_folder,
    find_frame_pixels,
    find_weights,
    has_untrained_signals,
    identify_model,
)
from stepscope.engine.model.devices import name_dtype, resolve_device, resolve_dtype
from stepscope.engine.model.memory import read_stored_weights
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.runs.folder import RunFolder, VideoRecord, explain_rerun, signal_settings
from stepscope.eval.runs.pools.local_pool import make_process_pool
from stepscope.eval.runs.pools.ray_pool import is_cluster, join_cluster
from stepscope.eval.runs.pools.scheduler import Backend, run_scheduler
from stepscope.eval.runs.worker_messages import Progress, VideoResult, WorkerConfig, WorkerSpec, WorkerStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedVideo:
    """A video whose files are on disk."""

    record: VideoRecord
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

    Invalid records are left out. ``out`` is the run folder, see ``OutputFolder.open``; with ``resume`` it keeps the
    finished videos of an earlier run with the same settings. ``devices`` are ``ray`` or ``ray://...`` (see
    ``join_cluster``), or devices of this machine (see ``parse_devices``). ``scoring`` is copied into ``run.json``.

    Raises:
        ValueError: A device or cluster that does not exist, or a folder that is refused.
        EngineError: A checkpoint that cannot be loaded, or a device that decodes no video.
        OSError: A folder that cannot be written, such as on a full disk; no partial file remains.
    """
    samples = split.samples
    with ExitStack() as stack:
        backend = stack.enter_context(open_backend(devices, worker_config))
        settings = build_run_settings(split, worker_config, list(backend.slots().values()))
        settings |= scoring or {}
        folder = stack.enter_context(RunFolder.open(out, settings, resume=resume))
        pending, graphs, warnings = [], dict[str, None](), dict[str, str]()
        for sample in samples:
            record = folder.find_finished(sample)
            if record is None:
                warnings[sample.video_id] = explain_rerun(folder.record(sample.video_id), sample)
                folder.delete_video(sample.video_id)
                pending.append(sample)
            else:
                graphs[record.graphs] = None
                yield FinishedVideo(record=record, is_kept=True)
        _write_graphs(folder, settings, graphs)
        counter = _FrameCounter(pending, num_videos=len(samples))
        yield counter.progress(())
        with closing(run_scheduler(pending, backend)) as events:
            for event in events:
                if isinstance(event, VideoResult):
                    record = event.record
                    if warning := warnings[record.video_id]:
                        record = replace(record, warning="; ".join(filter(None, [record.warning, warning])))
                    folder.save_video(record, event.outputs)
                    if record.graphs not in graphs:
                        graphs[record.graphs] = None
                        _write_graphs(folder, settings, graphs)
                    counter.finish(record.video_id)
                    yield FinishedVideo(record=record, is_kept=False)
                else:
                    yield counter.progress(event)
        yield counter.progress(())


def _write_graphs(folder: RunFolder, settings: Mapping[str, Any], graphs: Iterable[str]) -> None:
    """Add the states of CUDA graphs in the records of the videos to ``run.json``, if there are any."""
    if text := ", ".join(filter(None, graphs)):
        folder.write_settings({**settings, "graphs": text})


def build_run_settings(split: Split, worker_config: WorkerConfig, worker_specs: Sequence[WorkerSpec]) -> dict[str, Any]:
    """Return the settings of a run for ``run.json``. Raises as ``load_model`` for an invalid checkpoint."""
    heads = None
    if worker_config.heads is not None:
        if not worker_config.heads.is_file():
            raise ValueError(f"the heads file {worker_config.heads} does not exist")
        heads = digest_file(worker_config.heads)[:16]
    folder = find_folder(worker_config.checkpoint)
    pixels = find_frame_pixels(folder, worker_config.frame_pixels)
    model = identify_model(
        worker_config.checkpoint, heads=worker_config.heads, quantize=worker_config.quantize, frame_pixels=pixels
    )
    return {
        "split": name_file(split.path),
        "checkpoint": worker_config.checkpoint,
        "model_digest": model.digest,
        "heads_digest": heads,
        "device": torch.device(worker_specs[0].device).type,
        "devices": [spec.device for spec in worker_specs],
        **_dtype_setting(folder, worker_config.dtype, torch.device(worker_specs[0].device)),
        "config": asdict(worker_config.config),
        **signal_settings(worker_config.config),
        "live": worker_config.live,
        "kept_features": worker_config.features is not None,
        **model_settings(folder, worker_config.config, frame_pixels=pixels),
        **worker_config.changed_settings(),
    }


def _dtype_setting(folder: Path, dtype: str, device: torch.device) -> dict[str, str]:
    """Return the dtype of the model; nothing if a GPU of another machine chooses it."""
    if dtype == "auto" and device.type == "cuda" and not torch.cuda.is_available():
        return {}
    stored = read_stored_weights(find_weights(folder)).dtype
    return {"dtype": name_dtype(resolve_dtype(dtype, device, stored=stored))}


def model_settings(folder: Path, config: StreamConfig, *, frame_pixels: int | None) -> dict[str, Any]:
    """Return settings of ``run.json`` for a model of the hub: pixels of a frame, and that its signals are untrained."""
    pixels: dict[str, Any] = {} if frame_pixels is None else {"frame_pixels": frame_pixels}
    return pixels | ({"is_untrained": True} if has_untrained_signals(folder, config.policy) else {})


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
            worker_specs += [WorkerSpec(device="cpu", num_threads=1, num_sharing=int(number))] * int(number)
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


def open_backend(devices: str, worker_config: WorkerConfig) -> AbstractContextManager[Backend]:
    """Use devices of this machine, or join a Ray cluster and leave it at the end."""
    if is_cluster(devices):
        return join_cluster(devices, worker_config)
    specs = parse_devices(devices)
    num_copies = len(specs) if specs[0].device == "cpu" else 1
    choose_dtype(
        worker_config.checkpoint,
        worker_config.dtype,
        torch.device(specs[0].device),
        quantize=worker_config.quantize,
        has_heads=worker_config.heads is not None,
        num_copies=num_copies,
    )
    if worker_config.hardware_decoding != "off":
        from stepscope.engine.video.hardware import check_hardware  # noqa: PLC0415 - no other leading process needs PyAV

        check_hardware(worker_config.hardware_decoding, [spec.device for spec in specs])
    return nullcontext(make_process_pool(worker_config, specs))


class _FrameCounter:
    """Counts finished videos and frames."""

    def __init__(self, samples: Iterable[Sample], *, num_videos: int) -> None:
        self._pending = {sample.video_id: sample.num_frames for sample in samples}
        self._num_frames = sum(self._pending.values())
        self._num_videos = num_videos
        self._started_s: float | None = None
        self._num_done, self._paced_s = 0, 0.0

    def finish(self, video_id: str) -> None:
        del self._pending[video_id]

    def progress(self, workers: tuple[WorkerStatus, ...]) -> Progress:
        videos = (video for worker in workers for video in worker.videos)
        in_progress = (min(video.num_done, self._pending.get(video.video_id, 0)) for video in videos)
        num_done = self._num_frames - sum(self._pending.values()) + sum(in_progress)
        now_s = time.perf_counter()
        if num_done and self._started_s is None:
            self._started_s = now_s
        elapsed_s = 0.0 if self._started_s is None else now_s - self._started_s
        if num_done != self._num_done:
            self._num_done, self._paced_s = num_done, elapsed_s
        return Progress(
            num_videos=self._num_videos,
            num_finished=self._num_videos - len(self._pending),
            num_frames=self._num_frames,
            num_done=num_done,
            elapsed_s=elapsed_s,
            workers=workers,
            paced_s=self._paced_s,
        )
