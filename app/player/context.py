"""Shared state of the page: the model, the bundled videos, caches and the text encoder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.player.display.increments import ActiveStreams
from app.player.session.places import RecentSessions
from app.player.session.recordings import RecordingCache
from app.transcode import DisplayCopies
from app.videos import BundledVideos
from engine.config import StreamConfig
from engine.model.checkpoint import Checkpoint
from eval.matching.turns import Encode
from eval.runs.folder import versions


@dataclass(frozen=True, kw_only=True)
class AppContext:
    """Objects that all windows of the page share."""

    checkpoint: Checkpoint
    bundled_videos: BundledVideos
    copies: DisplayCopies
    """Browser-playable copies of videos."""
    encode: Encode
    """Sentence encoder that compares generated texts with the reference."""
    config: StreamConfig = field(default_factory=StreamConfig)
    """Settings of new runs; the frame rate is each video's own."""
    max_duration_s: float
    """Maximum duration of an upload, in seconds."""
    model_warning: str = ""
    """Warning about the model, shown with every upload; empty for a checkpoint other than the bundled one."""
    encoder: Mapping[str, str] = field(default_factory=dict)
    """Name, version and digest of ``encode``, with the keys of ``metrics.json``."""
    recent: RecentSessions = field(default_factory=RecentSessions)
    """Uploads and runs that a link can reopen."""
    recordings: RecordingCache = field(default_factory=RecordingCache)
    """Recordings of all windows, with one memory budget."""
    streams: ActiveStreams = field(default_factory=ActiveStreams)
    """Active streams, from which players fetch frames."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Checkpoint, device, versions and text encoder of the page's runs, with the keys of ``run.json``."""
        device = self.checkpoint.model.device.type
        return {"checkpoint": self.checkpoint.name, "device": device, "versions": versions(), **self.encoder}
