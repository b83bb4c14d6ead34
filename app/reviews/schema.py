"""The schema of the store, whose version is in a table of its own.

A store with an unknown version comes from a newer StepScope and is refused. Opening a store takes the write lock only
if there is something to create.
"""

from typing import Final

import sqlalchemy as sa

from stepscope.engine.errors import EngineError

VERSION: Final = "0001"
ADVISORY_LOCK_ID: Final = 7_305_241  # arbitrary, but unique on the database server
METADATA: Final = sa.MetaData()
ACTIONS: Final = sa.Table(
    "review_actions",
    METADATA,
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
_VERSIONS: Final = sa.Table("review_schema", METADATA, sa.Column("version_num", sa.String(32), primary_key=True))


class StoreError(EngineError):
    """A store of reviews that cannot be opened, read or written."""


def prepare_schema(engine: sa.Engine) -> None:
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
            connection.execute(sa.insert(_VERSIONS).values(version_num=VERSION))


def _read_version(connection: sa.Connection) -> str | None:
    return (
        connection.scalar(sa.select(_VERSIONS.c.version_num))
        if sa.inspect(connection).has_table(_VERSIONS.name)
        else None
    )
