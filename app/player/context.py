"""What all windows of the page share: the model, the bundled videos, caches and the text encoder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.player.increments import ActiveStreams
from app.player.session.places import RecentSessions
from app.player.session.recordings import RecordingCache
from app.transcode import DisplayCopies
from app.videos import BundledVideos
from engine.model.checkpoint import Checkpoint
from eval.matching.turns import Encode
from eval.runs.folder import versions


@dataclass(frozen=True, kw_only=True)
class AppContext:
    """What all windows share."""

    checkpoint: Checkpoint
    """The model."""
    bundled_videos: BundledVideos
    """The bundled videos."""
    copies: DisplayCopies
    """Converted videos for display."""
    encode: Encode
    """Encoder that compares what was said with the reference."""
    max_duration_s: float
    """Longest upload, in seconds."""
    model_warning: str = ""
    """What the page says of its model wherever a video of a user is shown; empty for a model of the user."""
    encoder: Mapping[str, str] = field(default_factory=dict)
    """Name, version and digest of ``encode``, named as in ``metrics.json``."""
    recent: RecentSessions = field(default_factory=RecentSessions)
    """Uploads and runs that an address can come back to."""
    recordings: RecordingCache = field(default_factory=RecordingCache)
    """What windows keep of their runs, under one budget."""
    streams: ActiveStreams = field(default_factory=ActiveStreams)
    """The runs that stream now, from which a player gets the frames that it missed."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Checkpoint, device, versions and text encoder of the page's own runs, named as in ``run.json``."""
        device = self.checkpoint.model.device.type
        return {"checkpoint": self.checkpoint.name, "device": device, "versions": versions(), **self.encoder}
