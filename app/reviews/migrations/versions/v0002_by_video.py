"""Add an index by video: the page reads the actions of one video at a time."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the index."""
    op.create_index("review_actions_by_video", "review_actions", ["video_id", "number"])
