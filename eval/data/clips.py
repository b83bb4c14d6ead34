"""Clips in the published data: parts of a longer video, with frames and seconds of the *whole* video.

``start_frame_idx`` and ``end_frame_idx`` bound the clip, half-open, in frames of the whole video at ``fps``. Turns
have absolute times; ``PublishedClip.clip_time_s`` converts them to times in the clip. ``fps`` is from 0.001 to 1000.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from engine.records import Step, frame_at
from eval.data.json_fields import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The part of a video that a clip covers."""

    video_id: str
    """``video_uid``, then ``_clip<clip_idx>`` and ``_<metadata.user_id>`` if the record has them."""
    fps: float
    """Sampled frames per second."""
    start_frame: int
    """First frame, counted in the whole video."""
    num_frames: int
    """Frames of the clip."""
    video_path: str | None = None
    """Path of the whole video in the record."""
    file_names: tuple[str, ...] = ()
    """Possible names of the video file, without suffix: ``video_uid`` and the name of ``frames_file``."""

    @property
    def start_s(self) -> float:
        """Start of the clip in the whole video, in seconds."""
        return self.start_frame / self.fps


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTurn:
    """One turn, at a time in the whole video."""

    frame: int
    """Frame of the whole video."""
    time_s: float
    """Seconds in the whole video; the sort key of the turns."""
    role: Literal["update", "user", "assistant"]
    """An update of the state, the user, or the assistant."""
    text: str
    """The message, or the update as text, such as ``S3->complete``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClip:
    """One clip with its task and its dialogue."""

    extent: Extent
    """The part of the video."""
    goal: str
    """The goal of the task."""
    steps: tuple[Step, ...]
    """The steps of the task."""
    turns: tuple[PublishedTurn, ...]
    """The dialogue, in any order."""
    initial_state: Mapping[str, str]
    """Known states at the start of the clip."""

    def clip_time_s(self, turn: PublishedTurn) -> float:
        """Return the time of a turn in seconds from the start of the clip.

        The result always falls in frame ``turn.frame - start_frame``: if the difference does not, the start of that
        frame is returned. The difference is rounded to microseconds, because 97.2 - 96.5 is 0.7000000000000028. In a
        clip from frame 0 the time is returned unchanged.
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
    frames_name = PurePosixPath(frames_file).stem if isinstance(frames_file, str) else ""
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
        file_names=(video_uid, frames_name) if frames_name else (video_uid,),
    )
