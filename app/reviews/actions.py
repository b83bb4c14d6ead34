"""What a reviewer does, as records that are only ever added to: verdicts, tags, notes, corrections, undo and redo.

An *event* is what a verdict is about: something the model wrote, a reference turn, or a time at which the state was
wrong. It is named by what it is (video, kind, role, time, text) and not by a position, so that verdicts meet their
events again after a re-run. Texts are kept as they were typed, apart from halves of surrogate pairs (``?``).
Making them harmless is the business of who shows them. Every field has bounds, which a record checks when it is
made, so that an action that is kept can be stored, read, shown and exported.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args
from uuid import uuid4

from engine.io import replace_surrogates
from eval.annotations.corrections import MAX_TEXT_CHARS, Correction, TurnName
from eval.data.json_fields import check_index, check_number, check_text
from eval.data.samples import Role

EventKind = Literal["generated", "update", "reference", "state"]
Verdict = Literal["correct", "false alarm", "missed", "early or late", "wrong content", "reference wrong", "unclear"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
ActionKind = Literal["verdict", "tags", "note", "correction", "undo", "redo"]
MOST_NAME = 80
MOST_ID = 64
"""Most characters of an action's own name, as its column has."""
MOST_VIDEO_ID = 1000
MOST_DIGEST = 200
MOST_TAGS = 100
_CONTENT = {"verdict": "event", "tags": "event", "note": "event", "correction": "correction"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What a verdict is about. Raises ``ValueError`` for a value out of its range."""

    video_id: str
    """Its video."""
    kind: EventKind
    """A response or an update of the model, a reference turn, or a time of wrong state."""
    role: Role
    """Who speaks; ``update`` for updates and states."""
    time_s: float
    """When it begins, in seconds from the start of the video; compared by the millisecond."""
    text: str
    """What was written; of a state the steps that are wrong, such as ``S1, S2``."""
    number: int = 0
    """Which of several events that are alike in all this, from 0."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(EventKind) or self.role not in get_args(Role):
            raise ValueError(f"there is no event of kind {self.kind!r} and role {self.role!r}")
        check_number("event.time_s", self.time_s)
        check_index("event.number", self.number)
        check_text("event.text", self.text, max_chars=MAX_TEXT_CHARS)
        object.__setattr__(self, "text", replace_surrogates(self.text))

    @property
    def key(self) -> str:
        """Its name as 16 characters that any re-run finds again."""
        name = [self.video_id, self.kind, self.role, round(self.time_s * 1000), self.text, self.number]
        return hashlib.sha256(json.dumps(name).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What was on the reviewer's page. Raises ``ValueError`` for a value out of its range."""

    run_digest: str = ""
    """The run that was played; empty when only the reference was there."""
    model_digest: str = ""
    """The checkpoint behind it."""
    speak_threshold: float | None = None
    """Threshold of speaking; None without a run."""
    update_threshold: float | None = None
    """Threshold of updates; None without a run."""
    playhead_s: float | None = None
    """Where the playhead stood, in seconds."""

    def __post_init__(self) -> None:
        for name in ("run_digest", "model_digest"):
            check_text(f"moment.{name}", getattr(self, name), max_chars=MOST_DIGEST)
            object.__setattr__(self, name, replace_surrogates(getattr(self, name)).replace("\0", "?"))
        for name in ("speak_threshold", "update_threshold", "playhead_s"):
            if getattr(self, name) is not None:
                check_number(f"moment.{name}", getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing that one reviewer did. Raises ``ValueError`` for one that says nothing or contradicts itself."""

    kind: ActionKind
    """What was done."""
    reviewer: str
    """Who did it: a printable name."""
    video_id: str
    """In which video."""
    event: Event | None = None
    """What a verdict, tags or a note are about."""
    paired: Event | None = None
    """The reference turn that the same verdict, tags or note are about: a matched pair is judged as one event. None for
    ``event`` alone."""
    verdict: Verdict | None = None
    """The verdict; None takes it back."""
    tags: tuple[str, ...] = ()
    """All tags that the event has from now on."""
    note: str = ""
    """The note that the event has from now on."""
    correction: Correction | None = None
    """The correction."""
    target: str | None = None
    """Which action is undone or redone."""
    moment: Moment = field(default_factory=Moment)
    """What was on the page."""
    action_id: str = field(default_factory=lambda: uuid4().hex)
    """Its own name; an action that is sent twice is kept once."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When, in UTC."""
    number: int | None = field(default=None, compare=False)
    """Its place in the store; None before it is there."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(ActionKind):
            raise ValueError(f"an action must be one of {', '.join(get_args(ActionKind))}; got {self.kind!r}")
        if check_reviewer(self.reviewer) != self.reviewer:
            raise ValueError(f"a reviewer's name has no blanks around it; got {self.reviewer!r}")
        self._check_texts()
        if "\0" in self.video_id or any("\ud800" <= letter <= "\udfff" for letter in self.video_id):
            raise ValueError(f"the video_id {self.video_id!r} holds what no database keeps; name the video differently")
        if self.at.utcoffset() is None:
            raise ValueError("the time of an action must say its offset to UTC; use datetime.now(UTC)")
        needed = _CONTENT.get(self.kind, "target")
        if getattr(self, needed) is None:
            raise ValueError(f"an action of kind {self.kind} needs its {needed}")
        if self.event is not None and self.event.video_id != self.video_id:
            raise ValueError(f"the event is of video {self.event.video_id}, the action of video {self.video_id}")
        _check_pair(self)
        if self.verdict is not None and self.verdict not in VERDICTS:
            raise ValueError(f"a verdict must be one of {', '.join(VERDICTS)}; got {self.verdict!r}")
        if self.correction is not None and self.correction.reviewer != self.reviewer:
            raise ValueError(f"{self.reviewer} cannot correct in the name of {self.correction.reviewer}")

    def _check_texts(self) -> None:
        """Bound the texts, and make them such that UTF-8 can hold them."""
        check_text("video_id", self.video_id, max_chars=MOST_VIDEO_ID)
        check_text("note", self.note, max_chars=MAX_TEXT_CHARS)
        if len(self.tags) > MOST_TAGS:
            raise ValueError(f"an event has at most {MOST_TAGS} tags; got {len(self.tags)}")
        for tag in self.tags:
            check_text("a tag", tag, max_chars=MAX_TEXT_CHARS)
        for name in filter(None, (self.action_id, self.target)):
            if len(name) > MOST_ID or not name.isprintable():
                raise ValueError(f"an action's name is at most {MOST_ID} printable characters; got {name[:MOST_ID]!r}")
        object.__setattr__(self, "note", replace_surrogates(self.note))
        object.__setattr__(self, "tags", tuple(map(replace_surrogates, self.tags)))


def _check_pair(action: Action) -> None:
    event, paired = action.event, action.paired
    if paired is None:
        return
    if event is None or event.kind not in ("generated", "update") or paired.kind != "reference":
        raise ValueError("a pair is an event that the model wrote and a turn of the reference")
    if paired.video_id != action.video_id or paired.role != event.role:
        raise ValueError("the two events of a pair must be of one video and one role")


def check_reviewer(name: str) -> str:
    """Return a reviewer's name without blanks around it. Raises ``ValueError`` for one that cannot be shown."""
    name = name.strip()
    if not name or len(name) > MOST_NAME or not name.isprintable():
        raise ValueError(f"a reviewer's name is 1 to {MOST_NAME} printable characters; got {name[:MOST_NAME]!r}")
    return name


def to_body(action: Action) -> dict[str, Any]:
    """Return the part of an action that the store keeps as JSON: what was said, and of what."""
    return {
        "event": action.event and asdict(action.event),
        "paired": action.paired and asdict(action.paired),
        "verdict": action.verdict,
        "tags": list(action.tags),
        "note": action.note,
        "correction": action.correction and asdict(action.correction),
        "target": action.target,
    }


def from_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an action that ``to_body`` took from it."""
    correction = body["correction"]
    if correction is not None:
        correction = Correction(**{**correction, "turn": TurnName(**correction["turn"])})
    event = body["event"] and Event(**body["event"])
    paired = Event(**body["paired"]) if body.get("paired") else None  # no action before schema 0003 has a pair
    return {**body, "event": event, "paired": paired, "tags": tuple(body["tags"]), "correction": correction}
