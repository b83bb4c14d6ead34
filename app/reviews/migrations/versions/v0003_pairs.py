"""Actions on matched pairs: ``paired`` in the body. The tables stay; older programs cannot read it and refuse it."""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Change nothing: actions without a pair are read as they are."""
