"""A clip as the published data store it: a part of a longer video, with frames and seconds of the *whole* video.

``start_frame_idx`` and ``end_frame_idx`` bound the clip, half-open, in frames of the whole video at ``fps``. Turns
carry absolute seconds. ``PublishedClip.clip_time_s`` is the one place where they become relative to the clip. Limits:
fps from 0.001 to 1000.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from engine.records import Step, frame_at
from eval.data.json_fields import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Which part of which video."""

    video_id: str
    """``video_uid``, then ``_clip<clip_idx>`` and ``_<metadata.user_id>`` where the data have them."""
    fps: float
    """Sampled frames per second."""
    start_frame: int
    """First frame, counted in the whole video."""
    num_frames: int
    """Frames of the clip."""
    video_path: str | None = None
    """The file of the whole video, as the record names it."""
    file_names: tuple[str, ...] = ()
    """Names that the file of the whole video may have, without ending: ``video_uid``, that of ``frames_file``."""

    @property
    def start_s(self) -> float:
        """Seconds of the whole video at which the clip starts."""
        return self.start_frame / self.fps


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTurn:
    """One turn, placed in the whole video."""

    frame: int
    """Frame of the whole video."""
    time_s: float
    """Seconds of the whole video; orders the turns."""
    role: Literal["update", "user", "assistant"]
    """An update of the state, the user, or the assistant."""
    text: str
    """The words, or the update as text, such as ``S3->complete``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClip:
    """One clip with its task and its dialogue."""

    extent: Extent
    """Which part of which video."""
    goal: str
    """What is made or done."""
    steps: tuple[Step, ...]
    """The steps of the task."""
    turns: tuple[PublishedTurn, ...]
    """The dialogue, in any order."""
    initial_state: Mapping[str, str]
    """States at the start of the clip, as far as they are known."""

    def clip_time_s(self, turn: PublishedTurn) -> float:
        """Return seconds from the start of the clip.

        Its ``frame_at`` is exactly ``turn.frame - start_frame``: where that is not so, the start of the frame is
        returned. Rounded to microseconds, as 97.2 - 96.5 is 0.7000000000000028; in a clip that begins with its video
        nothing is subtracted, and nothing rounded.
        """
        fps, frame = self.extent.fps, turn.frame - self.extent.start_frame
        time_s = round(turn.time_s - self.extent.start_s, 6) if self.extent.start_frame else turn.time_s
        return time_s if frame_at(time_s, fps) == frame else frame / fps


def read_extent(fields: Fields) -> Extent:
    """Read the fields that all published clips share. Raises ``ValueError`` naming the field."""
    fps = fields.read_fps()
    start_frame, end_frame = fields.read_index("start_frame_idx"), fields.read_index("end_frame_idx")
    if end_frame <= start_frame:
        raise fields.error("end_frame_idx", f"must be larger than start_frame_idx, {start_frame}")
    video_id = video_uid = fields.read_text("video_uid")
    frames_file = fields.record.get("frames_file")
    others = (PurePosixPath(frames_file).stem,) if isinstance(frames_file, str) else ()
    if fields.has("clip_idx"):
        video_id += f"_clip{fields.read_index('clip_idx')}"
    if fields.has("metadata") and fields.read_object("metadata").has("user_id"):
        video_id += f"_{fields.read_object('metadata').read_text('user_id')}"
    return Extent(
        video_id=video_id,
        fps=fps,
        start_frame=start_frame,
        num_frames=end_frame - start_frame,
        video_path=fields.read_text("video_path") if fields.has("video_path") else None,
        file_names=(video_uid, *filter(None, others)),
    )
