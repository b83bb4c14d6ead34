"""DST training clips: a conversation with state updates over ``dst[]``, the steps of the task.

``time`` is in seconds of the whole video, and so are the steps' ``start_ts`` and ``end_ts``: in the real clip of
frames 193..450 at 2 fps (96.5 s to 225.5 s) the first turn is at 97.2 s, frame floor(194.4) = 194 of the video, frame 1
of the clip, 0.7 s after its start. A turn's stored ``start_frame`` is not used.

The initial state is ``initial_dst_state`` (or ``metadata.initial_dst_state``) if present. Otherwise each step has the
earliest state in the conversation. That is its state in the first ``dst_state`` (before the update in a
``DST_UPDATE`` turn, after it in the other turns), or the state before its first update, whichever comes first. A step
without either has not started. The system prompt is not read: published prompts contradict their own turns.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from engine.dialogue import STATES, TRANSITIONS, initial_state, parse_update
from engine.records import Step, frame_at
from eval.data.clips import PublishedClip, PublishedTurn, read_extent
from eval.data.json_fields import Fields

_ROLES = ("DST_UPDATE", "user", "assistant", "system")


def read_clip(fields: Fields) -> PublishedClip:
    """Read one clip. Raises ``ValueError`` naming the field."""
    extent = read_extent(fields)
    steps = _read_steps(fields)
    ids = [step.id for step in steps]
    earliest_states: dict[str, str] = {}
    turns: list[PublishedTurn] = []
    for entry in _in_order(fields.read_objects("conversation")):
        time_s = entry.read_number("time")
        for step_id, state in _read_states(entry, "dst_state", ids).items():
            earliest_states.setdefault(step_id, state)
        role: Literal["update", "user", "assistant"]
        if entry.read_choice("role", _ROLES) == "DST_UPDATE":
            updates = _read_updates(entry, ids)
            for step_id, transition in updates:
                earliest_states.setdefault(step_id, TRANSITIONS[transition][0])
            role, texts = "update", [f"{step_id}->{transition}" for step_id, transition in updates]
        else:
            role = "user" if entry.record["role"] == "user" else "assistant"
            texts = [entry.read_text("content")]
        frame = frame_at(time_s, extent.fps)
        turns += [PublishedTurn(frame=frame, time_s=time_s, role=role, text=text) for text in texts]
    given = _initial_state(fields, ids)
    return PublishedClip(
        extent=extent,
        goal=fields.read_text("inferred_goal"),
        steps=steps,
        turns=tuple(turns),
        initial_state=earliest_states if given is None else given,
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
    if not fields.has(name):
        return {}
    states = fields.read_object(name)
    for step_id in states.record:
        if step_id not in ids:
            raise fields.error(name, f"must name steps of dst only ({', '.join(ids)})")
    return {step_id: states.read_choice(step_id, STATES) for step_id in states.record}


def _initial_state(fields: Fields, ids: Sequence[str]) -> Mapping[str, str] | None:
    if fields.has("initial_dst_state"):
        return _read_states(fields, "initial_dst_state", ids)
    if fields.has("metadata") and fields.read_object("metadata").has("initial_dst_state"):
        return _read_states(fields.read_object("metadata"), "initial_dst_state", ids)
    return None
