"""Worker heartbeat table: the detector of dead workers.

DBOS leaves work in progress assigned to its worker, also when that worker is dead. Any worker that
finds an expired heartbeat puts the dead worker's runs and chunks back into their queues. Doing so
too early is harmless: to write a log a worker needs its claim, and DBOS records the outcome only
for the worker that took the work last.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vibe_llms.agents.durable.database import DurableDatabase
from vibe_llms.conversations.run_logs.claims import LEASE_SECONDS

if TYPE_CHECKING:
    import sqlalchemy


class Heartbeats:
    """Heartbeats of the workers of a runner. All methods block on the database.

    Args:
        database: The runner's database.
        worker: The id of this process's worker.
        lease_seconds: Age at which a heartbeat expires.
    """

    def __init__(
        self, database: DurableDatabase, worker: str, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self._database = database
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._table = f"{database.prefix}vibe_heartbeats"
        self._now = (
            "(julianday('now') - 2440587.5) * 86400.0"
            if database.is_sqlite
            else "extract(epoch FROM clock_timestamp())"
        )

    def prepare(self) -> None:
        """Create the table if it is missing, and beat."""
        import sqlalchemy

        # PostgreSQL refuses one of two concurrent creations.
        with suppress(sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError):
            self._execute(
                f"CREATE TABLE IF NOT EXISTS {self._table}"
                " (worker text PRIMARY KEY, beat double precision NOT NULL)"
            )
        self.beat()

    def beat(self) -> None:
        """Record that this worker is alive."""
        self._execute(
            f"INSERT INTO {self._table} VALUES (:worker, {self._now})"
            f" ON CONFLICT (worker) DO UPDATE SET beat = {self._now}",
            worker=self._worker,
        )

    def recover(self) -> None:
        """Put the work of dead workers back into its queues."""
        # A heartbeat from the future was written before the clock was set back.
        expired = f"NOT beat BETWEEN {self._now} - :seconds AND {self._now} + :seconds"
        rows = self._execute(
            f"SELECT worker FROM {self._table} WHERE {expired}", seconds=self._lease_seconds
        )
        for (worker,) in rows:
            # One worker wins the update. If it dies before the end, the heartbeat expires again.
            is_ours = self._execute(
                f"UPDATE {self._table} SET beat = {self._now} WHERE worker = :worker AND {expired}"
                " RETURNING worker",
                worker=worker,
                seconds=self._lease_seconds,
            )
            if is_ours:
                self._hand_back(worker)

    def leave(self) -> None:
        """Put this worker's unfinished work back into its queues and delete its heartbeat."""
        self._hand_back(self._worker)

    def _hand_back(self, worker: str) -> None:
        client = self._database.client
        queues: dict[str | None, list[str]] = defaultdict(list)
        for each in client.list_workflows(
            status="PENDING", executor_id=worker, load_input=False, load_output=False
        ):
            queues[each.queue_name].append(each.workflow_id)
        for queue, names in queues.items():
            client.resume_workflows(names, queue_name=queue)
        self._execute(f"DELETE FROM {self._table} WHERE worker = :worker", worker=worker)

    def _execute(self, statement: str, **values: Any) -> list[sqlalchemy.Row[Any]]:
        import sqlalchemy

        with self._database.connections.begin() as connection:
            result = connection.execute(sqlalchemy.text(statement), values)
            return [*result] if result.returns_rows else []
