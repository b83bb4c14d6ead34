"""``stepscope bench``: the streaming speed of each mode on a split."""

import json
from collections.abc import Container
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tyro.conf import Positional

from stepscope.engine.bench.modes import CLOSE_MARGIN, HEADING, format_row, list_modes, measure, stream_in_float32
from stepscope.engine.cli.commands import load_checkpoint
from stepscope.engine.cli.options import ModelOptions
from stepscope.engine.config import StreamConfig
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.files.bundled import ASSETS
from stepscope.engine.plurals import format_count
from stepscope.engine.stream import StreamRequest
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import build_task
from stepscope.eval.runs.streaming.sample_features import SampleFeatures


@dataclass(frozen=True, kw_only=True)
class BenchOptions(ModelOptions):
    """Print the speed of each streaming mode on a split; JSON last."""

    split: Positional[Path] = ASSETS / "demo" / "test.json"
    """Manifest of the split."""
    batch_size: int = 16
    """Videos per pass."""
    repeats: int = 3
    """Rounds; the best is reported."""


def read_videos(split: Path, checkpoint: Checkpoint, *, only: Container[str] | None = None) -> list[StreamRequest]:
    """Decode and encode the videos of a split, or ``only`` those ids. Raises ``ValueError`` if there is none."""
    features = SampleFeatures(checkpoint=checkpoint)
    videos = [
        StreamRequest(
            video_id=sample.video_id, features=tuple(features.embed(sample)), task=build_task(sample), fps=sample.fps
        )
        for sample in read_samples(split)
        if only is None or sample.video_id in only
    ]
    if not videos:
        raise ValueError(f"{split} holds no videos to stream")
    return videos


def bench(options: BenchOptions) -> None:
    """Print the speed of each streaming mode on a split; JSON last."""
    for name in ("batch_size", "repeats"):
        number = getattr(options, name)
        if number < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1; got {number}")
    checkpoint, config = load_checkpoint(options), StreamConfig()
    videos = read_videos(options.split, checkpoint)
    reference, model, threads = None, checkpoint.model, torch.get_num_threads()
    dtype = checkpoint.dtype_name
    print(
        f"{checkpoint.name} in {dtype} on {model.device}, {format_count(threads, 'thread')}; "
        f"{format_count(len(videos), 'encoded video')}"
    )
    if model.dtype != torch.float32:
        exact = load_checkpoint(options, dtype="float32")
        reference = stream_in_float32(exact, read_videos(options.split, exact), config, rows=options.batch_size)
        del exact
        print(f"compared with float32; a close decision is one within {CLOSE_MARGIN} of its threshold there")
    print(HEADING)
    rows = []
    table = list_modes(config, rows=options.batch_size, graphs=checkpoint.graphs is not None)
    for row in measure(checkpoint, videos, table, repeats=options.repeats, reference=reference):
        rows.append(asdict(row))
        print(format_row(row), flush=True)
    record = {
        "checkpoint": checkpoint.name,
        "compared_with": "float32" if reference else table[0].name,
        "device": str(model.device),
        "threads": threads,
        "dtype": dtype,
        "near": CLOSE_MARGIN,
        "modes": rows,
    }
    print(json.dumps(record))
