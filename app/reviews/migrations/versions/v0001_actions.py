"""Create the table of actions, and its index: the page reads the actions of one video at a time."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the table and the index."""
    op.create_table(
        "review_actions",
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
    )
    op.create_index("review_actions_by_video", "review_actions", ["video_id", "number"])
