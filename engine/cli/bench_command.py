"""The command ``bench``: the speed of the streaming modes."""

import torch

from stepscope.engine.bench.modes import (
    CLOSE_MARGIN,
    HEADING,
    format_row,
    list_modes,
    measure,
    read_videos,
    stream_in_float32,
    to_json,
)
from stepscope.engine.cli.commands import load_checkpoint
from stepscope.engine.cli.options import BenchOptions
from stepscope.engine.config import StreamConfig
from stepscope.engine.plurals import format_count


def bench(options: BenchOptions) -> None:
    """Print the speed of each streaming mode on a split; JSON last."""
    for name in ("batch_size", "repeats"):
        number = getattr(options, name)
        if number < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1; got {number}")
    checkpoint, config = load_checkpoint(options), StreamConfig()
    videos = read_videos(options.split, checkpoint)
    reference, model, threads = None, checkpoint.model, torch.get_num_threads()
    dtype = str(model.dtype).removeprefix("torch.")
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
        rows.append(row)
        print(format_row(row), flush=True)
    settings = {"device": str(model.device), "threads": threads, "dtype": dtype, "near": CLOSE_MARGIN}
    print(
        to_json(rows, checkpoint=checkpoint.name, compared_with="float32" if reference else table[0].name, **settings)
    )
