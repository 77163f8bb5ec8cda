"""Which workers live: each has a row with the moment at which it was last heard of.

DBOS leaves what a dead worker had begun as it was. Whoever finds a row that is too old hands that
back to its queue. Too early is harmless: who performs a run needs the claim of its log.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.agents.durable.engine import DurableDatabase

if TYPE_CHECKING:
    import sqlalchemy

BEAT_SECONDS: Final = 5.0
DEAD_SECONDS: Final = 3 * BEAT_SECONDS
_KEPT_SECONDS: Final = 3600.0
"""How long is known what was performed; it is in the logs of the runs for ever."""
_PURGED: Final = 1_000

_ENDED: Final = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]


class Heartbeats:
    """The rows of a runner's workers. All does database work.

    Args:
        engine: Has them.
        worker: The id of this process's worker.
        dead_seconds: How old a row is when its worker counts as dead.
    """

    def __init__(
        self, engine: DurableDatabase, worker: str, dead_seconds: float = DEAD_SECONDS
    ) -> None:
        self._engine = engine
        self._worker = worker
        self._dead_seconds = dead_seconds
        self._table = f"{engine.prefix}vibe_workers"
        self._now = (
            "(julianday('now') - 2440587.5) * 86400.0"
            if engine.is_sqlite
            else "extract(epoch FROM clock_timestamp())"
        )

    def prepare(self) -> None:
        """Makes the table where there is none, and the first beat."""
        import sqlalchemy

        # Of two that make it at once PostgreSQL refuses one.
        with suppress(sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError):
            self._execute(
                f"CREATE TABLE IF NOT EXISTS {self._table}"
                " (id text PRIMARY KEY, beat double precision NOT NULL, about text NOT NULL)"
            )
        self.beat()

    def beat(self, about: str = "") -> None:
        """Says that this worker lives."""
        self._execute(
            f"INSERT INTO {self._table} VALUES (:id, {self._now}, :about)"
            f" ON CONFLICT (id) DO UPDATE SET beat = {self._now}",
            id=self._worker,
            about=about,
        )

    def bury(self) -> None:
        """Hands back what dead workers had begun."""
        old = f"beat < {self._now} - :seconds"
        rows = self._execute(
            f"SELECT id FROM {self._table} WHERE {old}", seconds=self._dead_seconds
        )
        for (worker,) in rows:
            # Of several that find it one goes on; if that one dies over it, the row is old again.
            taken = self._execute(
                f"UPDATE {self._table} SET beat = {self._now} WHERE id = :id AND {old}"
                " RETURNING id",
                id=worker,
                seconds=self._dead_seconds,
            )
            if taken:
                self.hand_back(worker)

    def hand_back(self, worker: str) -> None:
        """Puts what a worker had begun back into its queues, and forgets the worker."""
        client = self._engine.client
        queues: dict[str | None, list[str]] = defaultdict(list)
        for each in client.list_workflows(
            status="PENDING", executor_id=worker, load_input=False, load_output=False
        ):
            queues[each.queue_name].append(each.workflow_id)
        for queue, names in queues.items():
            client.resume_workflows(names, queue_name=queue)
        self._execute(f"DELETE FROM {self._table} WHERE id = :id", id=worker)

    def leave(self) -> None:
        """Hands back what this worker has not brought to an end, and takes its row away."""
        self.hand_back(self._worker)

    def purge(self) -> None:
        """Removes what was performed long ago."""
        from datetime import UTC, datetime, timedelta

        before = datetime.now(UTC) - timedelta(seconds=_KEPT_SECONDS)
        ended = self._engine.client.list_workflows(
            status=_ENDED,
            completed_before=before.isoformat(),
            limit=_PURGED,
            load_input=False,
            load_output=False,
        )
        if ended:
            self._engine.client.delete_workflows([each.workflow_id for each in ended])

    def _execute(self, statement: str, **values: Any) -> list[sqlalchemy.Row[Any]]:
        import sqlalchemy

        with self._engine.connections.begin() as connection:
            result = connection.execute(sqlalchemy.text(statement), values)
            return [*result] if result.returns_rows else []
