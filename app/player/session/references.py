"""References that somebody brings along to an upload: a file in any form of ``eval.data.loading``.

A reference applies to the upload alone. Video files that it names are not looked at.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from app.formatting import format_clock
from app.videos import Clip
from engine.video.reader import EPSILON_S
from eval.data.loading import read_samples
from eval.data.samples import Sample

MAX_BYTES = 20 * 2**20
"""Largest file of references that is taken, 20 MiB."""
MAX_MISSING_S = 1.0
"""A video that is shorter than its reference by more seconds than this is probably another one."""


def check_size(path: Path) -> None:
    """Raise ``ValueError`` for a file of references that is too large to be read."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(
            f"{path}: has {size / 2**20:.0f} MiB, more than the limit of {MAX_BYTES / 2**20:.0f} MiB; "
            "take out the videos that are not needed"
        )


def add_reference(clip: Clip, path: Path) -> tuple[Clip, Sample]:
    """Return an upload with the reference that a file has for it, and the reference.

    It is the only record of the file, or the one whose ``video_id`` or file name is the upload's.
    Raises ``ValueError`` naming file, record, field and cure.
    """
    check_size(path)
    sample = _find(read_samples(path), clip, path)
    num_frames = max(1, math.ceil((clip.duration_s - EPSILON_S) * sample.fps))
    own = replace(
        sample,
        video_id=clip.video_id,
        video_path=None,
        num_frames=max(sample.num_frames, num_frames),
        start_s=None,  # the upload is the whole of what the reference is about
    )
    return replace(clip, sample=own, fps=sample.fps, num_frames=num_frames), own


def digest_reference(clip: Clip) -> str:
    """Return a name for the reference that an upload was given: 16 hex characters of what it says; empty without one.

    A video of a split has none: its reference is that of the split.
    """
    sample = clip.sample
    if sample is None or not clip.content_digest:
        return ""
    said = (
        sample.fps,
        sample.num_frames,
        sample.goal,
        sample.steps,
        sample.turns,
        sorted(sample.initial_state.items()),
    )
    return hashlib.sha256(repr(said).encode(errors="surrogatepass")).hexdigest()[:16]


def describe_reference(clip: Clip, sample: Sample, path: Path) -> tuple[str, bool]:
    """Return a sentence about the reference of an upload, and whether it probably belongs to another video."""
    said = f"{clip.name}, {format_clock(clip.duration_s)}, with {len(sample.turns)} reference turns of {path.name}."
    length_s = sample.num_frames / sample.fps
    if length_s <= clip.duration_s + MAX_MISSING_S:
        return f"{said} Press Run.", False
    return f"{said} They are of a video of {format_clock(length_s)}: is this the right one?", True


def _find(samples: Sequence[Sample], clip: Clip, path: Path) -> Sample:
    if len(samples) == 1:
        return samples[0]
    names = {clip.name, Path(clip.name).stem}
    found = [
        sample
        for sample in samples
        if sample.video_id in names or (sample.video_path is not None and sample.video_path.name == clip.name)
    ]
    if len(found) != 1:
        how_many = f"{len(found)} are" if found else "none is"
        raise ValueError(
            f"{path}: has {len(samples)} videos, and {how_many} called {clip.name}; "
            "rename the upload, or give a file with its reference alone"
        )
    return found[0]
