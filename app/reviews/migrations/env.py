"""Run the migrations on the open connection of ``app.reviews.schema``, within its transaction."""

from alembic import context

from stepscope.app.reviews.schema import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
