"""The gate for requests of keys with bounds: as many as wait are let in by one transaction."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TypeAlias

from vibe_llms.daemons.keys.journal import KeyJournal
from vibe_llms.daemons.keys.ledger import KeyLedger, Stake
from vibe_llms.exceptions import AccessError, StoreError

_Waiting: TypeAlias = tuple[Stake, "asyncio.Future[AccessError | None]"]


class AdmissionGate:
    """Asks the ledger, in a thread, one transaction after the other. For one event loop."""

    def __init__(self, ledger: KeyLedger) -> None:
        self._ledger = ledger
        self._waiting: list[_Waiting] = []
        self._worker: asyncio.Task[None] | None = None

    async def admit(self, stake: Stake, journal: KeyJournal) -> None:
        """Lets a request in, durably.

        Args:
            stake: The request, under a number that was taken from the journal.
            journal: Which takes note should the request be cancelled meanwhile, or be refused.

        Raises:
            AccessError: A bound is reached.
            StoreError: The ledger cannot be asked, and so nothing may be sent.
        """
        outcome = asyncio.get_running_loop().create_future()
        self._waiting.append((stake, outcome))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        try:
            refusal = await asyncio.shield(outcome)
        except asyncio.CancelledError:
            outcome.add_done_callback(lambda outcome: _give_back(outcome, journal, stake.number))
            raise
        except BaseException:
            journal.drop_number()
            raise
        if refusal is not None:
            journal.drop_number()
            raise refusal

    async def close(self) -> None:
        """Waits for what is under way."""
        if self._worker is not None:
            await self._worker

    async def _work(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            try:
                stakes = [stake for stake, _ in group]
                refusals = await asyncio.to_thread(self._ledger.admit, stakes)
            except Exception as error:
                for _, outcome in group:
                    outcome.set_exception(error)
            else:
                for (_, outcome), refusal in zip(group, refusals, strict=True):
                    outcome.set_result(refusal)


def _give_back(
    outcome: asyncio.Future[AccessError | None], journal: KeyJournal, number: int
) -> None:
    """Gives back what was set aside for a request that nobody waits for any more."""
    if outcome.cancelled() or outcome.exception() is not None or outcome.result() is not None:
        journal.drop_number()
    else:
        with suppress(StoreError):  # then it stays set aside
            journal.end(number, None)
