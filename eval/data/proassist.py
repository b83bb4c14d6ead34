"""ProAssist prepared dialogues, as docs/data-formats.md describes them.

The frame of a turn follows from the order of the entries, not from ``time``: for ``frames 0..4, user, frames 4..6,
assistant`` the user turn is at frame 4 and the assistant's at frame 5. A turn's time is the start of its frame.
"""

import re

from stepscope.engine.io.files import strip_text
from stepscope.engine.records import Step
from stepscope.eval.data.clips import Extent
from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.samples import Role, Sample, Turn

_ROLES = ("system", "frames", "user", "assistant")
_NUMBERED = re.compile(r"([0-9]{1,4})[.)]\s*(\S.*)")


def read_dialogue(fields: Fields, extent: Extent) -> Sample:
    """Read one dialogue. Raises ``ValueError`` naming the field."""
    metadata = fields.read_object("metadata")
    return extent.make_sample(
        goal=metadata.read_text("task_goal"),
        steps=_read_steps(metadata),
        turns=_read_turns(fields, extent),
        initial_state={},
    )


def _read_turns(fields: Fields, extent: Extent) -> list[Turn]:
    entries = [entry for entry in fields.read_objects("conversation") if entry.read_choice("role", _ROLES) != "system"]
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


def _read_steps(metadata: Fields) -> tuple[Step, ...]:
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
