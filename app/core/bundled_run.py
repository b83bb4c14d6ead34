"""The bundled run that the page opens on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from stepscope.app.core.run import PAGE_SCORING, Run
from stepscope.app.core.saved import read_saved_run
from stepscope.app.core.videos import BundledVideos, Clip
from stepscope.engine.config import StreamConfig
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.eval.metrics.definitions import NUM_FAILURES
from stepscope.eval.reports.table_files import read_video_rows
from stepscope.eval.runs.folder import RunFolder, read_stream_config

BUNDLED_NAME: Final = "bundled"
"""Name of the bundled run on the page."""
OPENING_VIDEO: Final = "robot-hard"
"""The bundled video that the page opens on: a hand takes a part of another toy, and the model begins a step."""


@dataclass(frozen=True, kw_only=True)
class BundledRun:
    """The bundled run of the bundled videos, where it equals the runs that the page would make."""

    folder: RunFolder
    num_failures: Mapping[str, int]
    """Failures of each video, by id."""

    @classmethod
    def find(cls, path: Path, *, videos: Path, checkpoint: Checkpoint, config: StreamConfig) -> Self | None:
        """Return the run in the folder ``path``; None if it is of other videos, of another model or other settings.

        ``videos`` is the manifest of the page's bundled videos, and ``config`` has the settings of its runs.
        """
        folder = RunFolder(path)
        try:
            settings = folder.settings() or {}
            if settings.get("split") != str(videos.resolve()) or settings.get("model_digest") != checkpoint.digest:
                return None
            if read_stream_config(settings, fps=config.fps).frame_by_frame() != config.frame_by_frame():
                return None
            rows = [row for row in read_video_rows(path) if not row["error"]]
            counts = {str(row["video_id"]): int(row.get(NUM_FAILURES, math.nan)) for row in rows}
        except (ValueError, OSError):
            return None  # a damaged folder is no bundled run: the page opens without one
        return cls(folder=folder, num_failures=counts)

    def opening_clip(self, videos: BundledVideos) -> Clip | None:
        """Return the clip that the page opens on: that of ``OPENING_VIDEO``, or else of the most failures."""
        clips = [clip for clip in videos.clips if clip.name in self.num_failures]
        return max(clips, key=lambda clip: (clip.name == OPENING_VIDEO, self.num_failures[clip.name]), default=None)

    def run_of(self, clip: Clip, *, encoder: Mapping[str, str]) -> Run | None:
        """Return the run of a bundled clip; None if it lacks the clip, or the clip's reference or file has changed.

        Like a run of the page it has no name: a link to it leads to the same run on any server.
        """
        if not clip.is_bundled or clip.sample is None or self.folder.find_finished(clip.sample) is None:
            return None
        run = read_saved_run(self.folder, clip, scoring=PAGE_SCORING, encoder=encoder)
        return replace(run, name="", kept_as=BUNDLED_NAME)
