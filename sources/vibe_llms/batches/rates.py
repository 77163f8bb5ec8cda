"""Rate budgets of vendors as rows, which all workers share."""

from __future__ import annotations

from vibe_llms.batches.databases import BatchDatabase


class RowBudgets:
    """Rate budgets in rows; see :class:`vibe_llms.providers.shared_limits.Budgets`.

    Args:
        database: Database with the rows and the clock.
    """

    def __init__(self, database: BatchDatabase) -> None:
        self._database = database

    def reserve(self, name: str, seconds: float) -> float:
        """Reserve a time slot; return the delay until it begins. Raises StoreError."""
        now = self._database.now
        with self._database.transact() as transaction:
            ((until,),) = transaction.fetch(
                f"INSERT INTO vibe_budgets (name, next) VALUES (?, {now} + ?)"
                " ON CONFLICT (name) DO UPDATE SET next = ? +"
                f" CASE WHEN vibe_budgets.next > {now} THEN vibe_budgets.next ELSE {now} END"
                f" RETURNING next - {now}",
                name,
                seconds,
                seconds,
            )
        return max(0.0, float(until) - seconds)
