"""Putting runs into queues: each once for whatever was last said of it.

What is queued is named by the run and the number of its last event, so that any process may ask
again, and it is there once. One that has come to its end without the run having gone on, as where
another had its log, is followed by the next under the same number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from vibe_llms.agents.durable.engine import VERSION, DurableDatabase, reaching
from vibe_llms.agents.hosting import is_free
from vibe_llms.agents.queues import DEFAULT_QUEUE, Queue
from vibe_llms.exceptions import StoreError
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.surveying import OPEN

if TYPE_CHECKING:
    from dbos import EnqueueOptions

    from vibe_llms.runs.summaries import RunSummary

WORKFLOW: Final = "vibe.perform"

_POLL_SECONDS: Final = 0.2
_ACTIVE: Final = frozenset({"ENQUEUED", "DELAYED", "PENDING"})
# DBOS takes the lowest number first, from 1; orders say a higher one for what is more urgent.
_MIDDLE: Final = 1 << 30


class Scheduler:
    """Asks for runs to be performed. All does database work.

    Args:
        engine: Has the queues.
        index: Knows where runs stand.
    """

    def __init__(self, engine: DurableDatabase, index: RunIndex) -> None:
        self._engine = engine
        self._index = index

    def register(self, queues: Sequence[Queue]) -> None:
        """Writes down how much of each queue works at once; it holds for all workers from now."""
        with reaching(self._engine.place):
            for each in queues:
                self._engine.client.register_queue(
                    each.name,
                    worker_concurrency=each.each,
                    global_concurrency=each.total,
                    polling_interval_sec=_POLL_SECONDS,
                )

    def enqueue_all(self, run_ids: Iterable[str]) -> None:
        """Queues whichever of these have to go on."""
        for run_id in run_ids:
            self.enqueue(run_id)

    def enqueue(self, run_id: str) -> None:
        """Queues a run that has to go on, and at which nobody is.

        Raises:
            StoreError: The database is out of reach.
        """
        try:
            summary = self._index.read_summary(run_id)
        except StoreError:  # it is gone, or damaged: whoever asks for it is told
            return
        # Whoever has its log hears what was said, also at the very end: it looks once more.
        if summary.state not in OPEN or not (
            summary.state == "queued" or is_free(self._index.store, run_id)
        ):
            return
        with reaching(self._engine.place):
            name = self._name(summary)
            if name is not None:
                self._engine.client.enqueue(_choose_options(summary, name), run_id)

    def _name(self, summary: RunSummary) -> str | None:
        """Returns how the next is called; ``None`` where one waits or works already."""
        stem = f"{summary.id}/{summary.sequence}"
        found = self._engine.client.list_workflows(
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
    queue, priority = summary.order.get("queue"), summary.order.get("priority")
    return {
        "workflow_name": WORKFLOW,
        "workflow_id": name,
        "queue_name": str(queue or DEFAULT_QUEUE),
        "app_version": VERSION,
        "priority": _MIDDLE - (priority if isinstance(priority, int) else 0),
    }
