"""The videos of a published player."""

import os
from collections.abc import Sequence
from pathlib import Path

from stepscope.app.core.display_copies import DisplayCopies
from stepscope.app.core.videos import Clip
from stepscope.app.publish.options import VideoFiles
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
    missing = [one.video_id for one in samples if one.video_path is None or not one.video_path.is_file()]
    if missing and files != "none":
        named = ", ".join(missing[:MAX_NAMED]) + (", ..." if len(missing) > MAX_NAMED else "")
        raise ValueError(
            f"{format_count(len(missing), 'video has', 'videos have')} no file: {named}; give --data with their "
            "paths, or --videos none to publish without pictures"
        )


def place_video(clip: Clip, stem: Path, *, files: VideoFiles, copies: DisplayCopies) -> Path | None:
    """Write the video of a clip, which browsers play, as ``stem`` with its ending; return its path, or None for none.

    A link is made only to a whole file that browsers play; the rest is converted.
    """
    if files == "none":
        return None
    if files == "link" and clip.start_s is None and not clip.copy_reason:
        path = stem.with_name(f"{stem.name}{'.webm' if clip.path.suffix.lower() == '.webm' else '.mp4'}")
        path.symlink_to(clip.path.resolve())
        return path
    copy = copies.find_or_convert(clip.path, start_s=clip.start_s, duration_s=clip.duration_s)
    path = stem.with_name(stem.name + copy.suffix)
    os.replace(copy, path)
    return path
