"""How the store of reviews came to its present schema; run by alembic."""
