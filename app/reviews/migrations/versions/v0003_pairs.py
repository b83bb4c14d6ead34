"""Allow actions on matched pairs (``paired`` in the body). Tables do not change; older versions refuse the store."""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Change nothing: actions without a pair stay valid."""
