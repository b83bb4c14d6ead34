"""Videos of the player: the bundled videos of a manifest, and checked uploads. Both become a ``Clip``.

If the manifest cannot be read, the page still works with uploads and shows the reason. An upload that cannot be
streamed raises ``VideoError``.
"""

import io
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from filecmp import cmp
from functools import lru_cache
from itertools import chain, count
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stepscope.app.formatting import format_clock
from stepscope.engine.errors import EngineError, VideoError
from stepscope.engine.io.files import digest_file
from stepscope.engine.io.hub_files import fetch_missing
from stepscope.engine.model.files.bundled import ASSETS
from stepscope.engine.records import Excerpt
from stepscope.engine.video.reader import find_copy_reason, find_cut, find_damage, find_still, probe, read_frames
from stepscope.engine.video.stills import make_square
from stepscope.engine.video.track import EPSILON_S, find_track
from stepscope.engine.video.trial import try_reading
from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.data.samples import Sample, Split

MAX_UPLOAD_BYTES = 4 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One video on the page."""

    name: str
    """Display name: the video's id, or the upload's file name."""
    path: Path
    """Its file; an empty path if there is none, as in a recorded run."""
    fps: float
    num_frames: int
    duration_s: float
    sample: Sample | None = None
    is_bundled: bool = False
    """Whether a link can refer to it on any server."""
    split: str = ""
    """Name of its split on this page; empty for an upload and for a bundled video."""
    reference_writer: str = ""
    """``Split.reference_writer`` of its reference: a model or ``templates``; empty for people."""
    content_digest: str = ""
    """32 hex digits of the content, which distinguish uploads with equal file names; empty for a video of a split."""
    start_s: float | None = None
    """Start of the clip within the file, in seconds; None if the clip is the whole file."""
    cut_s: float | None = None
    """Time in seconds at which an upload is cut off; None for a whole file."""
    damaged_s: float | None = None
    """Time in seconds of the first damaged packet of an upload, as far as is known before it is decoded."""

    @property
    def excerpt(self) -> Excerpt | None:
        """The excerpt of the file; None if the clip is the whole file."""
        return None if self.start_s is None else Excerpt(start_s=self.start_s, num_frames=self.num_frames)

    @property
    def video_id(self) -> str:
        """Id in reviews: the video's id in its split, or the upload's file name and content digest."""
        return f"{self.name} {self.content_digest}" if self.content_digest else self.name

    @property
    def video_fps(self) -> float:
        """Native frames per second of the file; the sampling rate if there is no file or it declares none."""
        if not self.path.is_file():
            return self.fps
        native_fps = _probe(self.path).native_fps
        return native_fps if math.isfinite(native_fps) and native_fps > 0 else self.fps

    @property
    def has_file(self) -> bool:
        """Whether there is a video to play and to run."""
        return self.path != Path()

    @property
    def is_drawing(self) -> bool:
        """Whether it is one of the bundled videos, which the bundled model knows; without a file, by its name."""
        return is_drawing(self.path) if self.path.is_file() else (_DRAWINGS / f"{self.name}.mp4").is_file()

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the file's upright pictures."""
        info = _probe(self.path)
        return info.height, info.width

    @property
    def copy_reason(self) -> str:
        """Why the page shows a converted copy; empty if browsers can show the file itself."""
        return _find_copy_reason(self.path)


_UPLOAD: Final = re.compile(r"(.+) [0-9a-f]{32}", re.DOTALL)
"""The id of an upload; see ``Clip.video_id``."""


def name_uploads(video_ids: Iterable[str]) -> Mapping[str, str]:
    """Return a unique name without the digest for each upload among the ids: its file name, if needed with a number."""
    known = dict.fromkeys(video_ids)
    names, taken = dict[str, str](), {video_id for video_id in known if not _UPLOAD.fullmatch(video_id)}
    for video_id in known:
        if found := _UPLOAD.fullmatch(video_id):
            numbered = (f"{found[1]} {number}" for number in count(2))
            names[video_id] = next(name for name in chain([found[1]], numbered) if name not in taken)
            taken.add(names[video_id])
    return names


_DRAWINGS = ASSETS / "demo"


def is_drawing(path: Path) -> bool:
    """Return whether a file has the content of a bundled video, under any name; one of another size is not read."""
    return any(cmp(path, drawing, shallow=False) for drawing in _DRAWINGS.glob("*.mp4"))


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledVideos:
    """The bundled videos whose files exist."""

    clips: tuple[Clip, ...]
    notice: str = ""
    """A sentence about missing files or an unreadable manifest; empty without a problem."""

    def find(self, name: str) -> Clip:
        """Return the clip with a name. Raises ``ValueError`` for an unknown name."""
        for clip in self.clips:
            if clip.name == name:
                return clip
        raise ValueError(f"there is no bundled video {name!r}; choose one from the list")


def read_moment(sample: Sample, time_s: float) -> NDArray[np.uint8] | None:
    """Return the picture ``[H, W, 3]`` of a sample's video at a time, with square pixels; None if it is unreadable."""
    if sample.video_path is None:
        return None
    return _read_picture(sample.video_path, sample.fps, sample.start_s, time_s)


def _read_picture(path: Path, fps: float, start_s: float | None, time_s: float) -> NDArray[np.uint8] | None:
    excerpt = Excerpt(start_s=(start_s or 0.0) + time_s, num_frames=1)
    try:
        image = next(iter(read_frames(path, fps=fps, excerpt=excerpt))).image
        return make_square(image, find_track(path).pixel_aspect)
    except (EngineError, ValueError, OSError, StopIteration):
        return None


THUMBNAIL_WIDTH: Final = 176


def draw_thumbnail(sample: Sample, time_s: float) -> bytes | None:
    """Return a small JPEG of a sample's video at a time, at most its end; None if it is unreadable."""
    if sample.video_path is None or not math.isfinite(time_s):
        return None
    last_s = (sample.num_frames - 1) / sample.fps
    try:
        changed_ns = sample.video_path.stat().st_mtime_ns
    except OSError:
        return None
    return _draw_thumbnail(sample.video_path, sample.fps, sample.start_s, min(max(time_s, 0.0), last_s), changed_ns)


@lru_cache(maxsize=2048)
def _draw_thumbnail(path: Path, fps: float, start_s: float | None, time_s: float, _changed_ns: int) -> bytes | None:
    image = _read_picture(path, fps, start_s, time_s)
    if image is None:
        return None
    picture, file = Image.fromarray(image), io.BytesIO()
    picture.thumbnail((THUMBNAIL_WIDTH, THUMBNAIL_WIDTH))
    picture.save(file, "JPEG", quality=70)
    return file.getvalue()


def read_bundled_videos(manifest: Path) -> BundledVideos:
    """Return the bundled videos of a manifest; problems are reported in the notice."""
    try:
        if not manifest.is_file():
            raise ValueError(f"{manifest} does not exist")
        samples = read_samples(manifest)
    except ValueError as error:
        return BundledVideos(clips=(), notice=f"No bundled videos: {error}. Upload a video instead.")
    clips = tuple(
        sample_clip(sample, sample.video_path, is_bundled=True, split=manifest.stem)
        for sample in samples
        if sample.video_path is not None and sample.video_path.is_file()
    )
    num_missing = len(samples) - len(clips)
    notice = f"{num_missing} of {len(samples)} bundled videos have no file beside {manifest}." if num_missing else ""
    return BundledVideos(clips=clips, notice=notice)


def read_splits(optional: Iterable[Path], required: Iterable[Path], *, videos: Path | None = None) -> dict[str, Split]:
    """Return splits by name. ``optional`` files may be missing.

    The name is that of the file without suffix. If a split before has it, the name of a folder precedes it: beside the
    bundled ``val.json``, ``tower/val/val.json`` is ``tower-val``. ``videos`` is a folder with the videos of the
    ``required`` splits whose records have no ``video_path``.

    Raises ``ValueError`` for a split that cannot be read, and for two splits with the same name.
    """
    splits = {path.stem: read_split(path) for path in optional if path.is_file()}
    for path in required:
        folders = [parent.name for parent in path.resolve().parents if parent.name != path.stem]
        for name in (path.stem, f"{folders[0]}-{path.stem}"):
            if name not in splits or splits[name].path.resolve() == path.resolve():
                splits[name] = read_split(path, videos=videos)
                break
        else:
            raise ValueError(f"two splits are named {name}; rename {path}")
    return splits


def read_upload(path: Path, *, fps: float, max_duration_s: float) -> Clip:
    """Return a checked upload, to be sampled at ``fps``.

    Raises ``VideoError`` if it is not a video, cannot be decoded, or exceeds a limit.
    """
    if path.stat().st_size > MAX_UPLOAD_BYTES:
        raise VideoError(f"{path}: is larger than the limit of {MAX_UPLOAD_BYTES / 2**30:.0f} GiB; cut or compress it")
    try_reading(path)
    duration_s = probe(path).duration_s
    if duration_s > max_duration_s:
        raise VideoError(
            f"{path}: lasts {format_clock(duration_s)}, longer than the limit of {format_clock(max_duration_s)}; "
            + (find_still(path) or "cut it, or start the page with a larger --max-minutes")
        )
    cut_s = find_cut(path)
    num_frames = max(1, math.ceil((duration_s - EPSILON_S) * fps))
    digest = digest_file(path)[:32]
    return Clip(
        name=path.name,
        path=path,
        fps=fps,
        num_frames=num_frames,
        duration_s=duration_s,
        content_digest=digest,
        cut_s=cut_s,
        damaged_s=find_damage(path) if cut_s is None else None,
    )


def find_split_clip(splits: Mapping[str, Split], split: str, video_id: str) -> Clip:
    """Return the clip of a video of a split. Raises ``ValueError`` for an unknown split or video."""
    if split not in splits:
        raise ValueError(f"there is no split {split!r} on this page; add it in Batch, under Another split")
    sample = splits[split].find(video_id)
    if sample is None:
        raise ValueError(f"there is no video {video_id} in the split {split}")
    writer = splits[split].reference_writer
    return sample_clip(sample, sample.video_path or Path(), is_bundled=False, split=split, reference_writer=writer)


def sample_clip(sample: Sample, path: Path, *, is_bundled: bool, split: str = "", reference_writer: str = "") -> Clip:
    """Return the clip of a sample at ``path``, with its task and reference; download a missing file of the Hub.

    Raises ``ValueError`` if that fails.
    """
    fetch_missing(path)
    return Clip(
        name=sample.video_id,
        path=path,
        fps=sample.fps,
        num_frames=sample.num_frames,
        duration_s=sample.num_frames / sample.fps,
        sample=sample,
        is_bundled=is_bundled,
        split=split,
        reference_writer=reference_writer,
        start_s=sample.start_s,
    )


_probe = lru_cache(maxsize=256)(probe)
_find_copy_reason = lru_cache(maxsize=256)(find_copy_reason)
