"""Schema migrations of the review store, run by alembic."""
