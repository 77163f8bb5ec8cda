"""The database of a runner works with any SQLite that Python may bring."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")
def test_times_have_milliseconds_whatever_the_version_of_sqlite(tmp_path: Path) -> None:
    """On Python 3.12 and later DBOS asks SQLite for them as only 3.42 and later understands."""
    from vibe_llms.agents.durable.database import open_database

    database = open_database(f"sqlite:///{tmp_path}/runner.db")
    try:
        with database.connections.connect() as connection:
            seconds = connection.exec_driver_sql("SELECT unixepoch('subsec')").scalar()
    finally:
        database.close()

    assert isinstance(seconds, float)
    assert abs(seconds - time.time()) < 60
