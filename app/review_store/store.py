"""The append-only store of actions: SQLite by default, or any SQLAlchemy URL; PostgreSQL is tested.

When ``append`` returns, the action is on disk. Its number is larger than all earlier numbers, so polling for numbers
above the last one misses nothing. Any number of threads and processes may write concurrently; writes are serialised.
Undo and redo return after the store has committed them. If the file of a store is replaced or deleted while it is open,
the store refuses to read and write. All writers pass one gate, ``_check_room``, with limits per video, reviewer and
user; the owner sets a flooded review aside, which deletes nothing.
"""

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, insert, select
from sqlalchemy.exc import IntegrityError

from stepscope.app.review_store.actions import Action, ActionKind, PageState, from_body, is_program, to_body
from stepscope.app.review_store.database import (
    ACTIONS,
    ADVISORY_LOCK_ID,
    COLUMNS,
    IS_ASIDE,
    SET_ASIDE,
    SQLITE_ENDINGS,
    StoreError,
    check_file,
    create_database,
    identify,
    prepare_schema,
    sqlite_file,
    to_url,
    translate,
)
from stepscope.app.review_store.review import Review, find_movable, fold_actions
from stepscope.engine.io.files import replace_surrogates
from stepscope.eval.data.vocabulary import CAUSE_PREFIX

if TYPE_CHECKING:
    from stepscope.eval.reports.search import Marks

MAX_ACTION_CHARS: Final = 50_000
"""Maximum number of characters of an action, as it is stored."""
MAX_LIMITS: Final = {"actions": 5000, "characters": 2**22}
"""Maximum numbers of a reviewer, and of a user or an address while the page runs, on a video."""
MAX_VIDEO_LIMITS: Final = {"actions": 10_000, "characters": 2**23}
"""Maximum numbers of all reviewers on a video: each request needs the state after all of its actions."""
MAX_USER_CHARS: Final = 2**26
"""Maximum number of characters that a user, or an address, stores on all videos while the page runs."""
_NUM_KEPT_VIDEOS: Final = 8
_Share = tuple[str, str, str]
"""A user, or empty for all; a video, or empty for all; ``actions`` or ``characters``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredActions:
    """The readable actions of a store, and one line for each unreadable row."""

    actions: tuple[Action, ...]
    """In the order of their numbers."""
    unreadable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReviewStore:
    """An open store; ``with open_store(...) as store`` closes it."""

    engine: Engine
    name_user: Callable[[], str] = str
    """Returns the signed-in user, or the address, whose request is handled; empty for the owner's commands."""
    opened: tuple[int, int] | None = None
    """The device and number of the file that was opened; None for a server."""
    _used: Counter[_Share] = field(default_factory=Counter, compare=False)
    """Numbers of actions and characters that users have stored since the store was opened, see ``_check_room``."""
    _read: OrderedDict[Any, tuple[Action, ...]] = field(default_factory=OrderedDict, compare=False)
    """The actions of the last calls of ``read_video``."""

    @property
    def _name(self) -> str:
        """The name in errors, which other machines may see: without folder, user and host."""
        return Path(self.engine.url.database or "").name

    @property
    def files(self) -> tuple[Path, ...]:
        """Files with review data: an SQLite file and its log files."""
        if (path := sqlite_file(self.engine.url)) is None:
            return ()
        path = path.resolve()
        return tuple(path.with_name(path.name + ending) for ending in ("", *SQLITE_ENDINGS))

    @property
    def notice(self) -> str:
        """A notice to show before reviewing starts; empty if there is none."""
        with self._connect() as connection:
            is_empty = connection.execute(select(ACTIONS.c.number).limit(1)).first() is None
        place = sqlite_file(self.engine.url) or self.engine.url.render_as_string()
        return f"The store of reviews {place} is empty." if is_empty else ""

    def append(self, action: Action) -> Action:
        """Store an action and return it with its number; an action that is sent twice is stored once.

        Raises ``StoreError`` if the write fails, and ``ValueError`` if a different action has the same ``action_id``,
        or if a limit is reached.
        """
        with self._connect() as connection:
            try:
                return self._insert(connection, [action])[0]
            except IntegrityError:
                query = select(*COLUMNS).where(ACTIONS.c.action_id == action.action_id)
                if (row := connection.execute(query).mappings().first()) is None:
                    raise
                kept = _from_row(row)
                if replace(kept, at=action.at) != action:  # a browser sends no time, so a retry has a later one
                    raise ValueError(f"another action has the action_id {action.action_id!r}; use a new id") from None
                return kept

    def append_all(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        """Store new actions in one transaction, and return them with their numbers.

        Raises ``StoreError`` if the write fails, and ``ValueError`` if a limit is reached; then none is stored.
        """
        with self._connect() as connection:
            return self._insert(connection, actions)

    def read(self, *, video_id: str | None = None, after: int = 0, only: str | None = None) -> tuple[Action, ...]:
        """Return the actions of ``scan``."""
        return self.scan(video_id=video_id, after=after, only=only).actions

    def read_video(self, video_id: str, *, only: str | None = None) -> StoredActions:
        """Return what ``scan`` does, reading only the actions that are new since the last call."""
        marks = select(sa.func.count(), sa.func.max(SET_ASIDE.c.at)).select_from(SET_ASIDE)
        with self._connect() as connection:
            key = (video_id, only, *connection.execute(marks).one())
        known = self._read.get(key, ())
        found = self.scan(video_id=video_id, only=only, after=(known and known[-1].number) or 0)
        known += found.actions
        if not found.unreadable:  # else the next call looks again whether they are repaired
            self._read[key] = known
            if len(self._read) > _NUM_KEPT_VIDEOS:
                self._read.popitem(last=False)
        return StoredActions(actions=known, unreadable=found.unreadable)

    def scan(
        self, *, video_id: str | None = None, after: int = 0, kinds: Sequence[ActionKind] = (), only: str | None = None
    ) -> StoredActions:
        """Read the actions of one video or of all, with numbers above ``after``, in the order of their numbers.

        ``kinds`` selects the kinds of actions; by default all. With ``only``, that reviewer's actions alone are read.
        Actions that were set aside are left out.
        """
        query = select(*COLUMNS).where(ACTIONS.c.number > after, ~IS_ASIDE).order_by(ACTIONS.c.number)
        query = query.where(*_matches(video_id=video_id, reviewer=only))
        if kinds:
            query = query.where(ACTIONS.c.kind.in_(kinds))
        with self._connect() as connection:
            rows = list(connection.execute(query).mappings())
        actions, unreadable = [], []
        for row in rows:
            try:
                actions.append(_from_row(row))
            except ValueError as error:
                unreadable.append(f"action {row['number']} of the store cannot be read and is skipped: {error}")
        return StoredActions(actions=tuple(actions), unreadable=tuple(map(replace_surrogates, unreadable)))

    def count_matching(self, *, is_aside: bool, **filters: str | None) -> list[tuple[str, str, int]]:
        """Return reviewer, video and number of the actions that ``set_aside`` or ``restore`` would move."""
        columns = ACTIONS.c.reviewer, ACTIONS.c.video_id
        query = select(*columns, sa.func.count()).where(IS_ASIDE if is_aside else ~IS_ASIDE, *_matches(**filters))
        with self._connect() as connection:
            return [tuple(row) for row in connection.execute(query.group_by(*columns).order_by(*columns))]

    def set_aside(self, **filters: str | None) -> None:
        """Mark the actions of a ``reviewer``, of a ``video_id`` and from a time ``since``: nothing applies them.

        They stay in the store, also with their ids.
        """
        at = sa.literal(datetime.now(UTC).isoformat())
        found = select(ACTIONS.c.number, at).where(~IS_ASIDE, *_matches(**filters))
        with self._connect() as connection, connection.begin():
            connection.execute(insert(SET_ASIDE).from_select(["number", "at"], found))

    def restore(self, **filters: str | None) -> None:
        """Apply actions again that were set aside."""
        found = select(ACTIONS.c.number).where(*_matches(**filters))
        with self._connect() as connection, connection.begin():
            connection.execute(sa.delete(SET_ASIDE).where(SET_ASIDE.c.number.in_(found)))

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        """Yield a connection. Raises ``StoreError`` if its file or its log is not, or no longer, at its place.

        What is committed to a file that was replaced or deleted is lost.
        """
        self._check_place(self.opened)
        with translate(self._name), self.engine.connect() as connection:
            log = connection.info.setdefault("log", identify(self.engine.url, "-wal"))
            self._check_place(self.opened, log)
            yield connection
            self._check_place(self.opened, log)

    def _check_place(self, *opened: tuple[int, int] | None) -> None:
        if any(identify(self.engine.url, ending) != file for ending, file in zip(("", "-wal"), opened, strict=False)):
            raise StoreError(
                f"the store {self._name} cannot be used: its file, or the -wal file beside it, was replaced or deleted "
                "while it was open; stop the page, put the right file there without its -wal and -shm, and start again"
            )

    def _insert(self, connection: Connection, actions: Iterable[Action]) -> tuple[Action, ...]:
        actions = tuple(actions)
        if not actions:
            return ()
        number, action_id = ACTIONS.c.number, ACTIONS.c.action_id
        rows = [_to_row(action) for action in actions]
        with connection.begin():
            if connection.dialect.name == "postgresql":  # makes the order of numbers the order of commits
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK_ID})")
            connection.execute(insert(ACTIONS), rows)  # locks the store until the end
            newest = select(action_id, number).order_by(number.desc()).limit(len(actions))
            kept = {row.action_id: row.number for row in connection.execute(newest)}
            own = self._check_room(connection, rows, first=min(kept.values()))
        self._used.update(own)
        return tuple(replace(action, number=kept[action.action_id]) for action in actions)

    def _check_room(self, connection: Connection, rows: Sequence[Any], *, first: int) -> Counter[_Share]:
        """Return what new rows of a reviewer, numbered from ``first`` on, take of the limits of their user.

        Raises ``ValueError`` if they exceed a limit. A typed name is no identity: without a login, the address counts.
        """
        user, own, totals = self.name_user(), Counter[_Share](), Counter[_Share]()
        for row in rows:
            num_chars = len(json.dumps(row["body"])) + len(row["video_id"])
            if num_chars > MAX_ACTION_CHARS:
                raise ValueError(f"an action must have fewer than {MAX_ACTION_CHARS} characters")
            own[user, row["video_id"], "actions"] += 1
            own[user, row["video_id"], "characters"] += num_chars
            own[user, "", "characters"] += num_chars
        size = sa.func.sum(sa.func.length(sa.cast(ACTIONS.c.body, sa.Text)))
        is_of_videos = ACTIONS.c.video_id.in_(select(ACTIONS.c.video_id).where(ACTIONS.c.number >= first))
        columns = ACTIONS.c.video_id, ACTIONS.c.reviewer
        query = select(*columns, sa.func.count(), size).where(is_of_videos, ~IS_ASIDE).group_by(*columns)
        for video_id, reviewer, num_actions, num_chars in connection.execute(query):
            names = [""] if user not in ("", reviewer) or reviewer != rows[0]["reviewer"] else ["", reviewer]
            for name in names:
                totals[name, video_id, "actions"] += num_actions
                totals[name, video_id, "characters"] += num_chars
        if user:
            totals.update({share: self._used[share] + number for share, number in own.items() if share not in totals})
        for (name, video_id, unit), number in totals.items():
            limit = (MAX_LIMITS if name else MAX_VIDEO_LIMITS)[unit] if video_id else MAX_USER_CHARS
            if number > limit:
                who = "you have" if name else "all reviewers have"
                end = "on this video, the most that are kept" if video_id else "since the page began, the most it keeps"
                raise ValueError(f"{who} stored {limit} {unit} {end}")
        return own if user else Counter()

    def close(self) -> None:
        """Close all connections to the database."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _matches(
    *, video_id: str | None = None, reviewer: str | None = None, since: str | None = None
) -> list[sa.ColumnElement[bool]]:
    columns = ((ACTIONS.c.video_id, video_id), (ACTIONS.c.reviewer, reviewer))
    conditions = [column == value for column, value in columns if value is not None]
    return conditions if since is None else [*conditions, ACTIONS.c.at >= since]


def open_store(where: str | Path, *, name_user: Callable[[], str] = str) -> ReviewStore:
    """Open a store; create it if it does not exist. ``name_user`` is that of ``ReviewStore``.

    It is the path of an SQLite file, or an SQLAlchemy URL such as ``postgresql+psycopg://user@host/reviews``. Raises
    ``StoreError`` for a store with a newer schema, and if the database cannot be reached.
    """
    url = to_url(where)
    if path := sqlite_file(url):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            check_file(path)
    with translate(url.render_as_string()):
        engine = create_database(url)
        try:
            prepare_schema(engine)
            return ReviewStore(engine, name_user, identify(url))
        except BaseException:
            engine.dispose()
            raise


def _to_row(action: Action) -> dict[str, Any]:
    return {
        "action_id": action.action_id,
        "at": action.at.isoformat(),
        "reviewer": action.reviewer,
        "video_id": action.video_id,
        "kind": action.kind,
        "event_key": action.event and action.event.key,
        "body": to_body(action),
        **asdict(action.moment),
    }


def _from_row(row: Any) -> Action:
    """Return the action of a row. Raises ``ValueError`` if the row is not a valid action."""
    try:
        return Action(
            **{name: row[name] for name in ("action_id", "reviewer", "video_id", "kind", "number")},
            at=datetime.fromisoformat(row["at"]),
            moment=PageState(**{field.name: row[field.name] for field in fields(PageState)}),
            **from_body(json.loads(row["body"])),
        )
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is not a valid action ({error})") from error


def read_review(store: ReviewStore, *, video_id: str | None = None, only: str | None = None) -> Review:
    """Return the current state of one video or of all videos.

    With ``only``, the state contains that reviewer's actions alone (blind mode).
    """
    stored = store.scan(only=only) if video_id is None else store.read_video(video_id, only=only)
    return replace(fold_actions(stored.actions, only=only), unreadable=stored.unreadable)


def read_marks(store: ReviewStore, *, is_blind: bool) -> "Marks":
    """Return the verdicts and tags of all reviewers, by video, milliseconds and text; empty in blind mode."""
    marks: dict[tuple[str, int, str], set[str]] = {}
    for reviewed in () if is_blind else read_review(store).events:
        event = reviewed.event
        found = marks.setdefault((event.video_id, round(event.time_s * 1000), event.text), set())
        for opinion in reviewed.opinions:
            found |= {_describe_tag(tag) for tag in opinion.tags}
            verdict = reviewed.final or (None if is_program(opinion.reviewer) else opinion.verdict)
            found |= {f"verdict: {verdict}"} if verdict is not None else set()
    return marks


def _describe_tag(tag: str) -> str:
    """Return a tag as a trait; a cause that a reviewer named is one like those of the reference."""
    return f"cause: {tag.removeprefix(CAUSE_PREFIX)}" if tag.startswith(CAUSE_PREFIX) else f"tag: {tag}"


def _move(
    kind: Literal["undo", "redo"],
    store: ReviewStore,
    *,
    reviewer: str,
    video_id: str,
    action_id: str | None = None,
    target: str | None = None,
) -> Action | None:
    actions = {action.action_id: action for action in store.read_video(video_id, only=reviewer).actions}
    if action_id in actions:
        before = actions[action_id]
        if (before.kind, before.reviewer) != (kind, reviewer) or target not in (None, before.target):
            raise ValueError(f"another action has the action_id {action_id!r}; use a new id")
        return actions.get(before.target or "")
    found = find_movable(kind, actions.values(), reviewer=reviewer, video_id=video_id, target=target)
    if found is not None:
        name = action_id or uuid4().hex
        store.append(Action(kind=kind, reviewer=reviewer, video_id=video_id, target=found.action_id, action_id=name))
    return found


undo = partial(_move, "undo")
"""Undo the reviewer's last effective action in a video, or only ``target``; return it, or None if there is none.

``action_id`` is the id of the undo itself: a repeated call with a stored id returns the same result. Raises
``ValueError`` if a different action has this id.
"""
redo = partial(_move, "redo")
"""Redo the action that was undone last; return it, or None if there is none. Arguments and errors as for ``undo``."""
