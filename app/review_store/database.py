"""The database of a review store: its tables, their version, and connections to SQLite or PostgreSQL.

The version of the schema is in a table of its own. A store with an unknown version comes from a newer StepScope and is
refused. Opening a store takes the write lock only if there is something to create.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from stepscope.engine.errors import EngineError, first_line
from stepscope.engine.io.files import check_regular

SQLITE_ENDINGS: Final = ("-wal", "-shm", "-journal")
"""Endings of the names of SQLite's files beside a store."""
LOCK_TIMEOUT_S = 10.0
"""Longest wait for another writer of an SQLite file, in seconds; a write takes milliseconds."""
_VERSION: Final = "0001"
ADVISORY_LOCK_ID: Final = 7_305_241  # arbitrary, but unique on the database server
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
SET_ASIDE: Final = sa.Table(
    "review_set_aside",
    _METADATA,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.String(32), nullable=False),
)
IS_ASIDE: Final = ACTIONS.c.number.in_(select(SET_ASIDE.c.number))
_VERSIONS: Final = sa.Table("review_schema", _METADATA, sa.Column("version_num", sa.String(32), primary_key=True))
COLUMNS: Final = (
    *(column for column in ACTIONS.c if column.name != "body"),
    sa.cast(ACTIONS.c.body, sa.Text).label("body"),  # decoded row by row: a damaged row must not fail the query
)


class StoreError(EngineError):
    """A store of reviews that cannot be opened, read or written."""


def identify(url: URL, ending: str = "") -> tuple[int, int] | None:
    """Return device and number of an SQLite file, or of one of ``SQLITE_ENDINGS``; None without one."""
    if (path := sqlite_file(url)) is None:
        return None
    try:
        found = path.with_name(path.name + ending).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_file(path: Path) -> None:
    """Raise ``StoreError`` if the file of a store cannot be one."""
    try:
        check_regular(path)
    except OSError as error:
        raise StoreError(f"the store {path} cannot be used: {error.strerror}") from error


def check_store_location(where: str) -> str:
    """Return a store's path or URL. Raises ``ValueError`` if the folder of an SQLite file does not exist.

    ``open_store`` would create the folder and an empty store, and a typing error would look like lost reviews.
    """
    path = sqlite_file(to_url(where))
    if path is not None and not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} of the review store does not exist; check --reviews")
    return where


def sqlite_file(url: URL) -> Path | None:
    """Return the file of an SQLite store; None for a server."""
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def to_url(where: str | Path) -> URL:
    """Return the URL of a path or of an SQLAlchemy URL. Raises ``StoreError`` if it is invalid."""
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite", database=str(where))
    try:
        url = make_url(where)
    except ArgumentError as error:
        raise StoreError("the store's URL is invalid; the form is postgresql+psycopg://user@host/name") from error
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def create_database(url: URL) -> Engine:
    """Return the engine of a database. Raises ``StoreError`` without its driver."""
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


def prepare_schema(engine: Engine) -> None:
    """Create the tables of an empty store. Raises ``StoreError`` for a store with another schema."""
    with engine.connect() as connection:
        if _read_version(connection) == _VERSION and sa.inspect(connection).has_table(SET_ASIDE.name):
            return
    with engine.connect().execution_options(begin="BEGIN IMMEDIATE") as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK_ID})")
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
def translate(name: str) -> Iterator[None]:
    """Raise an error of SQLAlchemy as a ``StoreError`` of the store ``name``."""
    try:
        yield
    except SQLAlchemyError as error:
        reason = first_line(getattr(error, "orig", None) or error)
        if "database is locked" in reason:
            reason = f"another program has locked it for more than {LOCK_TIMEOUT_S:g} s; close that one, and try again"
        raise StoreError(f"the store {name} cannot be used: {reason}") from error
