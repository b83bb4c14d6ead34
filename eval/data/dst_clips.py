"""DST training clips, as docs/data-formats.md describes them.

``time`` is in seconds of the whole video: in the real clip of frames 193..450 at 2 fps (96.5 s to 225.5 s) the first
turn is at 97.2 s, frame floor(194.4) = 194 of the video, frame 1 of the clip, 0.7 s after its start.
"""

from collections.abc import Iterable, Sequence

from stepscope.engine.dialogue import STATES, TRANSITIONS, initial_state, parse_update
from stepscope.engine.records import Step, frame_at
from stepscope.eval.data.clips import Extent
from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.samples import Role, Sample, Turn

_ROLES = ("DST_UPDATE", "user", "assistant", "system")


def read_clip(fields: Fields, extent: Extent) -> Sample:
    """Read one clip. Raises ``ValueError`` naming the field."""
    steps = _read_steps(fields)
    ids = [step.id for step in steps]
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
        goal=fields.read_text("inferred_goal"),
        steps=steps,
        turns=turns,
        initial_state=earliest_states if given is None else _read_states(given, "initial_dst_state", ids),
    )


def _read_steps(fields: Fields) -> tuple[Step, ...]:
    entries = fields.read_objects("dst")
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
    spoken = [entry for entry in entries if entry.read_choice("role", _ROLES) != "system"]
    return sorted(spoken, key=lambda entry: (entry.read_number("time"), _ROLES.index(entry.read_text("role"))))


def _read_updates(entry: Fields, ids: Sequence[str]) -> list[tuple[str, str]]:
    changes = entry.read_objects("content")
    if not changes:
        raise entry.error("content", "must hold at least one update {id, transition}")
    return [(change.read_choice("id", ids), change.read_choice("transition", list(TRANSITIONS))) for change in changes]


def _read_states(fields: Fields, name: str, ids: Sequence[str]) -> dict[str, str]:
    states = fields.read_object(name, may_be_missing=True)
    if not states.record.keys() <= set(ids):
        raise fields.error(name, f"must name steps of dst only ({', '.join(ids)})")
    return {step_id: states.read_choice(step_id, STATES) for step_id in states.record}
