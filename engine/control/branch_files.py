"""Reads the changes of a branch from a YAML file, for ``stepscope run --branch``.

The file is a list of changes. Each has a ``time`` in seconds, by default 0, and what is done at its frame::

    - time: 15
      state: {S2: completed}    # the model reads it in its next prompt
      refresh: true             # now: the context begins again, with a prompt of the present states
    - time: 12
      message: Good.            # in place of the model's own message; null deletes it
      updates: [S2->complete]   # in place of its own updates; [] deletes them
    - time: 20
      ask: What is next?        # a question, which the model must answer
    - time: 29
      freeze: 31                # the picture of this time is shown until 31 s
    - time: 10
      swap: 12                  # the pictures of 10 s and 12 s change places
    - time: 8
      goal: build the boat      # from this time on; the context begins again there, unless it is 0
      steps: [set down the hull, hang the sail]
    - time: 8
      settings: {speak_threshold: 0.4, system_prompt: Be brief.}    # from then on, after the turns before
"""

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from stepscope.engine.config import StreamConfig
from stepscope.engine.config_files import read_yaml
from stepscope.engine.control.intervention import ForcedTurn, Intervention
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import STATES, parse_steps, parse_update
from stepscope.engine.io.json_records import short_repr
from stepscope.engine.records import UserTurn, frame_at

_ACTS: Final = ("state", "refresh", "message", "updates", "ask", "freeze", "swap", "goal", "steps", "settings")
BRANCH_KEYS: Final = ("time", *_ACTS)


def read_branch(path: Path, *, task: Task, config: StreamConfig, num_frames: int) -> Intervention:
    """Return the intervention in a file, on a run with this task, settings and number of frames.

    Raises ``ValueError`` naming the file, the change and the key.
    """
    content = read_yaml(path, keys=BRANCH_KEYS)
    return make_branch(content, name=str(path), task=task, config=config, num_frames=num_frames)


def make_branch(
    content: Any, *, name: str = "the changes", task: Task, config: StreamConfig, num_frames: int
) -> Intervention:
    """Return the intervention of the content of a file, as ``read_branch``; errors begin with its ``name``."""
    if not isinstance(content, list) or not content:
        raise ValueError(f"{name} must be a list of changes; got {short_repr(content)}")
    found, seen = Intervention(), set[tuple[int, str]]()
    for number, values in enumerate(content):
        try:
            change = _Change(values, task, config, num_frames)
            if repeated := sorted(seen & change.acts):
                raise ValueError(f"{repeated[0][1]} is changed at this frame already; keep one of the changes")
            seen |= change.acts
            found = found.join(change.read(found))
        except ValueError as error:
            raise ValueError(f"{name}: change {number + 1}: {error}") from error
    return found


class _Change:
    """One change of a file."""

    def __init__(self, values: Any, task: Task, config: StreamConfig, num_frames: int) -> None:
        if not isinstance(values, dict) or not values.keys() & set(_ACTS):
            raise ValueError(f"must map one of {', '.join(_ACTS)} to a value; got {short_repr(values)}")
        if unknown := sorted(str(key) for key in values if key not in BRANCH_KEYS):
            raise ValueError(f"{unknown[0]} is not one of {', '.join(BRANCH_KEYS)}")
        self._values, self._task, self._config, self._num_frames = values, task, config, num_frames
        self._frame = self._read_frame("time", values.get("time", 0))

    @property
    def acts(self) -> set[tuple[int, str]]:
        """The frame and each part of it that may be changed only once."""
        return {(self._frame, key) for key in ("state", "message", "updates", "freeze", "swap") if key in self._values}

    def read(self, before: Intervention) -> Intervention:
        """Return the change as an intervention, after the changes ``before`` it in the file."""
        return Intervention(
            turns=self._read_turn(before),
            states=self._read_states(before),
            refreshes=frozenset({self._frame}) if self._read("refresh", bool, "true or false", False) else frozenset(),
            pictures=self._read_pictures(),
            **self._read_task(before),
            questions=self._read_question(),
            config=self._read_settings(before),
            config_from=self._frame if "settings" in self._values else 0,
        )

    def _read(self, key: str, kind: type | tuple[type, ...], rule: str, default: Any = None) -> Any:
        """Return the value of a key. Raises ``ValueError`` if it is of another type."""
        value = self._values.get(key, default)
        if key in self._values and not isinstance(value, kind):
            raise ValueError(f"{key} must be {rule}; got {short_repr(value)}")
        return value

    def _read_frame(self, key: str, value: object, *, is_end: bool = False) -> int:
        """Return the frame at a time. Raises ``ValueError`` for one outside of the run; an end may be its length."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ValueError(f"{key} must be a time in seconds from 0; got {short_repr(value)}")
        frame = frame_at(value, self._config.fps)
        if frame >= self._num_frames + is_end:
            end_s = self._num_frames / self._config.fps
            raise ValueError(f"{key} must be a time before the end of the video, {end_s:g} s; got {value}")
        return frame

    def _read_turn(self, before: Intervention) -> dict[int, ForcedTurn]:
        """Return the turn that is written at the frame; a part that no change names is the model's own."""
        if not self._values.keys() & {"message", "updates"}:
            return {}
        turn = before.turns.get(self._frame, ForcedTurn(has_own_updates=True, has_own_response=True))
        if "message" in self._values:
            message = self._read("message", (str, type(None)), "text, or null to delete it")
            turn = replace(turn, response=message, has_own_response=False)
        if "updates" in self._values:
            updates = self._read("updates", list, "a list of updates, such as [S2->complete]")
            if not all(isinstance(update, str) for update in updates):
                raise ValueError(
                    f"updates must be a list of updates, such as [S2->complete]; got {short_repr(updates)}"
                )
            ids = {step.id for step in (before.task or self._task).steps}
            for read, update in ((parse_update(text), text) for text in updates):
                if read is None or read.step_id not in ids:
                    raise ValueError(
                        f"updates must name a step of the task ({', '.join(sorted(ids)) or 'it has none'}), such as "
                        f"S2->start or S2->complete; got {short_repr(update)}"
                    )
            turn = replace(turn, updates=tuple(updates), has_own_updates=False)
        return {self._frame: turn}

    def _read_states(self, before: Intervention) -> dict[int, Mapping[str, str]]:
        states = self._read("state", dict, "a mapping of step ids to states", {})
        ids = {step.id for step in (before.task or self._task).steps}
        for step_id, value in states.items():
            if step_id not in ids or value not in STATES:
                raise ValueError(
                    f"state must map steps of the task ({', '.join(sorted(ids)) or 'it has none'}) to one of "
                    f"{', '.join(STATES)}; got {step_id}: {value}"
                )
        return {self._frame: {**before.states.get(self._frame, {}), **states}} if states else {}

    def _read_pictures(self) -> dict[int, int]:
        pictures = dict[int, int]()
        if "freeze" in self._values:
            end = self._read_frame("freeze", self._values["freeze"], is_end=True)
            if end <= self._frame + 1:
                raise ValueError(f"freeze must be a time after the next frame; got {self._values['freeze']}")
            pictures |= dict.fromkeys(range(self._frame + 1, end), self._frame)
        if "swap" in self._values:
            other = self._read_frame("swap", self._values["swap"])
            pictures |= {self._frame: other, other: self._frame}
        return pictures

    def _read_task(self, before: Intervention) -> dict[str, Any]:
        if not self._values.keys() & {"goal", "steps"}:
            return {}
        if before.task is not None:
            raise ValueError("goal and steps may be changed once; give both in one change")
        goal = self._read("goal", str, "text", self._task.goal)
        names = self._read("steps", list, "a list of names", None)
        if names is not None and not all(isinstance(name, str) for name in names):
            raise ValueError(f"steps must be a list of names; got {short_repr(names)}")
        steps = self._task.steps if names is None else parse_steps("\n".join(names))
        return {"task": replace(self._task, goal=goal, steps=steps), "task_from": self._frame}

    def _read_question(self) -> tuple[UserTurn, ...]:
        text = self._read("ask", str, "text", "")
        return (UserTurn(time_s=self._frame / self._config.fps, text=text),) if text else ()

    def _read_settings(self, before: Intervention) -> StreamConfig | None:
        settings = self._read("settings", dict, "a mapping of settings", {})
        known = {field.name for field in fields(StreamConfig)} - {"fps"}
        if unknown := sorted(str(name) for name in settings if name not in known):
            raise ValueError(f"settings.{unknown[0]} is not a setting of a stream that a branch can change")
        if before.config is not None and before.config_from != self._frame:
            raise ValueError("all settings hold from one time on; give them in one change")
        return replace(before.config or self._config, **settings) if settings else None
