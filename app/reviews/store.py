"""The append-only store of actions: SQLite by default, or any SQLAlchemy URL; PostgreSQL is tested.

When ``append`` returns, the action is on disk. Its number is larger than all earlier numbers, so polling for numbers
above the last one misses nothing. Any number of threads and processes may write concurrently; writes are serialised.
Undo and redo return after the store has committed them.

The version of the schema is in a table of its own. A store with an unknown version comes from a newer StepScope and is
refused. Opening a store takes the write lock only if there is something to create.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Self
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, make_url, select
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError

from stepscope.app.reviews.actions import Action, ActionKind, Moment, from_body, to_body
from stepscope.app.reviews.review import Review, find_movable, fold_actions
from stepscope.engine.errors import EngineError, first_line
from stepscope.engine.io.files import check_regular, replace_surrogates

SQLITE_ENDINGS: Final = ("-wal", "-shm", "-journal")
"""Endings of the names of SQLite's files beside a store."""
LOCK_TIMEOUT_S = 10.0
"""Longest wait for another writer of an SQLite file, in seconds; a write takes milliseconds."""
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
_VERSIONS: Final = sa.Table("review_schema", _METADATA, sa.Column("version_num", sa.String(32), primary_key=True))
_COLUMNS: Final = (
    *(column for column in ACTIONS.c if column.name != "body"),
    sa.cast(ACTIONS.c.body, sa.Text).label("body"),  # decoded row by row: a damaged row must not fail the query
)


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
        with _translate(self._name), self.engine.connect() as connection:
            is_empty = connection.execute(select(ACTIONS.c.number).limit(1)).first() is None
        place = _sqlite_file(self.engine.url) or self.engine.url.render_as_string()
        return f"The store of reviews {place} is empty." if is_empty else ""

    def append(self, action: Action) -> Action:
        """Store an action and return it with its number; an action that is sent twice is stored once.

        Raises ``StoreError`` if the write fails, and ``ValueError`` if a different action has the same ``action_id``.
        """
        with _translate(self._name), self.engine.connect() as connection:
            try:
                return _insert(connection, [action])[0]
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

        Raises ``StoreError`` if the write fails; then none is stored.
        """
        with _translate(self._name), self.engine.connect() as connection:
            return _insert(connection, actions)

    def read(self, *, video_id: str | None = None, after: int = 0) -> tuple[Action, ...]:
        """Return the actions of ``scan``."""
        return self.scan(video_id=video_id, after=after).actions

    def scan(self, *, video_id: str | None = None, after: int = 0, kinds: Sequence[ActionKind] = ()) -> StoredActions:
        """Read the actions of one video or of all, with numbers above ``after``, in the order of their numbers.

        ``kinds`` selects the kinds of actions; by default all.
        """
        query = select(*_COLUMNS).where(ACTIONS.c.number > after).order_by(ACTIONS.c.number)
        if video_id is not None:
            query = query.where(ACTIONS.c.video_id == video_id)
        if kinds:
            query = query.where(ACTIONS.c.kind.in_(kinds))
        with _translate(self._name), self.engine.connect() as connection:
            rows = list(connection.execute(query).mappings())
        actions, unreadable = [], []
        for row in rows:
            try:
                actions.append(_from_row(row))
            except ValueError as error:
                unreadable.append(f"action {row['number']} of the store cannot be read and is skipped: {error}")
        return StoredActions(actions=tuple(actions), unreadable=tuple(map(replace_surrogates, unreadable)))

    def close(self) -> None:
        """Close all connections to the database."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _insert(connection: Connection, actions: Iterable[Action]) -> tuple[Action, ...]:
    actions = tuple(actions)
    if not actions:
        return ()
    number, action_id = ACTIONS.c.number, ACTIONS.c.action_id
    with connection.begin():
        if connection.dialect.name == "postgresql":  # makes the order of numbers the order of commits
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK_ID})")
        connection.execute(insert(ACTIONS), [_to_row(action) for action in actions])  # locks the store until the end
        newest = select(action_id, number).order_by(number.desc()).limit(len(actions))
        kept = {row.action_id: row.number for row in connection.execute(newest)}
    return tuple(replace(action, number=kept[action.action_id]) for action in actions)


def open_store(where: str | Path) -> ReviewStore:
    """Open a store; create it if it does not exist.

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
            return ReviewStore(engine)
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
        if _read_version(connection) == _VERSION:
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
        if version is None:
            _METADATA.create_all(connection)
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
    stored = store.scan(video_id=video_id)
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
    actions = {action.action_id: action for action in store.read(video_id=video_id)}
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
