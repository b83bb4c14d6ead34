"""Measures the constants of the cost model on videos of a split, and predicts others, of which nothing is fitted.

On a CPU the times are CPU seconds with one torch thread, so that other programs disturb them little; on a GPU they are
wall-clock seconds. Videos are streamed whole and in part, alone and together, so that frames, texts, rows and passes
vary apart from one another. Memory is that of a worker in a process of its own.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch

from engine.bench.random_model import SHAPES
from engine.cli.options import BUNDLED
from engine.config import StreamConfig
from engine.loading import load_model
from engine.model.checkpoint import Checkpoint
from engine.model.features.frame_encoder import FrameFeatures, encode
from engine.stream import StreamRequest
from engine.video.decoding_work import DecodingWork, measure_decoding
from engine.video.reader import Frame, read_frames
from eval.data.samples import Sample, Split, build_task
from eval.planning.constants import Machine, ModelConstants
from eval.planning.fitting import fit_decoding, round_digits
from eval.planning.hardware import best_time, measure_imports, measure_scoring, name_hardware, run_worker, timed
from eval.planning.predict import time_decoding
from eval.planning.streaming import find_errors, fit_model, make_clock, measure_shape, weights_mb
from eval.planning.workload import read_load
from eval.reports.scoring import ScoreSettings
from eval.runs.worker_messages import WorkerConfig

_BUNDLED_ARCH: Final = "bundled"
_MIN_VIDEOS: Final = 4
_WORKER: Final = "eval.runs.pools.worker"
_ENCODER: Final = "eval.matching.sentence_encoders"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadVideos:
    """Videos that were decoded, and the seconds of each."""

    samples: Sequence[Sample]
    frames: Sequence[Sequence[Frame]]
    seconds: Sequence[float]

    @property
    def num_frames(self) -> int:
        """Frames of all videos."""
        return sum(map(len, self.frames))


def measure_machine(
    split: Split,
    checkpoint_name: str,
    *,
    arch: str,
    device: str,
    heads: Path | None,
    score: ScoreSettings,
    against: Split | None = None,
) -> Machine:
    """Return the constants of this machine and of one architecture.

    Measured are all videos of ``split``, and those of ``against`` are predicted; without it, every second video of
    ``split`` is measured and the others are predicted.

    Raises ``ValueError`` for fewer than four videos, for a name that is no shape without a checkpoint, and as
    ``load_model``.
    """
    if arch not in (_BUNDLED_ARCH, *SHAPES) and checkpoint_name == str(BUNDLED):
        raise ValueError(
            f"{arch} is none of the shapes {', '.join(SHAPES)}; to measure a model under that name, give --checkpoint"
        )
    samples, held_out, name = _choose_videos(split, against)
    measured = replace(split, entries=tuple(samples))
    with _one_thread():
        clock = make_clock(device)
        load_s, checkpoint = timed(clock, lambda: load_model(checkpoint_name, device=device, heads=heads))
        clock = make_clock(checkpoint.model.device.type)
        config = WorkerConfig(checkpoint=checkpoint_name, heads=heads, config=checkpoint.fit_config(StreamConfig()))
        videos = _read(samples, clock)
        machine, video_mb = _measure_hardware(measured, checkpoint, config, videos, score)
        if arch in SHAPES:
            return replace(machine, models={arch: measure_shape(arch, checkpoint)})
        model = measure_model(checkpoint, config.config, videos, clock=clock)
        errors = predict_others(checkpoint, config.config, _read(held_out, clock), machine, model, clock=clock)
    model = replace(model, load_s=round_digits(load_s), video_mb=video_mb, held_out=errors, held_out_videos=name)
    return replace(machine, models={arch: model})


def _measure_hardware(
    split: Split, checkpoint: Checkpoint, config: WorkerConfig, videos: ReadVideos, score: ScoreSettings
) -> tuple[Machine, float]:
    """Return the constants of this machine without models, and the memory of a video in flight in MiB."""
    kind = checkpoint.model.device.type
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        first_mb, peak_mb = run_worker(split, config, run, device=kind)
        scoring = measure_scoring(run, split, score)
    video_mb = round_digits((peak_mb - first_mb) / (len(split.samples) - 1))
    import_s = measure_imports(_WORKER)
    encoder_s = max(0.0, measure_imports(_WORKER, _ENCODER) - import_s)  # the process that embeds texts imports it
    works = [_decoding_of(sample) for sample in videos.samples]
    megapixel_s, megabyte_s = fit_decoding(works, videos.seconds)
    machine = Machine(
        hardware=name_hardware(kind),
        device=kind,
        num_cores=os.cpu_count() or 1,
        num_devices=torch.cuda.device_count() if kind == "cuda" else os.cpu_count() or 1,
        torch=torch.__version__.partition("+")[0],
        import_s=round_digits(import_s),
        decode_megapixel_s=megapixel_s,
        decode_megabyte_s=megabyte_s,
        decode_codecs=tuple(sorted({work.codec for work in works})),
        decode_frame_s=round_digits(sum(videos.seconds) / videos.num_frames),
        score_s=round_digits(scoring.score_s + encoder_s),
        score_video_s=scoring.video_s,
        tables_s=scoring.tables_s,
        base_mb=round_digits(first_mb - video_mb - weights_mb(checkpoint)),
        run_bytes=scoring.run_bytes,
        video_bytes=scoring.video_bytes,
        models={},
    )
    return machine, video_mb


def measure_model(
    checkpoint: Checkpoint, config: StreamConfig, videos: ReadVideos, *, clock: Callable[[], float]
) -> ModelConstants:
    """Return the constants of encoding and streaming with a checkpoint."""
    list(encode(checkpoint, videos.frames[0][:8]))  # warm-up
    encode_s, features = best_time(clock, lambda: [list(encode(checkpoint, frames)) for frames in videos.frames])
    model = fit_model(
        checkpoint,
        config,
        {sample.video_id: sample for sample in videos.samples},
        _requests(videos, features),
        clock=clock,
        name=f"{len(videos.samples)} videos, {videos.num_frames} frames",
    )
    return replace(model, encode_s=round_digits(encode_s / videos.num_frames))


def predict_others(
    checkpoint: Checkpoint,
    config: StreamConfig,
    videos: ReadVideos,
    machine: Machine,
    model: ModelConstants,
    *,
    clock: Callable[[], float],
) -> dict[str, float]:
    """Return the relative errors of predictions of videos that were not measured, by quantity."""
    assert model.encode_s is not None
    encode_s, features = best_time(clock, lambda: [list(encode(checkpoint, frames)) for frames in videos.frames])
    errors = find_errors(checkpoint, config, videos.samples, _requests(videos, features), model, clock=clock)
    decode_s = time_decoding([read_load(sample) for sample in videos.samples], machine)
    errors["decode_s"] = round(decode_s / sum(videos.seconds) - 1, 3)
    errors["encode_s"] = round(model.encode_s * videos.num_frames / encode_s - 1, 3)
    return errors


def _choose_videos(split: Split, against: Split | None) -> tuple[list[Sample], list[Sample], str]:
    """Return the samples to measure, those to predict, and a name of the latter."""
    samples, others = _with_files(split), [] if against is None else _with_files(against)
    if len(samples) < _MIN_VIDEOS:
        raise ValueError(f"{split.path} has {len(samples)} videos with a file; a measurement needs {_MIN_VIDEOS}")
    if against is None:
        return samples[::2], samples[1::2], f"the {len(samples[1::2])} other videos of {split.path.name}"
    if not others:
        raise ValueError(f"{against.path} has no videos with a file, so nothing can be compared with it")
    return samples, others, f"the {len(others)} videos of {against.path.name}"


def _with_files(split: Split) -> list[Sample]:
    return [sample for sample in split.samples if sample.video_path is not None]


def _read(samples: Sequence[Sample], clock: Callable[[], float]) -> ReadVideos:
    """Decode videos; the time of each is the best of two."""
    found = [best_time(clock, partial(_read_frames, sample)) for sample in samples]
    return ReadVideos(
        samples=samples, frames=[frames for _, frames in found], seconds=[seconds for seconds, _ in found]
    )


def _read_frames(sample: Sample) -> list[Frame]:
    assert sample.video_path is not None
    return list(read_frames(sample.video_path, fps=sample.fps, excerpt=sample.excerpt))


def _decoding_of(sample: Sample) -> DecodingWork:
    assert sample.video_path is not None
    return measure_decoding(sample.video_path, fps=sample.fps, excerpt=sample.excerpt)


def _requests(videos: ReadVideos, features: Sequence[Sequence[FrameFeatures]]) -> list[StreamRequest]:
    return [
        StreamRequest(video_id=sample.video_id, features=of_video, task=build_task(sample), fps=sample.fps)
        for sample, of_video in zip(videos.samples, features, strict=True)
    ]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one torch thread, as a worker of ``cpu:N`` does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
