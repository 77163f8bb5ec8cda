"""What a database of a runner refuses says what to do about that."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import attrs
import pytest

from vibe_llms.batches.databases import open_database
from vibe_llms.exceptions import StoreError
from vibe_llms.runs.summaries import RunSummary


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("database or disk is full", "Free space on its disk"),
        ("file is not a database", "created by a runner"),
    ],
)
def test_a_full_disk_is_told_from_a_file_of_something_else(
    tmp_path: Path, said: str, advice: str
) -> None:
    database = open_database(f"sqlite:///{tmp_path}/runner.db")
    with pytest.raises(StoreError, match=advice), database.transact():
        raise sqlite3.OperationalError(said)
    database.close()


@pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")
@pytest.mark.parametrize(
    ("place", "said", "advice"),
    [
        ("sqlite:///x", "database or disk is full", "Free space on its disk"),
        ("sqlite:///x", "file is not a database", "created by a runner"),
        ("postgresql://x", "permission denied for database y", "GRANT CREATE ON DATABASE"),
        ("postgresql://x", "connection refused", "accepts your login"),
    ],
)
def test_a_worker_is_told_the_same(place: str, said: str, advice: str) -> None:
    from vibe_llms.agents.durable.database import translating_errors

    with pytest.raises(StoreError, match=advice), translating_errors(place):
        raise OSError(said)


def test_a_run_that_waits_says_in_which_queue() -> None:
    """Where it is not the usual one: no worker may have it."""
    moment = datetime(2026, 11, 26, tzinfo=UTC)
    run = RunSummary(id="a", created=moment, updated=moment, sequence=1)
    assert run.label == "queued"
    assert attrs.evolve(run, spec={"queue": "nightly"}).label == "queued in nightly"
