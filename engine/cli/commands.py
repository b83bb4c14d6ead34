"""The commands of the engine: ``run`` or ``encode`` a video, ``train`` on annotated clips, ``bench`` the speed."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor
from tqdm import tqdm
from transformers.utils import logging as transformers_logging

from engine.bench.modes import (
    CLOSE_MARGIN,
    HEADING,
    as_float32,
    format_row,
    list_modes,
    measure,
    read_videos,
    stream_in_float32,
    to_json,
)
from engine.bench.random_model import SHAPES, build_random_workload, random_checkpoint
from engine.cli.options import BenchOptions, EncodeOptions, ModelOptions, RunOptions, TrainOptions
from engine.config import StreamConfig
from engine.control.controller import Task, find_late_turns
from engine.dialogue import parse_steps, parse_user_turn
from engine.loading import load_model
from engine.model.checkpoint import Checkpoint, save_model
from engine.model.feature_files import feature_info, read_features, write_features
from engine.model.frame_encoder import FrameFeatures, encode
from engine.records import Step, check_probs, write_outputs
from engine.streamer import Streamer
from engine.training.dataset import batches, read_clips
from engine.training.trainer import TrainConfig, train
from engine.video.reader import probe, read_frames

T = TypeVar("T")


def run(options: RunOptions) -> None:
    """Stream one video and write a FrameOutput per line."""
    config = options.stream
    _keep_input(options)
    checkpoint = _checkpoint(options)
    task = Task(
        goal=options.goal,
        steps=_read_steps(options.steps) if options.steps else (),
        user_turns=tuple(parse_user_turn(text) for text in options.user),
    )
    outputs = Streamer(checkpoint, config).run(_frames(options, checkpoint, config), task)
    count = write_outputs(options.out, map(check_probs, _progress(outputs, _expected(options, config))))
    print(f"{count} frames written to {options.out}")
    for turn in find_late_turns(task, fps=config.fps, num_frames=count):
        print(f"warning: the user turn at {turn.time_s:g} s is after the end of the video; skipped", file=sys.stderr)


def encode_video(options: EncodeOptions) -> None:
    """Encode one video and write its features."""
    _keep_input(options)
    if options.out.suffix != ".safetensors":
        raise ValueError(f"--out must name a .safetensors file; got {options.out}")
    checkpoint = _checkpoint(options)
    frames = encode(checkpoint, read_frames(options.video, fps=options.fps))
    expected = round(probe(options.video).duration_s * options.fps)
    count = write_features(options.out, _progress(frames, expected), feature_info(checkpoint, fps=options.fps))
    print(f"{count} frames encoded to {options.out}")


def fine_tune(options: TrainOptions) -> None:
    """Train the heads and the text model on annotated clips, and write a checkpoint to a new folder."""
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        raise ValueError(f"--out {options.out} is not empty; name a new folder, so that two checkpoints do not mix")
    checkpoint = _checkpoint(options, dtype="float32" if options.dtype == "auto" else None)
    clips = read_clips(options.clips, checkpoint, fps=options.fps)
    config = TrainConfig(
        num_steps=options.num_steps,
        learning_rate=options.learning_rate,
        negative_rate=options.negative_rate,
        seed=options.seed,
    )
    model = checkpoint.model.float().requires_grad_(requires_grad=True)
    for part in (model.vlm.model.vision_model, model.vlm.model.connector):
        part.requires_grad_(False)
    data = batches(clips, checkpoint, batch_size=options.batch_size, seed=options.seed)
    with tqdm(train(model, data, config=config), total=config.num_steps, unit="step") as bar:
        for losses in bar:
            bar.set_postfix({name: _loss(getattr(losses, name)) for name in ("text", "speak", "update")})
    save_model(
        options.out,
        model,
        checkpoint.prompt.tokenizer,
        normalization=checkpoint.normalization,
        silent_id=checkpoint.silent_id,
        base=checkpoint.folder,
    )
    print(f"checkpoint written to {options.out}")


def _loss(loss: Tensor) -> str:
    """Return a loss as text; ``-`` for nan, the loss of a batch without such labels."""
    return "-" if loss.isnan() else f"{loss:.3f}"


def bench(options: BenchOptions) -> None:
    """Print the speed of each streaming mode on a split, or on a random model of a published shape; JSON last."""
    for name in ("batch_size", "repeats", "threads", "frames", "videos"):
        number = getattr(options, name)
        if number is not None and number < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1; got {number}")
    if options.arch is not None and options.arch not in SHAPES:
        raise ValueError(f"--arch must be one of {', '.join(SHAPES)}; got {options.arch}")
    if options.threads:
        torch.set_num_threads(options.threads)
    checkpoint, config = _checkpoint(options), StreamConfig()
    if options.arch:
        workload = build_random_workload(
            random_checkpoint(options.arch, checkpoint), num_videos=options.videos, num_frames=options.frames
        )
        checkpoint, videos, config = workload.checkpoint, list(workload.videos), workload.config
    else:
        videos = read_videos(options.split, checkpoint)
    reference, model, threads = None, checkpoint.model, torch.get_num_threads()
    dtype = str(model.dtype).removeprefix("torch.")
    print(f"{checkpoint.name} in {dtype} on {model.device}, {threads} threads; {len(videos)} encoded videos")
    if model.dtype != torch.float32:
        exact = as_float32(checkpoint) if options.arch else _checkpoint(options, dtype="float32")
        same = videos if options.arch else read_videos(options.split, exact)
        reference = stream_in_float32(exact, same, config, rows=options.batch_size)
        del exact, same
        print(f"compared with float32; a close decision is one within {CLOSE_MARGIN} of its threshold there")
    print(HEADING)
    rows = []
    table = list_modes(config, rows=options.batch_size, graphs=checkpoint.graphs is not None)
    for row in measure(checkpoint, videos, table, repeats=options.repeats, reference=reference):
        rows.append(row)
        print(format_row(row), flush=True)
    settings = {"device": str(model.device), "threads": threads, "dtype": dtype, "near": CLOSE_MARGIN}
    print(
        to_json(rows, checkpoint=checkpoint.name, compared_with="float32" if reference else table[0].name, **settings)
    )


def _read_steps(path: Path) -> tuple[Step, ...]:
    try:
        return parse_steps(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the steps file {path} cannot be read as text: {error}") from error


def _keep_input(options: RunOptions | EncodeOptions) -> None:
    if options.out.exists() and options.video.exists() and options.out.samefile(options.video):
        raise ValueError(f"--out {options.out} is the input video; name a different file")


def _frames(options: RunOptions, checkpoint: Checkpoint, config: StreamConfig) -> Iterator[FrameFeatures]:
    if options.features:
        return read_features(options.features, checkpoint, fps=config.fps)
    return encode(checkpoint, read_frames(options.video, fps=config.fps))


def _expected(options: RunOptions, config: StreamConfig) -> int | None:
    return None if options.features else round(probe(options.video).duration_s * config.fps)


def _progress(items: Iterable[T], total: int | None) -> Iterator[T]:
    return iter(tqdm(items, total=total, unit="frame", dynamic_ncols=True, smoothing=0))


def _checkpoint(options: ModelOptions, *, dtype: str | None = None) -> Checkpoint:
    transformers_logging.disable_progress_bar()
    return load_model(
        options.checkpoint,
        device=options.device,
        dtype=dtype or options.dtype,
        heads=options.heads,
        allow_untrained_heads=options.allow_untrained_heads,
        graphs=options.graphs,
    )
