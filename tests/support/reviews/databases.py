"""Databases for tests: a file, and a PostgreSQL server of our own in a folder that goes away."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, make_url, text


def find_program(name: str) -> str | None:
    """Return a program of the PostgreSQL server; Debian keeps it off the PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name) or next((str(folder / name) for folder in folders if (folder / name).exists()), None)


@contextmanager
def serve_postgres() -> Iterator[str]:
    """Yield the URL of an empty server: the one that ``STEPSCOPE_POSTGRES`` names, or one that is started here."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[postgres]'")
    if os.environ.get("STEPSCOPE_POSTGRES"):
        yield os.environ["STEPSCOPE_POSTGRES"]
        return
    initdb, server = find_program("initdb"), find_program("postgres")
    if initdb is None or server is None:
        pytest.skip("no PostgreSQL server here: apt-get install postgresql, or set STEPSCOPE_POSTGRES to a URL")
    user = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
    with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
        if user is not None:
            shutil.chown(folder, user)
        data, log = f"{folder}/data", Path(folder, "log")
        subprocess.run(
            [initdb, "-D", data, "-U", "stepscope", "-A", "trust", "-E", "UTF8", "--locale", "C", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=folder,
            user=user,
        )
        command = [server, "-D", data, "-k", folder, "-c", "listen_addresses="]
        with log.open("wb") as output, subprocess.Popen(command, cwd=folder, user=user, stderr=output) as process:
            try:
                while not Path(folder, ".s.PGSQL.5432").exists() or "ready to accept" not in log.read_text():
                    assert process.poll() is None, log.read_text()
                    time.sleep(0.05)
                yield f"postgresql+psycopg://stepscope@/postgres?host={folder}"
            finally:
                process.send_signal(2)  # end the connections, then stop
                process.wait()


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """Yield the URL of an empty database on a server."""
    name = f"reviews_{uuid4().hex[:8]}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    finally:
        engine.dispose()
