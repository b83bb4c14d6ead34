"""The commands of the engine: ``run`` and ``encode`` on a video."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from tqdm import tqdm

from stepscope.engine.cli.options import EncodeOptions, ModelOptions, RunOptions, TaskOptions
from stepscope.engine.control.branch_files import read_branch
from stepscope.engine.control.task import Task, find_late_turns
from stepscope.engine.dialogue import parse_steps, parse_user_turn
from stepscope.engine.inference.memory import used_memory_mb
from stepscope.engine.io.files import EncodingError, read_text, strip_text
from stepscope.engine.loading import load_as
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.checkpoint_folder import UNTRAINED_SILENCE, has_untrained_signals
from stepscope.engine.model.features.feature_files import feature_info, read_features, write_features
from stepscope.engine.model.features.frame_encoder import encode
from stepscope.engine.plurals import format_count, format_memory
from stepscope.engine.records import FrameOutput, Step, check_probs, is_decision, is_same, read_outputs, write_outputs
from stepscope.engine.replay import Recording
from stepscope.engine.stream import Streamer
from stepscope.engine.video.hardware import check_hardware, find_decoding_device
from stepscope.engine.video.reader import probe, read_frames

T = TypeVar("T")
_MOST_FRAMES: Final = 1_000_000
"""Frames that a branch file may name before the length of the video is known."""


def run(options: RunOptions) -> None:
    """Stream one video and write a FrameOutput per line."""
    _keep_input(options)
    if options.features and options.hardware_decoding != "off":
        raise ValueError("--features replaces decoding; omit --hardware-decoding")
    device = find_decoder(options)
    checkpoint = load_checkpoint(options)
    config = checkpoint.fit_config(options.stream)
    task = replace(
        read_task(options),
        user_turns=tuple(parse_user_turn(text) for text in options.user),
        questions=tuple(parse_user_turn(text) for text in options.ask),
    )
    if options.features:
        frames, expected = read_features(options.features, checkpoint, fps=config.fps), None
    else:
        frames = encode(checkpoint, read_frames(options.video, fps=config.fps, device=device))
        expected = round(probe(options.video).duration_s * config.fps)
    if options.branch is None:
        outputs = _progress(Streamer(checkpoint, config).run(frames, task), expected, checkpoint)
    else:
        outputs = iter(_run_branch(options.branch, Recording(checkpoint, frames, task=task, config=config), expected))
    count = write_outputs(options.out, map(partial(check_probs, decides_at=config.decides_at), outputs))
    print(f"{format_count(count, 'frame')} written to {options.out}")
    is_untrained = has_untrained_signals(checkpoint.folder, config.policy)
    if is_untrained and not any(map(is_decision, read_outputs(options.out))):
        print(UNTRAINED_SILENCE)
    for turn in find_late_turns(task, fps=config.fps, num_frames=count):
        print(f"warning: the user turn at {turn.time_s:g} s is after the end of the video; skipped", file=sys.stderr)


def _run_branch(path: Path, recording: Recording, expected: int | None) -> list[FrameOutput]:
    """Run a recording, then its branch with the changes of a file; print how many frames differ, return the branch."""
    read_branch(path, task=recording.task, config=recording.config, num_frames=_MOST_FRAMES)  # errors come at once
    plain = list(_progress(recording.run(), expected, recording.checkpoint))
    change = read_branch(path, task=recording.task, config=recording.config, num_frames=len(plain))
    outputs = list(_progress(recording.branch(change).run(), len(plain), recording.checkpoint))
    pairs = list(zip(plain, outputs, strict=True))
    num_texts = sum((a.response, a.updates) != (b.response, b.updates) for a, b in pairs)
    num_states = sum(a.dst_state != b.dst_state for a, b in pairs)
    first_s = next((f", first at {a.time_s:g} s" for a, b in pairs if not is_same(a, b)), "")
    number = format_count(len(plain), "frame")
    print(f"{num_texts} of {number} differ from the plain run in a text, {num_states} in the state{first_s}")
    return outputs


def encode_video(options: EncodeOptions) -> None:
    """Encode one video and write its features."""
    _keep_input(options)
    if options.out.suffix != ".safetensors":
        raise ValueError(f"--out must name a .safetensors file; got {options.out}")
    device = find_decoder(options)
    checkpoint = load_checkpoint(options)
    frames = encode(checkpoint, read_frames(options.video, fps=options.fps, device=device))
    expected = round(probe(options.video).duration_s * options.fps)
    info = feature_info(checkpoint, fps=options.fps, hardware=options.hardware_decoding)
    count = write_features(options.out, _progress(frames, expected, checkpoint), info)
    print(f"{format_count(count, 'frame')} encoded to {options.out}")


def find_decoder(options: RunOptions | EncodeOptions) -> str:
    """Return the device that decodes the video of a command. Raises ``VideoError`` if it cannot."""
    check_hardware(options.hardware_decoding, [options.device])
    return find_decoding_device(options.hardware_decoding, options.device)


def read_task(options: TaskOptions) -> Task:
    """Return the task of a command, without turns. Raises ``ValueError`` if its steps cannot be read."""
    return Task(goal=strip_text(options.goal), steps=read_steps(options.steps) if options.steps else ())


def read_steps(path: Path) -> tuple[Step, ...]:
    """Return the steps of a text file. Raises ``ValueError`` if it cannot be read."""
    try:
        return parse_steps(read_text(path))
    except (OSError, EncodingError) as error:
        raise ValueError(f"the steps file {path} cannot be read as text: {error}") from error


def _keep_input(options: RunOptions | EncodeOptions) -> None:
    if options.out.exists() and options.video.exists() and options.out.samefile(options.video):
        raise ValueError(f"--out {options.out} is the input video; name a different file")


def _progress(items: Iterable[T], total: int | None, checkpoint: Checkpoint) -> Iterator[T]:
    """Yield the items, and draw the frames, the time left, the dtype of the model and the memory."""
    device = checkpoint.model.device
    with tqdm(total=total, unit="frame", dynamic_ncols=True, smoothing=0) as bar:
        for item in items:
            bar.set_postfix_str(f"{checkpoint.dtype_name}, {format_memory(used_memory_mb(device))}", refresh=False)
            bar.update()
            yield item


def load_checkpoint(options: ModelOptions, *, dtype: str | None = None) -> Checkpoint:
    """Load the checkpoint of a command; ``dtype`` replaces that of the options. Raises as ``load_model``."""
    return load_as(options, device=options.device, dtype=dtype or options.dtype)
