"""The videos of a published player."""

import os
from collections.abc import Sequence
from pathlib import Path

from stepscope.app.core.display_copies import DisplayCopies
from stepscope.app.core.videos import Clip
from stepscope.app.formatting import as_sentence
from stepscope.app.publish.options import VideoFiles
from stepscope.engine.errors import VideoError
from stepscope.engine.io.hub_files import fetch_missing
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Sample

MAX_NAMED = 3
"""Maximum number of missing videos that an error names."""


def check_videos(samples: Sequence[Sample], files: VideoFiles) -> None:
    """Raise ``ValueError`` if a video that is to be published has no file."""
    for one in samples if files != "none" else ():
        if one.video_path is not None:
            fetch_missing(one.video_path)
    missing = [one.video_id for one in samples if one.video_path is None or not os.path.isfile(one.video_path)]
    if missing and files != "none":
        named = ", ".join(missing[:MAX_NAMED]) + (", ..." if len(missing) > MAX_NAMED else "")
        raise ValueError(
            f"{format_count(len(missing), 'video has', 'videos have')} no file: {named}; give --data with their "
            "paths, or --videos none to publish without pictures"
        )


class PlacedVideos:
    """The videos of a player; one that several runs show is written once."""

    def __init__(self, folder: Path, files: VideoFiles) -> None:
        self._folder, self._files = folder, files
        self._copies = DisplayCopies(folder)
        self._placed = dict[tuple[Path, float | None, float], Path]()

    def place(self, clip: Clip, stem: str) -> tuple[Path | None, str]:
        """Return the published video of a clip, new or not, or the reason why it cannot be read."""
        key = (clip.path, clip.start_s, clip.duration_s)
        if self._files == "none" or key in self._placed:
            return self._placed.get(key), ""
        try:
            self._placed[key] = self._write(clip, self._folder / stem)
        except VideoError as error:
            if isinstance(error.__cause__, OSError):
                raise  # the disk, not the video
            return None, as_sentence(error)
        return self._placed[key], ""

    def _write(self, clip: Clip, stem: Path) -> Path:
        """Write a video, which browsers play, as ``stem`` with its ending.

        A link is made only to a whole file that browsers play; the rest is converted.
        """
        if self._files == "link" and clip.start_s is None and not clip.copy_reason:
            path = stem.with_name(f"{stem.name}{'.webm' if clip.path.suffix.lower() == '.webm' else '.mp4'}")
            path.symlink_to(clip.path.resolve())
            return path
        copy = self._copies.find_or_convert(clip.path, start_s=clip.start_s, duration_s=clip.duration_s)
        path = stem.with_name(stem.name + copy.suffix)
        os.replace(copy, path)
        return path
