"""The size of a published player, before it is written."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from stepscope.app.publish.options import VideoFiles
from stepscope.app.publish.writer import Source
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.folder import output_path

_PAGE_BYTES: Final = 5_500_000
"""Modules, styles and plotly.js."""
_DATA_FACTOR: Final = 2.4
"""Bytes of the data and exports of a video in bytes of its outputs; measured: 2.3 to 2.5 over the bundled run."""


def estimate_bytes(sources: Sequence[Source], files: VideoFiles) -> int:
    """Return about how many bytes a player of runs has; a video that is converted may become larger or smaller."""
    samples = [(source, entry) for source in sources for entry in source.entries if isinstance(entry, Sample)]
    outputs = _sum_sizes(output_path(source.run.path, sample.video_id) for source, sample in samples)
    paths = {sample.video_path for _, sample in samples if sample.video_path is not None}
    pictures = _sum_sizes(paths) if files == "copy" else 0
    return _PAGE_BYTES + round(_DATA_FACTOR * outputs) + pictures


def _sum_sizes(paths: Iterable[Path]) -> int:
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
