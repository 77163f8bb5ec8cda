"""Queue of chunks of batches: workflows of DBOS, each named by its chunk."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

from vibe_llms.agents.durable.database import (
    VERSION,
    DurableDatabase,
    open_database,
    translating_errors,
)
from vibe_llms.agents.queues import BATCH_QUEUE
from vibe_llms.batches.batch_specs import PRIORITY_BOUND
from vibe_llms.batches.row_chunks import DueChunk

CHUNK_WORKFLOW: Final = "vibe.chunk"

_ACTIVE: Final = ["ENQUEUED", "DELAYED", "PENDING"]
_WAITING: Final = ["ENQUEUED", "DELAYED"]
_POSITIONS: Final = 1 << 20
"""Number of positions within a priority. DBOS begins with the lowest number, which is 1 or more."""


class DurableChunkQueue:
    """Queue of chunks in the database of a runner; see :class:`.queues.ChunkQueue`.

    Args:
        url: URL of the database.
        database: The open database; by default it is opened at the first use.
    """

    def __init__(self, url: str, database: DurableDatabase | None = None) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._database = database

    def enqueue(self, batch: str, chunks: Sequence[DueChunk]) -> None:
        """Enqueue chunks of a batch that are neither waiting nor being executed."""
        database = self._open()
        prefixes = [f"{batch}/{each.number}/" for each in chunks]
        with translating_errors(database.location):
            attempts: dict[int, int] = defaultdict(int)
            active: set[int] = set()
            for each in database.client.list_workflows(
                workflow_id_prefix=prefixes[0] if len(prefixes) == 1 else f"{batch}/",
                load_input=False,
                load_output=False,
            ):
                _, number, attempt = each.workflow_id.split("/")
                attempts[int(number)] = max(attempts[int(number)], int(attempt) + 1)
                if each.status in _ACTIVE:
                    active.add(int(number))
            for due in chunks:
                if due.number not in active:
                    database.client.enqueue(
                        {
                            "workflow_name": CHUNK_WORKFLOW,
                            "workflow_id": f"{batch}/{due.number}/{attempts[due.number]}",
                            "queue_name": BATCH_QUEUE,
                            "app_version": VERSION,
                            "priority": _rank(due),
                        },
                        batch,
                        due.number,
                    )

    def cancel(self, batch: str) -> None:
        """Remove the chunks of a batch that are waiting."""
        database = self._open()
        with translating_errors(database.location):
            found = database.client.list_workflows(
                workflow_id_prefix=f"{batch}/",
                status=_WAITING,
                load_input=False,
                load_output=False,
            )
            if found:
                database.client.cancel_workflows([each.workflow_id for each in found])

    def list_active(self) -> Collection[tuple[str, int]]:
        """Return the chunks that are waiting or being executed."""
        database = self._open()
        with translating_errors(database.location):
            found = database.client.list_workflows(
                name=CHUNK_WORKFLOW, status=_ACTIVE, load_input=False, load_output=False
            )
        names = (each.workflow_id.split("/") for each in found)
        return {(batch, int(number)) for batch, number, _ in names}

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            database, self._database = self._database, None
        if database is not None:
            database.close()

    def _open(self) -> DurableDatabase:
        with self._lock:
            if self._database is None:
                self._database = open_database(self._url)
            return self._database


def _rank(due: DueChunk) -> int:
    """Return the priority for DBOS: the batch's first, then the position."""
    position = min(due.position, _POSITIONS - 1)
    return (PRIORITY_BOUND - due.priority) * _POSITIONS + position + 1
