"""Heartbeats: the work of a worker without one goes back into its queue, and to nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vibe_llms.agents.durable.database import DurableDatabase

pytestmark = pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")

LEASE = 60.0


@pytest.fixture
def database(tmp_path: Path) -> Iterator[DurableDatabase]:
    """Lends a database."""
    from vibe_llms.agents.durable.database import open_database

    opened = open_database(f"sqlite:///{tmp_path}/runner.db")
    yield opened
    opened.close()


def begin_work(database: DurableDatabase, name: str, worker: str) -> None:
    """Has a worker take work, as DBOS does."""
    import sqlalchemy

    database.client.enqueue(
        {"workflow_name": "any", "workflow_id": name, "queue_name": "runs"}, "argument"
    )
    with database.connections.begin() as connection:
        connection.execute(
            sqlalchemy.text(
                "UPDATE workflow_status SET status = 'PENDING', executor_id = :worker"
                " WHERE workflow_uuid = :name"
            ),
            {"worker": worker, "name": name},
        )


def set_clock(database: DurableDatabase, worker: str, seconds: float) -> None:
    """Sets a heartbeat that many seconds later, as if the clock had been there then."""
    import sqlalchemy

    statement = "UPDATE vibe_heartbeats SET beat = beat + :seconds WHERE worker = :worker"
    with database.connections.begin() as connection:
        connection.execute(sqlalchemy.text(statement), {"seconds": seconds, "worker": worker})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "status"),
    [
        pytest.param(-2 * LEASE, "ENQUEUED", id="dead"),
        pytest.param(2 * LEASE, "ENQUEUED", id="dead, and the clock was set back since"),
        pytest.param(-LEASE / 2, "PENDING", id="alive"),
        pytest.param(LEASE / 2, "PENDING", id="alive, and the clock was corrected"),
    ],
)
def test_work_of_a_dead_worker_goes_back_into_its_queue(
    database: DurableDatabase, seconds: float, status: str
) -> None:
    from vibe_llms.agents.durable.heartbeats import Heartbeats

    other, own = (Heartbeats(database, name, LEASE) for name in ("other", "own"))
    for each in (other, own):
        each.prepare()
    begin_work(database, "work", "other")
    begin_work(database, "mine", "own")
    set_clock(database, "other", seconds)

    own.recover()

    found = {each.workflow_id: each for each in database.client.list_workflows()}
    assert (found["work"].status, found["work"].queue_name) == (status, "runs")
    assert found["mine"].status == "PENDING"


def test_a_worker_that_leaves_hands_its_work_back(database: DurableDatabase) -> None:
    from vibe_llms.agents.durable.heartbeats import Heartbeats

    own = Heartbeats(database, "own", LEASE)
    own.prepare()
    begin_work(database, "work", "own")
    begin_work(database, "other's", "other")

    own.leave()

    found = {each.workflow_id: each.status for each in database.client.list_workflows()}
    assert found == {"work": "ENQUEUED", "other's": "PENDING"}
