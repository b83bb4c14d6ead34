"""What can be streamed: the bundled examples of a manifest, or an upload that has been checked.

Both become a ``Clip``. A manifest that cannot be read is no end of the page: it goes on with uploads and shows the
sentence that says why. An upload that cannot be streamed is refused with a ``VideoError``.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from app.formatting import format_clock
from engine.errors import VideoError
from engine.records import Excerpt
from engine.video.reader import EPSILON_S, probe
from eval.data.loading import read_samples, read_split
from eval.data.samples import Sample, Split

UPLOAD_FPS = 2.0
"""Sampled frames per second of an upload; the bundled checkpoint was trained at this rate."""

MAX_UPLOAD_BYTES = 4 * 2**30
"""Largest upload."""
MAX_UPLOAD_PIXELS = 8192 * 4320
"""Largest pictures of an upload, 8K: memory while it is decoded grows with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One video on the page."""

    name: str
    """What the user calls it: the video's id, or the upload's file name."""
    path: Path
    """The file."""
    fps: float
    """Sampled frames per second."""
    num_frames: int
    """Sampled frames to expect."""
    duration_s: float
    """Duration, in seconds."""
    sample: Sample | None = None
    """Task and reference dialogue of a bundled video."""
    is_bundled: bool = False
    """Whether a link can name it: uploads are gone with their window."""
    content_digest: str = ""
    """What tells uploads of one file name apart: 8 hex characters of the content; empty for a video of a split."""
    start_s: float | None = None
    """Seconds of the file at which the clip starts; None when it is the whole file."""

    @property
    def excerpt(self) -> Excerpt | None:
        """The part of the file that the clip is; None when it is the whole file."""
        return None if self.start_s is None else Excerpt(start_s=self.start_s, num_frames=self.num_frames)

    @property
    def video_id(self) -> str:
        """What reviews call it: the video's id in its split, or the upload's file name with its content's digest."""
        return f"{self.name} {self.content_digest}" if self.content_digest else self.name

    @property
    def video_fps(self) -> float:
        """Pictures per second of the file, or of sampling where the file does not tell."""
        native_fps = _probe(self.path).native_fps
        return native_fps if math.isfinite(native_fps) and native_fps > 0 else self.fps

    @property
    def is_browser_playable(self) -> bool:
        """Whether browsers play the file itself; otherwise they get a converted copy."""
        return _probe(self.path).is_browser_playable


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledVideos:
    """The bundled examples."""

    clips: tuple[Clip, ...]
    """The examples whose file is there."""
    notice: str = ""
    """What is missing, in a sentence; empty when all is well."""

    @property
    def hardest(self) -> Clip | None:
        """The clip with most turns that the data call hard, the first one where they say nothing; None without any."""
        return max(self.clips, key=_num_hard_turns, default=None)

    def find(self, name: str) -> Clip:
        """Return the clip of a name. Raises ``ValueError`` for an unknown one."""
        for clip in self.clips:
            if clip.name == name:
                return clip
        raise ValueError(f"there is no bundled video {name!r}; choose one from the list")


def _num_hard_turns(clip: Clip) -> int:
    return sum(turn.cause is not None for turn in clip.sample.turns) if clip.sample else 0


def read_bundled_videos(manifest: Path) -> BundledVideos:
    """Read the bundled examples; what cannot be read becomes the notice."""
    if not manifest.is_file():
        return BundledVideos(clips=(), notice=f"No bundled videos: {manifest} is not there. Upload a video instead.")
    try:
        samples = read_samples(manifest)
    except ValueError as error:
        return BundledVideos(clips=(), notice=f"No bundled videos: {error}. Upload a video instead.")
    clips = tuple(
        sample_clip(sample, sample.video_path, is_bundled=True) for sample in samples if sample.video_path is not None
    )
    there = tuple(clip for clip in clips if clip.path.is_file())
    num_absent = len(samples) - len(there)
    notice = f"{num_absent} of {len(samples)} bundled videos have no file beside {manifest}." if num_absent else ""
    return BundledVideos(clips=there, notice=notice)


def read_splits(offered: Iterable[Path], named: Iterable[Path], *, videos: Path | None = None) -> dict[str, Split]:
    """Read splits, by the names of their files; one that is ``offered`` need not be there.

    ``videos`` is a folder with the videos of the ``named`` ones where their records have no ``video_path``.
    Raises ``ValueError`` for a ``named`` one that cannot be read, and for two of one name.
    """
    splits = {path.stem: read_split(path) for path in offered if path.is_file()}
    for path in named:
        if path.stem in splits and splits[path.stem].path.resolve() != path.resolve():
            raise ValueError(f"two splits are called {path.stem}; rename {path}")
        splits[path.stem] = read_split(path, videos=videos)
    return splits


def read_upload(path: Path, *, max_duration_s: float) -> Clip:
    """Check an upload. Raises ``VideoError`` when it is no video, damaged from its start, too large or too long."""
    if path.stat().st_size > MAX_UPLOAD_BYTES:
        raise VideoError(f"{path}: is larger than the limit of {MAX_UPLOAD_BYTES / 2**30:.0f} GiB; cut or compress it")
    duration_s = probe(path, max_pixels=MAX_UPLOAD_PIXELS).duration_s
    if duration_s > max_duration_s:
        raise VideoError(
            f"{path}: lasts {format_clock(duration_s)}, longer than the limit of {format_clock(max_duration_s)}; "
            "cut it, or start the page with a larger --max-minutes"
        )
    num_frames = max(1, math.ceil((duration_s - EPSILON_S) * UPLOAD_FPS))
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:8]
    return Clip(
        name=path.name,
        path=path,
        fps=UPLOAD_FPS,
        num_frames=num_frames,
        duration_s=duration_s,
        content_digest=digest,
    )


def sample_clip(sample: Sample, path: Path, *, is_bundled: bool) -> Clip:
    """Return the video of a sample, with its task and reference."""
    return Clip(
        name=sample.video_id,
        path=path,
        fps=sample.fps,
        num_frames=sample.num_frames,
        duration_s=sample.num_frames / sample.fps,
        sample=sample,
        is_bundled=is_bundled,
        start_s=sample.start_s,
    )


_probe = lru_cache(maxsize=256)(probe)
