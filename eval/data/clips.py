"""Clips in the published data: parts of a longer video, with frames and seconds of the *whole* video.

``start_frame_idx`` and ``end_frame_idx`` bound the clip, half-open, in frames of the whole video at ``fps``. Turns
have absolute times; ``Extent.clip_time_s`` converts them to times in the clip. ``fps`` is from 0.001 to 1000.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from stepscope.engine.records import Step, frame_at
from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.samples import Sample, Turn, turn_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The part of a video that a clip covers."""

    video_id: str
    """``video_uid``, then ``_clip<clip_idx>`` and ``_<metadata.user_id>`` if the record has them."""
    fps: float
    start_frame: int
    """First frame, counted in the whole video."""
    num_frames: int
    video_path: str | None = None
    file_names: tuple[str, ...] = ()
    """Possible names of the video file, without suffix: ``video_uid`` and the name of ``frames_file``."""

    @property
    def start_s(self) -> float:
        """Start of the clip in the whole video, in seconds."""
        return self.start_frame / self.fps

    def clip_time_s(self, time_s: float, *, frame: int) -> float:
        """Return a time, at a frame of the whole video, in seconds from the start of the clip.

        The result always falls in frame ``frame - start_frame``: if the difference does not, the start of that frame
        is returned. The difference is rounded to microseconds, because 97.2 - 96.5 is 0.7000000000000028. In a clip
        from frame 0 the time is returned unchanged.
        """
        clip_frame = frame - self.start_frame
        clip_time_s = round(time_s - self.start_s, 6) if self.start_frame else time_s
        return clip_time_s if frame_at(clip_time_s, self.fps) == clip_frame else clip_frame / self.fps

    def make_sample(
        self, *, goal: str, steps: tuple[Step, ...], turns: Iterable[Turn], initial_state: Mapping[str, str]
    ) -> Sample:
        """Return the clip as a sample; ``turns`` have times in the clip, in any order."""
        return Sample(
            video_id=self.video_id,
            video_path=None if self.video_path is None else Path(self.video_path),
            fps=self.fps,
            num_frames=self.num_frames,
            goal=goal,
            steps=steps,
            turns=tuple(sorted(turns, key=turn_order)),
            initial_state=initial_state,
            start_s=self.start_s,
        )


def read_extent(fields: Fields) -> Extent:
    """Read the fields that all published clips share. Raises ``ValueError`` naming the field."""
    fps = fields.read_fps()
    start_frame, end_frame = fields.read_index("start_frame_idx"), fields.read_index("end_frame_idx")
    if end_frame <= start_frame:
        raise fields.error("end_frame_idx", f"must be larger than start_frame_idx, {start_frame}")
    fields.check_length("end_frame_idx", end_frame - start_frame, fps)
    video_id = video_uid = fields.read_text("video_uid")
    frames_file = fields.record.get("frames_file")
    frames_name = PurePosixPath(frames_file).stem if isinstance(frames_file, str) else ""
    if fields.has("clip_idx"):
        video_id += f"_clip{fields.read_index('clip_idx')}"
    metadata = fields.read_object("metadata", may_be_missing=True)
    if metadata.has("user_id"):
        video_id += f"_{metadata.read_text('user_id')}"
    return Extent(
        video_id=video_id,
        fps=fps,
        start_frame=start_frame,
        num_frames=end_frame - start_frame,
        video_path=fields.read_text("video_path") if fields.has("video_path") else None,
        file_names=(video_uid, frames_name) if frames_name else (video_uid,),
    )
