"""The schema of the store, and its migrations; the version of a store is its alembic revision.

A store with an unknown revision comes from a newer version and is refused. Opening a store takes the write lock only if
there is something to migrate.
"""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
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
)

from stepscope.engine.errors import EngineError

VERSION_TABLE: Final = "review_schema"
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


class StoreError(EngineError):
    """A store of reviews that cannot be opened, read or written."""


def prepare_schema(engine: Engine) -> None:
    """Migrate a store to the current schema. Raises ``StoreError`` for a store with a newer schema."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    script = ScriptDirectory.from_config(config)
    head = script.get_current_head()
    with engine.connect() as connection:
        if _revision(connection) == head:
            return
    with engine.connect().execution_options(begin="BEGIN IMMEDIATE") as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK_ID})")
        revision = _revision(connection)  # a concurrent process may have migrated it
        known = [step.revision for step in script.walk_revisions()]
        if revision is not None and revision not in known:
            raise StoreError(
                f"the store {engine.url.render_as_string()} has the schema {revision}; this version of StepScope "
                f"supports schemas up to {head}: update StepScope, or use another store"
            )
        if revision != head:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
