"""The schema of the store, whose version is in a table of its own.

A store with an unknown version comes from a newer StepScope and is refused. Opening a store takes the write lock only
if there is something to create.
"""

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    Engine,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    insert,
    inspect,
    select,
)

from stepscope.engine.errors import EngineError

VERSION: Final = "0001"
ADVISORY_LOCK_ID: Final = 7_305_241  # arbitrary, but unique on the database server
METADATA: Final = MetaData()
ACTIONS: Final = Table(
    "review_actions",
    METADATA,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("action_id", String(64), nullable=False, unique=True),
    Column("at", String(32), nullable=False),
    Column("reviewer", Text, nullable=False),
    Column("video_id", Text, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("event_key", String(16)),
    Column("run_digest", Text, nullable=False),
    Column("model_digest", Text, nullable=False),
    Column("speak_threshold", Float(53)),
    Column("update_threshold", Float(53)),
    Column("playhead_s", Float(53)),
    Column("body", JSON, nullable=False),
    Index("review_actions_by_video", "video_id", "number"),
)
_VERSIONS: Final = Table("review_schema", METADATA, Column("version_num", String(32), primary_key=True))


class StoreError(EngineError):
    """A store of reviews that cannot be opened, read or written."""


def prepare_schema(engine: Engine) -> None:
    """Create the tables of an empty store. Raises ``StoreError`` for a store with another schema."""
    with engine.connect() as connection:
        if _read_version(connection) == VERSION:
            return
    with engine.connect().execution_options(begin="BEGIN IMMEDIATE") as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK_ID})")
        version = _read_version(connection)  # a concurrent process may have created them
        if version not in (None, VERSION):
            raise StoreError(
                f"the store {engine.url.render_as_string()} has the schema {version}; this version of StepScope "
                f"supports schemas up to {VERSION}: update StepScope, or use another store"
            )
        if version is None:
            METADATA.create_all(connection)
            connection.execute(insert(_VERSIONS).values(version_num=VERSION))


def _read_version(connection: Connection) -> str | None:
    return connection.scalar(select(_VERSIONS.c.version_num)) if inspect(connection).has_table(_VERSIONS.name) else None
