"""Clips in the published data: parts of a longer video, with frames and seconds of the *whole* video.

``start_frame_idx`` and ``end_frame_idx`` bound the clip, half-open, in frames of the whole video at ``fps``. Turns
have absolute times; ``Extent.clip_time_s`` converts them to times in the clip. ``fps`` is from 0.001 to 1000.
docs/data-formats.md describes both forms, DST clips and ProAssist's prepared dialogues.

In the real clip of frames 193..450 at 2 fps (96.5 s to 225.5 s) the first turn is at 97.2 s, frame floor(194.4) = 194
of the video, frame 1 of the clip, 0.7 s after its start. In a dialogue with ``frames 0..4, user, frames 4..6,
assistant`` the user turn is at frame 4 and the assistant's at frame 5, each at the start of its frame.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from stepscope.engine.dialogue import STATES, TRANSITIONS, initial_state, parse_update
from stepscope.engine.io.files import strip_text
from stepscope.engine.records import Step, frame_at
from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.samples import Role, Sample, Turn, turn_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The part of a video that a clip covers."""

    video_id: str
    """``video_uid``, then ``_clip<clip_idx>`` and ``_<metadata.user_id>`` if the record has them."""
    fps: float
    start_frame: int
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
        self,
        *,
        goal: str,
        steps: tuple[Step, ...],
        turns: Iterable[Turn],
        initial_state: Mapping[str, str] | None = None,
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
            initial_state=initial_state or {},
            start_s=self.start_s,
        )


def read_extent(fields: Fields) -> Extent:
    """Read the fields that all published clips share. Raises ``ValueError`` naming the field."""
    fps = fields.read_fps()
    start_frame = fields.read_index("start_frame_idx") if fields.has("start_frame_idx") else 0
    has_end = fields.has("end_frame_idx") or not fields.has("dst")
    end_frame = fields.read_index("end_frame_idx") if has_end else _find_end(fields, fps)
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


_DST_ROLES = ("DST_UPDATE", "user", "assistant", "system", "DST_CONTEXT")
_NOT_SPOKEN = ("system", "DST_CONTEXT")
"""Roles of instructions to the model; the latter repeats the state before the clip."""


def _find_end(fields: Fields, fps: float) -> int:
    """Return the frame after the last turn and step of a DST clip that does not state its end."""
    ends = (("conversation", "time"), ("dst", "end_ts"))
    times = [entry.read_number(name) for part, name in ends for entry in fields.read_objects(part) if entry.has(name)]
    return frame_at(max(times, default=0.0), fps) + 1


def read_clip(fields: Fields, extent: Extent) -> Sample:
    """Read a DST training clip. Raises ``ValueError`` naming the field."""
    steps = _read_steps(fields)
    ids = {step.id: step for step in steps}
    earliest_states: dict[str, str] = {}
    turns: list[Turn] = []
    for entry in _in_order(fields.read_objects("conversation")):
        time_s = entry.read_number("time")
        for step_id, state in _read_states(entry, "dst_state", ids).items():
            earliest_states.setdefault(step_id, state)
        role: Role
        if entry.record["role"] == "DST_UPDATE":
            updates = _read_updates(entry, ids)
            for step_id, transition in updates:
                earliest_states.setdefault(step_id, TRANSITIONS[transition][0])
            role, texts = "update", [f"{step_id}->{transition}" for step_id, transition in updates]
        else:
            role = "user" if entry.record["role"] == "user" else "assistant"
            texts = [entry.read_text("content")]
        clip_time_s = extent.clip_time_s(time_s, frame=frame_at(time_s, extent.fps))
        turns += [Turn(time_s=clip_time_s, role=role, text=text) for text in texts]
    places = (fields, fields.read_object("metadata", may_be_missing=True))
    given = next((place for place in places if place.has("initial_dst_state")), None)
    return extent.make_sample(
        goal=fields.read_text("inferred_goal", may_be_blank=True) if fields.has("inferred_goal") else "",
        steps=steps,
        turns=turns,
        initial_state=earliest_states if given is None else _read_states(given, "initial_dst_state", ids),
    )


def _read_steps(fields: Fields) -> tuple[Step, ...]:
    entries = fields.read_objects("dst") if fields.has("dst") else ()
    for entry in entries:
        if entry.has("type"):
            entry.read_choice("type", ["step"])
        update = parse_update(f"{entry.read_text('id')}->start")
        if update is None or update.step_id != entry.record["id"]:
            raise entry.error("id", "must be one word, such as S1")
    steps = tuple(Step(id=entry.read_text("id"), name=entry.read_text("name")) for entry in entries)
    initial_state(steps)
    return steps


def _in_order(entries: Iterable[Fields]) -> list[Fields]:
    spoken = [entry for entry in entries if entry.read_choice("role", _DST_ROLES) not in _NOT_SPOKEN]
    return sorted(spoken, key=lambda entry: (entry.read_number("time"), _DST_ROLES.index(entry.read_text("role"))))


def _read_updates(entry: Fields, ids: Mapping[str, Step]) -> list[tuple[str, str]]:
    changes = entry.read_objects("content")
    return [(change.read_choice("id", ids), change.read_choice("transition", list(TRANSITIONS))) for change in changes]


def _read_states(fields: Fields, name: str, ids: Mapping[str, Step]) -> dict[str, str]:
    states = fields.read_object(name, may_be_missing=True)
    if not states.record.keys() <= ids.keys():
        raise fields.error(name, f"must name steps of dst only ({', '.join(ids)[:200]})")
    return {step_id: states.read_choice(step_id, STATES) for step_id in states.record}


_ENTRY_ROLES = ("system", "frames", "user", "assistant")
_NUMBERED = re.compile(r"([0-9]{1,4})[.)]\s*(\S.*)")


def read_dialogue(fields: Fields, extent: Extent) -> Sample:
    """Read a prepared dialogue of ProAssist. Raises ``ValueError`` naming the field."""
    metadata = fields.read_object("metadata")
    return extent.make_sample(
        goal=metadata.read_text("task_goal"), steps=_read_recipe(metadata), turns=_read_turns(fields, extent)
    )


def _read_turns(fields: Fields, extent: Extent) -> list[Turn]:
    entries = [
        entry for entry in fields.read_objects("conversation") if entry.read_choice("role", _ENTRY_ROLES) != "system"
    ]
    roles = [entry.record["role"] for entry in entries]
    turns = []
    next_frame, has_images = extent.start_frame, False
    for i, entry in enumerate(entries):
        if roles[i] == "frames":
            next_frame, has_images = _read_end(entry, next_frame), True
            continue
        is_on_last_frame = next((role for role in roles[i:] if role != "user"), None) == "assistant"
        if is_on_last_frame and not has_images:
            raise entry.error("role", "must be preceded by a frames turn: put one before the first answer")
        role: Role = "user" if roles[i] == "user" else "assistant"
        frame = next_frame - 1 if is_on_last_frame else next_frame
        time_s = extent.clip_time_s(frame / extent.fps, frame=frame)
        turns.append(Turn(time_s=time_s, role=role, text=entry.read_text("content")))
    return turns


def _read_end(entry: Fields, next_frame: int) -> int:
    start, end = entry.read_index("start"), entry.read_index("end")
    if start < next_frame:
        raise entry.error("start", f"must not be before frame {next_frame}, where the frames so far end")
    if end <= start:
        raise entry.error("end", f"must be larger than start, {start}")
    return end


def _read_recipe(metadata: Fields) -> tuple[Step, ...]:
    if metadata.record.get("knowledge") == "":
        return ()
    names: dict[str, str] = {}
    for line in map(strip_text, metadata.read_text("knowledge").splitlines()):
        match = _NUMBERED.fullmatch(line)
        if match and f"S{int(match[1])}" in names:
            raise metadata.error("knowledge", f"must number each step once, not {match[1]} twice")
        if match:
            names[f"S{int(match[1])}"] = match[2]
        elif names and line:
            names[[*names][-1]] += f" {line}"
    steps = tuple(Step(id=step_id, name=name) for step_id, name in names.items())
    if [step.id for step in steps] != [f"S{number}" for number in range(1, len(steps) + 1)] or not steps:
        raise metadata.error("knowledge", "must be a recipe numbered 1. 2. 3., or empty text for a task without steps")
    return steps
