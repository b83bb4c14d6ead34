"""The append-only store of actions: SQLite by default, or any SQLAlchemy URL; PostgreSQL is tested.

When ``append`` returns, the action is on disk. Its number is larger than all earlier numbers, so polling for numbers
above the last one misses nothing. Any number of threads and processes may write concurrently; writes are serialised.
Undo and redo return after the store has committed them. If the file of a store is replaced or deleted while it is open,
the store refuses to read and write. All writers pass one gate, ``_check_room``, with limits per video, reviewer and
user; the owner sets a flooded review aside, which deletes nothing.

The version of the schema is in a table of its own. A store with an unknown version comes from a newer StepScope and is
refused. Opening a store takes the write lock only if there is something to create.
"""

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Self
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, make_url, select
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError

from stepscope.app.review_store.actions import Action, ActionKind, Moment, from_body, to_body
from stepscope.app.review_store.review import Review, find_movable, fold_actions
from stepscope.engine.errors import EngineError, first_line
from stepscope.engine.io.files import check_regular, replace_surrogates

SQLITE_ENDINGS: Final = ("-wal", "-shm", "-journal")
"""Endings of the names of SQLite's files beside a store."""
LOCK_TIMEOUT_S = 10.0
"""Longest wait for another writer of an SQLite file, in seconds; a write takes milliseconds."""
MAX_ACTION_CHARS: Final = 50_000
"""Maximum number of characters of an action, as it is stored."""
MAX_LIMITS: Final = {"actions": 5000, "characters": 2**22}
"""Maximum numbers of a reviewer, and of a user or an address while the page runs, on a video."""
MAX_VIDEO_LIMITS: Final = {"actions": 10_000, "characters": 2**23}
"""Maximum numbers of all reviewers on a video: each request needs the state after all of its actions."""
MAX_USER_CHARS: Final = 2**26
"""Maximum number of characters that a user, or an address, stores on all videos while the page runs."""
_NUM_KEPT_VIDEOS: Final = 8
_VERSION: Final = "0001"
_ADVISORY_LOCK_ID: Final = 7_305_241  # arbitrary, but unique on the database server
_METADATA: Final = sa.MetaData()
ACTIONS: Final = sa.Table(
    "review_actions",
    _METADATA,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("action_id", sa.String(64), nullable=False, unique=True),
    sa.Column("at", sa.String(32), nullable=False),
    sa.Column("reviewer", sa.Text, nullable=False),
    sa.Column("video_id", sa.Text, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("event_key", sa.String(16)),
    sa.Column("run_digest", sa.Text, nullable=False),
    sa.Column("model_digest", sa.Text, nullable=False),
    sa.Column("speak_threshold", sa.Float(53)),
    sa.Column("update_threshold", sa.Float(53)),
    sa.Column("playhead_s", sa.Float(53)),
    sa.Column("body", sa.JSON, nullable=False),
    sa.Index("review_actions_by_video", "video_id", "number"),
)
_SET_ASIDE: Final = sa.Table(
    "review_set_aside",
    _METADATA,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.String(32), nullable=False),
)
_IS_ASIDE: Final = ACTIONS.c.number.in_(select(_SET_ASIDE.c.number))
_VERSIONS: Final = sa.Table("review_schema", _METADATA, sa.Column("version_num", sa.String(32), primary_key=True))
_COLUMNS: Final = (
    *(column for column in ACTIONS.c if column.name != "body"),
    sa.cast(ACTIONS.c.body, sa.Text).label("body"),  # decoded row by row: a damaged row must not fail the query
)

_Share = tuple[str, str, str]
"""A user, or empty for all; a video, or empty for all; ``actions`` or ``characters``."""


class StoreError(EngineError):
    """A store of reviews that cannot be opened, read or written."""


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
        if (path := _sqlite_file(self.engine.url)) is None:
            return ()
        path = path.resolve()
        return tuple(path.with_name(path.name + ending) for ending in ("", *SQLITE_ENDINGS))

    @property
    def notice(self) -> str:
        """A notice to show before reviewing starts; empty if there is none."""
        with self._connect() as connection:
            is_empty = connection.execute(select(ACTIONS.c.number).limit(1)).first() is None
        place = _sqlite_file(self.engine.url) or self.engine.url.render_as_string()
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
                query = select(*_COLUMNS).where(ACTIONS.c.action_id == action.action_id)
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
        marks = select(sa.func.count(), sa.func.max(_SET_ASIDE.c.at)).select_from(_SET_ASIDE)
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
        self,
        *,
        video_id: str | None = None,
        after: int = 0,
        kinds: Sequence[ActionKind] = (),
        only: str | None = None,
    ) -> StoredActions:
        """Read the actions of one video or of all, with numbers above ``after``, in the order of their numbers.

        ``kinds`` selects the kinds of actions; by default all. With ``only``, that reviewer's actions alone are read.
        Actions that were set aside are left out.
        """
        query = select(*_COLUMNS).where(ACTIONS.c.number > after, ~_IS_ASIDE).order_by(ACTIONS.c.number)
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
        query = select(*columns, sa.func.count()).where(_IS_ASIDE if is_aside else ~_IS_ASIDE, *_matches(**filters))
        with self._connect() as connection:
            return [tuple(row) for row in connection.execute(query.group_by(*columns).order_by(*columns))]

    def set_aside(self, **filters: str | None) -> None:
        """Mark the actions of a ``reviewer``, of a ``video_id`` and from a time ``since``: nothing applies them.

        They stay in the store, also with their ids.
        """
        at = sa.literal(datetime.now(UTC).isoformat())
        found = select(ACTIONS.c.number, at).where(~_IS_ASIDE, *_matches(**filters))
        with self._connect() as connection, connection.begin():
            connection.execute(insert(_SET_ASIDE).from_select(["number", "at"], found))

    def restore(self, **filters: str | None) -> None:
        """Apply actions again that were set aside."""
        found = select(ACTIONS.c.number).where(*_matches(**filters))
        with self._connect() as connection, connection.begin():
            connection.execute(sa.delete(_SET_ASIDE).where(_SET_ASIDE.c.number.in_(found)))

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        """Yield a connection. Raises ``StoreError`` if its file or its log is not, or no longer, at its place.

        What is committed to a file that was replaced or deleted is lost.
        """
        self._check_place(self.opened)
        with _translate(self._name), self.engine.connect() as connection:
            log = connection.info.setdefault("log", _identify(self.engine.url, "-wal"))
            self._check_place(self.opened, log)
            yield connection
            self._check_place(self.opened, log)

    def _check_place(self, *opened: tuple[int, int] | None) -> None:
        if any(_identify(self.engine.url, ending) != file for ending, file in zip(("", "-wal"), opened, strict=False)):
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
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK_ID})")
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
        query = select(*columns, sa.func.count(), size).where(is_of_videos, ~_IS_ASIDE).group_by(*columns)
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


def _identify(url: URL, ending: str = "") -> tuple[int, int] | None:
    """Return device and number of an SQLite file, or of one of ``SQLITE_ENDINGS``; None without one."""
    if (path := _sqlite_file(url)) is None:
        return None
    try:
        found = path.with_name(path.name + ending).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_store(where: str | Path, *, name_user: Callable[[], str] = str) -> ReviewStore:
    """Open a store; create it if it does not exist. ``name_user`` is that of ``ReviewStore``.

    It is the path of an SQLite file, or an SQLAlchemy URL such as ``postgresql+psycopg://user@host/reviews``. Raises
    ``StoreError`` for a store with a newer schema, and if the database cannot be reached.
    """
    url = _to_url(where)
    if path := _sqlite_file(url):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _check_file(path)
    with _translate(url.render_as_string()):
        engine = _create(url)
        try:
            _prepare_schema(engine)
            return ReviewStore(engine, name_user, _identify(url))
        except BaseException:
            engine.dispose()
            raise


def _check_file(path: Path) -> None:
    try:
        check_regular(path)
    except OSError as error:
        raise StoreError(f"the store {path} cannot be used: {error.strerror}") from error


def check_store_location(where: str) -> str:
    """Return a store's path or URL. Raises ``ValueError`` if the folder of an SQLite file does not exist.

    ``open_store`` would create the folder and an empty store, and a typing error would look like lost reviews.
    """
    path = _sqlite_file(_to_url(where))
    if path is not None and not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} of the review store does not exist; check --reviews")
    return where


def _sqlite_file(url: URL) -> Path | None:
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def _to_url(where: str | Path) -> URL:
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite", database=str(where))
    try:
        url = make_url(where)
    except ArgumentError as error:
        raise StoreError("the store's URL is invalid; the form is postgresql+psycopg://user@host/name") from error
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def _create(url: URL) -> Engine:
    try:
        if url.get_backend_name() != "sqlite":
            return create_engine(url, pool_pre_ping=True)
        engine = create_engine(url, connect_args={"timeout": LOCK_TIMEOUT_S})
    except ImportError as error:
        cure = "for PostgreSQL: pip install '.[postgres]'"
        raise StoreError(f"the store {url.render_as_string()} needs the package {error.name}; {cure}") from error

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # SQLAlchemy's "begin" event starts transactions
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))

    return engine


def _prepare_schema(engine: Engine) -> None:
    """Create the tables of an empty store. Raises ``StoreError`` for a store with another schema."""
    with engine.connect() as connection:
        if _read_version(connection) == _VERSION and sa.inspect(connection).has_table(_SET_ASIDE.name):
            return
    with engine.connect().execution_options(begin="BEGIN IMMEDIATE") as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK_ID})")
        version = _read_version(connection)  # a concurrent process may have created them
        if version not in (None, _VERSION):
            raise StoreError(
                f"the store {engine.url.render_as_string()} has the schema {version}; this version of StepScope "
                f"supports schemas up to {_VERSION}: update StepScope, or use another store"
            )
        _METADATA.create_all(connection)  # earlier versions set no actions aside
        if version is None:
            connection.execute(insert(_VERSIONS).values(version_num=_VERSION))


def _read_version(connection: Connection) -> str | None:
    has_table = sa.inspect(connection).has_table(_VERSIONS.name)
    return connection.scalar(select(_VERSIONS.c.version_num)) if has_table else None


@contextmanager
def _translate(name: str) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        reason = first_line(getattr(error, "orig", None) or error)
        if "database is locked" in reason:
            reason = f"another program has locked it for more than {LOCK_TIMEOUT_S:g} s; close that one, and try again"
        raise StoreError(f"the store {name} cannot be used: {reason}") from error


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
            moment=Moment(**{field.name: row[field.name] for field in fields(Moment)}),
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
