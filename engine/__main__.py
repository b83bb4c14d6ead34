"""Command line of the engine: ``run`` or ``encode`` a video, ``train`` on annotated clips, ``bench`` the speed.

Exit codes: 0 success; 2 wrong usage or environment, with a one-line reason; 130 or 143 interrupted.
"""

import argparse
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import Field
from pathlib import Path
from typing import Any, TypeVar, get_args

from engine.interrupts import exit_code, exit_on_interrupt, handle_interrupts

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

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
from engine.config import SETTING_HELP, StreamConfig, read_config, read_threshold
from engine.control.controller import Task, find_late_turns
from engine.dialogue import parse_steps, parse_user_turn
from engine.errors import EngineError
from engine.inference.cuda_graphs import GraphSetting
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
BUNDLED = Path(__file__).parent.parent / "assets" / "checkpoint"
SPLIT = BUNDLED.parent / "demo" / "test.json"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    options = _parser().parse_args(arguments)
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    transformers_logging.disable_progress_bar()
    try:
        with handle_interrupts():
            options.command(options)
    except (EngineError, ValueError, OSError) as error:
        tqdm.write(f"error: {error}", file=sys.stderr)  # on a separate line below a progress bar
        return 2
    except KeyboardInterrupt as interrupt:
        print("stopped; nothing was written", file=sys.stderr)
        return exit_code(interrupt)
    return 0


def run(options: argparse.Namespace) -> None:
    """Stream one video and write a FrameOutput per line."""
    config = _config(options)
    _keep_input(options)
    checkpoint = _checkpoint(options)
    if options.max_seq_len is None and config.max_seq_len > checkpoint.model.max_context:
        raise ValueError(f"the model supports a context of {checkpoint.model.max_context} tokens; give --max-seq-len")
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


def encode_video(options: argparse.Namespace) -> None:
    """Encode one video and write its features."""
    _keep_input(options)
    if options.out.suffix != ".safetensors":
        raise ValueError(f"--out must name a .safetensors file; got {options.out}")
    checkpoint = _checkpoint(options)
    frames = encode(checkpoint, read_frames(options.video, fps=options.fps))
    expected = round(probe(options.video).duration_s * options.fps)
    count = write_features(options.out, _progress(frames, expected), feature_info(checkpoint, fps=options.fps))
    print(f"{count} frames encoded to {options.out}")


def fine_tune(options: argparse.Namespace) -> None:
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


def bench(options: argparse.Namespace) -> None:
    """Print the speed of each streaming mode on a split, or on a random model of a published shape; JSON last."""
    for name in ("batch_size", "repeats", "threads", "frames", "videos"):
        number = getattr(options, name)
        if number is not None and number < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1; got {number}")
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


def _keep_input(options: argparse.Namespace) -> None:
    if options.out.exists() and options.video.exists() and options.out.samefile(options.video):
        raise ValueError(f"--out {options.out} is the input video; name a different file")


def _frames(options: argparse.Namespace, checkpoint: Checkpoint, config: StreamConfig) -> Iterator[FrameFeatures]:
    if options.features:
        return read_features(options.features, checkpoint, fps=config.fps)
    return encode(checkpoint, read_frames(options.video, fps=config.fps))


def _expected(options: argparse.Namespace, config: StreamConfig) -> int | None:
    return None if options.features else round(probe(options.video).duration_s * config.fps)


def _progress(items: Iterable[T], total: int | None) -> Iterator[T]:
    return iter(tqdm(items, total=total, unit="frame", dynamic_ncols=True, smoothing=0))


def _checkpoint(options: argparse.Namespace, *, dtype: str | None = None) -> Checkpoint:
    return load_model(
        options.checkpoint,
        device=options.device,
        dtype=dtype or options.dtype,
        heads=options.heads,
        allow_untrained_heads=options.allow_untrained_heads,
        graphs=options.graphs,
    )


def _config(options: argparse.Namespace) -> StreamConfig:
    given = {name: value for name, value in vars(options).items() if value is not None}
    fields: dict[str, Any] = {name: given[name] for name in StreamConfig.__dataclass_fields__ if name in given}
    for name in ("speak", "update"):
        if f"{name}_threshold" in fields:
            fields[f"{name}_threshold"] = read_threshold(fields[f"{name}_threshold"], name)
    return read_config(options.config, **fields) if options.config else StreamConfig(**fields)


def _add_setting(command: argparse.ArgumentParser, setting: Field[Any], about: str) -> None:
    """Add the option of a setting. Without it, the value comes from the config file, then from ``StreamConfig``."""
    option = f"--{setting.name.replace('_', '-')}"
    if setting.type is bool:
        command.add_argument(option, action="store_true", default=None, help=about)
        return
    kinds: dict[str, Any] = {"choices": get_args(setting.type)}
    if setting.type in (int, float):
        kinds = {"type": setting.type, "metavar": "N" if setting.type is int else "X"}
    if setting.name in ("speak_threshold", "update_threshold"):
        kinds["type"] = str  # read by read_threshold, as everywhere
    command.add_argument(option, help=f"{about} (default: {setting.default})", **kinds)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    model = argparse.ArgumentParser(add_help=False)
    model.add_argument("--checkpoint", default=BUNDLED, help="folder or hub id (default: the bundled checkpoint)")
    model.add_argument("--heads", type=Path, help="heads file (default: the one in the checkpoint)")
    model.add_argument("--allow-untrained-heads", action="store_true", help="use random heads if there is no file")
    model.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps (default: %(default)s)")
    model.add_argument("--dtype", default="auto", help="auto, float32, float16, bfloat16 (default: %(default)s)")
    model.add_argument(
        "--graphs", choices=get_args(GraphSetting), default="auto", help="CUDA graphs (default: %(default)s)"
    )

    command = commands.add_parser("run", parents=[model], help="stream a video")
    command.set_defaults(command=run)
    command.add_argument("video", type=Path, help="the video file")
    command.add_argument("--out", type=Path, required=True, help="JSON lines file to write, one FrameOutput per line")
    command.add_argument("--goal", default="", help="goal of the task")
    command.add_argument("--steps", type=Path, help="text file, one step per line, such as 'S1: attach the wheel'")
    command.add_argument(
        "--user",
        action="append",
        default=[],
        metavar="'TIME: WORDS'",
        help="a user turn; TIME in seconds, as m:ss or as h:mm:ss",
    )
    command.add_argument("--features", type=Path, help="feature file of the video, to skip encoding")
    command.add_argument("--config", type=Path, help="YAML file of stream settings; options override it")
    for name, about in SETTING_HELP.items():
        _add_setting(command, StreamConfig.__dataclass_fields__[name], about)

    command = commands.add_parser("encode", parents=[model], help="write a video's frame features")
    command.set_defaults(command=encode_video)
    command.add_argument("video", type=Path, help="the video file")
    command.add_argument("--out", type=Path, required=True, help="the .safetensors file to write")
    command.add_argument("--fps", type=float, default=2.0, help=f"{SETTING_HELP['fps']} (default: %(default)s)")

    command = commands.add_parser("train", parents=[model], help="fine-tune on annotated clips")
    command.set_defaults(command=fine_tune)
    command.add_argument("clips", type=Path, help="JSON lines of clips; see engine/training/dataset.py")
    command.add_argument("--out", type=Path, required=True, help="folder of the new checkpoint, new or empty")
    command.add_argument("--fps", type=float, default=2.0, help="frame rate of the features (default: %(default)s)")
    command.add_argument("--num-steps", type=int, default=1000, help="optimiser steps (default: %(default)s)")
    command.add_argument("--batch-size", type=int, default=8, help="clips in one step (default: %(default)s)")
    command.add_argument("--learning-rate", type=float, default=1e-4, help="peak learning rate (default: %(default)s)")
    help_text = "fraction of the silent frames that the loss counts, in (0, 1] (default: %(default)s)"
    command.add_argument("--negative-rate", type=float, default=1.0, help=help_text)
    command.add_argument("--seed", type=int, default=0, help="seed of order and sub-sampling (default: %(default)s)")

    command = commands.add_parser("bench", parents=[model], help="measure the streaming speed on a split")
    command.set_defaults(command=bench)
    command.add_argument("split", type=Path, nargs="?", default=SPLIT, help="manifest (default: bundled test split)")
    command.add_argument("--batch-size", type=int, default=16, help="videos per pass (default: %(default)s)")
    command.add_argument("--rows", dest="batch_size", type=int, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    command.add_argument("--repeats", type=int, default=3, help="rounds; the best is reported (default: %(default)s)")
    command.add_argument("--threads", type=int, help="number of CPU threads (default: torch's default)")
    command.add_argument("--arch", choices=sorted(SHAPES), help="use a random model of this shape and random videos")
    command.add_argument("--frames", type=int, default=1000, help="frames per video for --arch (default: %(default)s)")
    command.add_argument("--videos", type=int, default=1, help="number of videos for --arch (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
