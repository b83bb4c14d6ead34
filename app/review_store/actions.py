"""The actions of reviewers, an append-only log: verdicts, tags, notes, corrections, assignments, undo and redo.

The key of an *event*, the subject of a verdict, is derived from its content, so that verdicts find it after a re-run.
Each record validates its fields, so every stored action can be read. Texts are stored as typed, and escaped when shown.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args
from uuid import uuid4

from stepscope.engine.io.files import replace_surrogates
from stepscope.eval.annotations.corrections import VERDICTS, Correction, TurnName, Verdict
from stepscope.eval.data.json_fields import check_index, check_number, check_text
from stepscope.eval.data.samples import Role

EventKind = Literal["generated", "update", "reference", "state"]
UNFIT_VERDICTS: dict[EventKind, Verdict] = {"generated": "missed", "update": "missed", "reference": "redundant"}
"""The verdict that an event cannot have: the model did not miss what it wrote, and no reference is redundant."""
ActionKind = Literal["verdict", "tags", "note", "correction", "settle", "assign", "done", "undo", "redo"]
AGENT, MODEL = "agent:", "model:"
"""Beginnings of the names of programs, and of served models, among the reviewers."""
MAX_REVIEWER_CHARS = 80
MAX_ACTION_ID_CHARS = 64
"""Width of the column ``action_id``."""
MAX_VIDEO_ID_CHARS = 1000
MAX_DIGEST_CHARS = 200
MAX_TAGS = 100
MAX_ASSIGNEES = 100
PARTS: Final[tuple[ActionKind, ...]] = ("verdict", "tags", "note")
"""The kinds that give a part of an ``Opinion`` on an event: its fields, and those of the action, have their names."""
_CONTENT: dict[str, str] = {
    **dict.fromkeys((*PARTS, "settle"), "event"),
    **dict.fromkeys(("assign", "done"), "run"),
    "correction": "correction",
}
_BODY_FIELDS = ("event", "paired", *PARTS, "correction", "run", "assignees", "target")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The subject of a verdict. Raises ``ValueError`` for a field out of range."""

    video_id: str
    kind: EventKind
    """A response or an update of the model, a reference turn, or a time with a wrong state."""
    role: Role
    """Role of the speaker; ``update`` for updates and states."""
    time_s: float
    """Start in seconds from the start of the video; compared in whole milliseconds."""
    text: str
    """The text of the turn; for a state the ids of the wrong steps, such as ``S1, S2``."""
    number: int = 0
    """Index among events that are equal in all fields above, from 0."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(EventKind) or self.role not in get_args(Role):
            raise ValueError(f"unknown event kind or role: kind {self.kind!r}, role {self.role!r}")
        check_number("event.time_s", self.time_s)
        check_index("event.number", self.number)
        object.__setattr__(self, "text", replace_surrogates(self.text))

    @property
    def key(self) -> str:
        """The event's key: 16 hexadecimal digits, the same after every re-run."""
        name = [self.video_id, self.kind, self.role, round(self.time_s * 1000), self.text, self.number]
        return hashlib.sha256(json.dumps(name).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """The state of the reviewer's page at an action. Raises ``ValueError`` for a field out of range."""

    run_digest: str = ""
    """Digest of the run in the player; empty if the player showed only the reference."""
    model_digest: str = ""
    speak_threshold: float | None = None
    """In [0, 1], as the update threshold; None without a run."""
    update_threshold: float | None = None
    playhead_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("run_digest", "model_digest"):
            check_text(f"moment.{name}", getattr(self, name), max_chars=MAX_DIGEST_CHARS)
            object.__setattr__(self, name, replace_surrogates(getattr(self, name)).replace("\0", "?"))
        for name in ("speak_threshold", "update_threshold", "playhead_s"):
            if getattr(self, name) is not None:
                check_number(f"moment.{name}", getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action of one reviewer. Raises ``ValueError`` if it is incomplete or its fields contradict each other."""

    kind: ActionKind
    reviewer: str
    video_id: str
    event: Event | None = None
    paired: Event | None = None
    """The matched reference turn, if the action applies to both sides of a pair; None for ``event`` alone."""
    verdict: Verdict | None = None
    """The verdict, of ``settle`` the final one; None removes the earlier one."""
    tags: tuple[str, ...] = ()
    """The new tags of the event; they replace the earlier ones."""
    note: str = ""
    correction: Correction | None = None
    confidence: float | None = None
    """Of a verdict by a program, in [0, 1]; None if it gave none."""
    run: str | None = None
    """Of ``assign`` and ``done``: name of the run to review; empty for the references alone."""
    assignees: tuple[str, ...] = ()
    """Of ``assign``: the reviewers who have to review the video in this run, instead of the earlier ones."""
    target: str | None = None
    """``action_id`` of the action to undo or redo."""
    moment: PageState = field(default_factory=PageState)
    action_id: str = field(default_factory=lambda: uuid4().hex)
    """Unique id; an action that is sent twice is stored once."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    number: int | None = field(default=None, compare=False)
    """Primary key in the store; None before the action is stored."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(ActionKind):
            raise ValueError(f"an action must be one of {', '.join(get_args(ActionKind))}; got {self.kind!r}")
        if check_reviewer(self.reviewer) != self.reviewer:
            raise ValueError(f"a reviewer's name has no leading or trailing blanks; got {self.reviewer!r}")
        self._check_texts()
        if "\0" in self.video_id or any("\ud800" <= letter <= "\udfff" for letter in self.video_id):
            raise ValueError(f"the video_id {self.video_id!r} has characters that a database cannot store; rename it")
        if self.at.utcoffset() is None:
            raise ValueError("the time of an action must have a UTC offset; use datetime.now(UTC)")
        needed = _CONTENT.get(self.kind, "target")
        if getattr(self, needed) is None:
            raise ValueError(f"an action of kind {self.kind} needs its {needed}")
        if self.event is not None and self.event.video_id != self.video_id:
            raise ValueError(f"the event is of video {self.event.video_id}, the action of video {self.video_id}")
        _check_pair(self)
        if len(self.assignees) > MAX_ASSIGNEES or list(self.assignees) != list(map(check_reviewer, self.assignees)):
            raise ValueError(f"a video is assigned to at most {MAX_ASSIGNEES} names without outer blanks")
        if self.verdict is not None and self.verdict not in VERDICTS:
            raise ValueError(f"a verdict must be one of {', '.join(VERDICTS)}; got {self.verdict!r}")
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise ValueError(f"a confidence must be from 0 to 1; got {self.confidence}")
        if self.correction is not None and self.correction.reviewer != self.reviewer:
            raise ValueError(f"{self.reviewer} cannot correct on behalf of {self.correction.reviewer}")

    def _check_texts(self) -> None:
        """Check the lengths of all texts, and replace characters that UTF-8 cannot encode."""
        check_text("video_id", self.video_id, max_chars=MAX_VIDEO_ID_CHARS)
        check_text("note", self.note)
        check_text("run", self.run or "")
        if len(self.tags) > MAX_TAGS:
            raise ValueError(f"an event has at maximum {MAX_TAGS} tags; got {len(self.tags)}")
        for tag in self.tags:
            check_text("a tag", tag)
        for name in filter(None, (self.action_id, self.target)):
            if len(name) > MAX_ACTION_ID_CHARS or not name.isprintable():
                limit, start = MAX_ACTION_ID_CHARS, name[:MAX_ACTION_ID_CHARS]
                raise ValueError(f"an action id has at maximum {limit} printable characters; got {start!r}")
        object.__setattr__(self, "note", replace_surrogates(self.note))
        object.__setattr__(self, "run", self.run and replace_surrogates(self.run))
        object.__setattr__(self, "tags", tuple(map(replace_surrogates, self.tags)))


def check_verdict(action: Action) -> None:
    """Raise ``ValueError`` for a verdict that does not fit its event; a final one may fit either side of a pair.

    Only new actions are checked: the store keeps those of earlier versions.
    """
    if action.kind == "settle" and is_program(action.reviewer):
        raise ValueError(f"{action.reviewer} is a program, and only people settle")
    sides = [action.event, action.paired] if action.kind == "settle" else [action.event]
    kinds = [side.kind for side in sides if side is not None]
    if kinds and action.verdict and all(UNFIT_VERDICTS.get(kind) == action.verdict for kind in kinds):
        what = "a turn of the reference" if kinds[0] == "reference" else "something that the model wrote"
        raise ValueError(f"the verdict {action.verdict!r} does not fit: the event is {what}")


def _check_pair(action: Action) -> None:
    event, paired = action.event, action.paired
    if paired is None:
        return
    if event is None or event.kind not in ("generated", "update") or paired.kind != "reference":
        raise ValueError("a pair must be an event of the model and a turn of the reference")
    if paired.video_id != action.video_id or paired.role != event.role:
        raise ValueError("the two events of a pair must have the same video and role")


def is_program(reviewer: str) -> bool:
    """Return whether a reviewer is an agent or a model, which never counts as a person."""
    return reviewer.startswith((AGENT, MODEL))


def check_reviewer(name: str) -> str:
    """Return a reviewer's name without leading and trailing blanks. Raises ``ValueError`` if it is not printable."""
    name = name.strip()
    if not name or len(name) > MAX_REVIEWER_CHARS or not name.isprintable():
        raise ValueError(
            f"a reviewer's name is 1 to {MAX_REVIEWER_CHARS} printable characters; got {name[:MAX_REVIEWER_CHARS]!r}"
        )
    return name


def to_body(action: Action) -> dict[str, Any]:
    """Return the fields of an action that the store keeps as JSON, in the column ``body``."""
    body = {name: value for name, value in asdict(action).items() if name in _BODY_FIELDS}
    return body if action.confidence is None else {**body, "confidence": action.confidence}


def from_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an action from the JSON of ``to_body``."""
    correction = body["correction"]
    if correction is not None:
        correction = Correction(**{**correction, "turn": TurnName(**correction["turn"])})
    event = body["event"] and Event(**body["event"])
    paired = body["paired"] and Event(**body["paired"])
    tuples = {name: tuple(body.get(name, ())) for name in ("tags", "assignees")}
    return {**body, **tuples, "event": event, "paired": paired, "correction": correction}
