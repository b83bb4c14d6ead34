"""What all windows of the page share: the model, the bundled videos, caches and the text encoder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.player.increments import Streams
from app.player.session.places import Recent
from app.player.session.recordings import KeptRecordings
from app.transcode import DisplayCopies
from app.videos import Demos
from engine.model.checkpoint import Checkpoint
from eval.matching.turns import Encode
from eval.runs.folder import versions


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all windows share."""

    checkpoint: Checkpoint
    """The model."""
    demos: Demos
    """The bundled videos."""
    copies: DisplayCopies
    """Converted videos for display."""
    encode: Encode
    """Encoder that compares what was said with the reference."""
    max_duration_s: float
    """Longest upload, in seconds."""
    limits: str = ""
    """What the page says of its model wherever a video of a user is shown; empty for a model of the user."""
    encoder: Mapping[str, str] = field(default_factory=dict)
    """Name, version and digest of ``encode``, named as in ``metrics.json``."""
    recent: Recent = field(default_factory=Recent)
    """Uploads and runs that an address can come back to."""
    recordings: KeptRecordings = field(default_factory=KeptRecordings)
    """What windows keep of their runs, under one budget."""
    streams: Streams = field(default_factory=Streams)
    """The runs that stream now, from which a player gets the frames that it missed."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Checkpoint, device, versions and text encoder of the page's own runs, named as in ``run.json``."""
        device = self.checkpoint.model.device.type
        return {"checkpoint": self.checkpoint.name, "device": device, "versions": versions(), **self.encoder}
