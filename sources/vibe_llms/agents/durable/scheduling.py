"""Enqueue runs in DBOS: at most once for the same last event of a run.

The workflow's id is the run's id and the number of its last event, so that any process may enqueue
a run again without duplicates. If a workflow ended although the run did not advance, such as when
another process had claimed its log, the next workflow gets a suffix.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from vibe_llms.agents.durable.database import VERSION, DurableDatabase, translating_errors
from vibe_llms.agents.queues import DEFAULT_QUEUE
from vibe_llms.exceptions import StoreError
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.surveying import OPEN

if TYPE_CHECKING:
    from dbos import EnqueueOptions

    from vibe_llms.runs.summaries import RunSummary

WORKFLOW: Final = "vibe.perform"

_ACTIVE: Final = frozenset({"ENQUEUED", "DELAYED", "PENDING"})
# DBOS takes the lowest number first, starting at 1; specifications give urgent runs the highest.
_MIDDLE: Final = 1 << 30


class Scheduler:
    """Enqueues runs. All methods block on the database.

    Args:
        database: Database with the queues.
        index: Index of the states of runs.
    """

    def __init__(self, database: DurableDatabase, index: RunIndex) -> None:
        self._database = database
        self._index = index

    def enqueue_all(self, run_ids: Iterable[str]) -> None:
        """Enqueue each run that has to be executed; see :meth:`enqueue`."""
        for run_id in run_ids:
            self.enqueue(run_id)

    def enqueue(self, run_id: str) -> None:
        """Enqueue a run that has to be executed and whose log is not claimed.

        Raises:
            StoreError: The database is unreachable.
        """
        try:
            summary = self._index.read_summary(run_id)
        except StoreError:  # deleted or damaged: callers that ask for the run get the error
            return
        # The process that has claimed the log reads new messages, and again when it closes the log.
        if summary.state not in OPEN or not (
            summary.state == "queued" or not self._index.store.open_log(run_id).is_claimed
        ):
            return
        with translating_errors(self._database.location):
            name = self._name(summary)
            if name is not None:
                self._database.client.enqueue(_choose_options(summary, name), run_id)

    def _name(self, summary: RunSummary) -> str | None:
        """Return the id of the next work; ``None`` if some is queued or in progress."""
        stem = f"{summary.id}/{summary.sequence}"
        found = self._database.client.list_workflows(
            workflow_id_prefix=stem, load_input=False, load_output=False
        )
        turns = [-1]
        for each in found:
            name, _, turn = each.workflow_id.partition("~")
            if name == stem:
                if each.status in _ACTIVE:
                    return None
                turns.append(int(turn or 0))
        following = max(turns) + 1
        return f"{stem}~{following}" if following else stem


def _choose_options(summary: RunSummary, name: str) -> EnqueueOptions:
    queue, priority = summary.spec.get("queue"), summary.spec.get("priority")
    return {
        "workflow_name": WORKFLOW,
        "workflow_id": name,
        "queue_name": str(queue or DEFAULT_QUEUE),
        "app_version": VERSION,
        "priority": _MIDDLE - (priority if isinstance(priority, int) else 0),
    }
