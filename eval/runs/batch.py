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

from engine.model.checkpoint import identify_model, resolve_device
from eval.runs.ray_pool import is_cluster, join_cluster
from eval.runs.local_pool import Place, run_videos
from eval.runs.progress import Progress, Station
from eval.runs.folder import VideoRecord, claim
from eval.data.samples import Sample, Split
from eval.runs.worker import VideoResult, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoDone:
    """A video whose files are on disk."""

    record: VideoRecord
    """What is known of it; with an ``error`` when it failed."""
    is_kept: bool
    """Whether it was finished by an earlier run of the folder."""


def run_batch(
    split: Split,
    work: Work,
    *,
    out: Path,
    devices: str = "auto",
    resume: bool = False,
    scoring: Mapping[str, Any] | None = None,
) -> Generator[VideoDone | Progress]:
    """Run the videos of a split; yield each that is done, and the progress about four times a second.

    Args:
        split: What ``read_split`` returned; records that cannot be used are left out.
        work: Checkpoint and settings.
        out: The run folder; see ``eval.runs.folder.claim`` for which are refused.
        devices: ``ray`` or ``ray://...``, see ``join_cluster``; for all others see ``find_places``.
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
        claim(out, {**describe(split, work, source.places), **more}, resume=resume) as folder,
    ):
        waiting, num_kept = [], 0
        for sample in samples:
            record = folder.finished(sample)
            if record is None:
                folder.forget(sample.video_id)
                waiting.append(sample)
            else:
                num_kept += 1
                yield VideoDone(record=record, is_kept=True)
        tally = _Tally(waiting, num_videos=len(samples), num_finished=num_kept)
        yield tally.progress(())
        with closing(source.run_videos(waiting, work, source.places)) as events:
            for event in events:
                if isinstance(event, VideoResult):
                    folder.keep(event.record, event.outputs)
                    tally.finish(event.record.video_id)
                    yield VideoDone(record=event.record, is_kept=False)
                else:
                    yield tally.progress(event)
        yield tally.progress(())


def describe(split: Split, work: Work, places: Sequence[Place]) -> dict[str, Any]:
    """Return the settings of a run as they stand in ``run.json``. Raises as ``load_model`` for a wrong checkpoint."""
    heads = None
    if work.heads is not None:
        if not work.heads.is_file():
            raise ValueError(f"the heads file {work.heads} is not there")
        heads = hashlib.sha256(work.heads.read_bytes()).hexdigest()[:16]
    identity = identify_model(work.checkpoint, heads=work.heads)
    return {
        "split": str(split.path.resolve()),
        "checkpoint": work.checkpoint,
        "model_digest": identity.digest,
        "model_parts": asdict(identity),
        "heads_digest": heads,
        "device": torch.device(places[0].device).type,
        "devices": [place.device for place in places],
        "config": asdict(work.config),
        "live": work.live,
        "kept_features": work.features is not None,
    }


def find_places(devices: str = "auto") -> list[Place]:
    """Return where processes run: one per GPU, or so many on the CPU.

    ``auto`` takes all GPUs, else mps, else ``cpu``; ``cuda`` all GPUs; ``cuda:0,cuda:1`` those; ``cpu:2`` two processes
    of one torch thread each; ``cpu`` one with as many threads as torch likes. Raises ``ValueError`` for a device that
    is not there, and for kinds that are mixed: their numbers differ.
    """
    places: list[Place] = []
    for name in devices.split(","):
        kind, _, number = name.strip().partition(":")
        if kind == "auto":
            kind = resolve_device().type
        if kind == "cpu" and number:
            if not number.isdecimal() or not 1 <= int(number) <= 1024:
                raise ValueError(f"cpu:{number} must give a number of processes, such as cpu:2")
            places += [Place(device="cpu", num_threads=1)] * int(number)
        elif kind == "cuda" and not number:
            resolve_device("cuda")
            places += [Place(device=f"cuda:{index}") for index in range(torch.cuda.device_count())]
        else:
            places.append(Place(device=str(resolve_device(f"{kind}:{number}" if number else kind))))
    if len({torch.device(place.device).type for place in places}) != 1:
        raise ValueError(f"devices {devices!r} are of several kinds; choose one, since their numbers differ")
    return places


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Who runs the videos."""

    places: Sequence[Place]
    """Where."""
    run_videos: Callable[[Sequence[Sample], Work, Sequence[Place]], Generator[VideoResult | tuple[Station, ...]]]
    """Runs them there; see ``eval.runs.local_pool.run_videos``."""


@contextmanager
def _opened(devices: str) -> Iterator[_Source]:
    """Find devices of this machine, or join a Ray cluster and leave it at the end."""
    if not is_cluster(devices):
        yield _Source(places=find_places(devices), run_videos=run_videos)
        return
    with join_cluster(devices) as cluster:
        yield _Source(places=cluster.places(), run_videos=cluster.run_videos)


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

    def progress(self, stations: tuple[Station, ...]) -> Progress:
        at_hand = sum(min(station.num_done, self._frames.get(station.video_id or "", 0)) for station in stations)
        if at_hand:
            self._begin()
        return Progress(
            num_videos=self._num_videos,
            num_finished=self._num_finished,
            num_frames=self._total,
            num_done=self._total - sum(self._frames.values()) + at_hand,
            elapsed_s=0.0 if self._began is None else time.perf_counter() - self._began,
            stations=stations,
        )

    def _begin(self) -> None:
        self._began = time.perf_counter() if self._began is None else self._began
