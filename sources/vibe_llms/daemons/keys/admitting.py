"""The gate for requests of keys with bounds: as many as wait are let in by one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

from vibe_llms.daemons.keys.journal import KeyJournal
from vibe_llms.daemons.keys.ledger import KeyLedger, Stake
from vibe_llms.exceptions import AccessError, StoreError
from vibe_llms.foundation.coalescing import Gatherer

_Outcomes: TypeAlias = "asyncio.Future[Sequence[AccessError | None]]"


class AdmissionGate:
    """Asks the ledger, in a thread, one transaction after the other. For one event loop."""

    def __init__(self, ledger: KeyLedger) -> None:
        self._gatherer: Gatherer[Stake, AccessError | None] = Gatherer(ledger.admit)

    async def admit(self, stake: Stake, journal: KeyJournal) -> None:
        """Lets a request in, durably.

        Args:
            stake: The request, under a number that was taken from the journal.
            journal: Which takes note should the request be cancelled meanwhile, or be refused.

        Raises:
            AccessError: A bound is reached.
            StoreError: The ledger cannot be asked, and so nothing may be sent.
        """
        place = self._gatherer.backlog
        outcomes = self._gatherer.put(stake)
        try:
            refusal = (await asyncio.shield(outcomes))[place]
        except asyncio.CancelledError:
            outcomes.add_done_callback(
                lambda outcomes: _give_back(outcomes, place, journal, stake.number)
            )
            raise
        except BaseException:
            journal.drop_number()
            raise
        if refusal is not None:
            journal.drop_number()
            raise refusal

    async def close(self) -> None:
        """Waits for what is under way."""
        await self._gatherer.close()


def _give_back(outcomes: _Outcomes, place: int, journal: KeyJournal, number: int) -> None:
    """Gives back what was set aside for a request that nobody waits for any more."""
    if outcomes.cancelled() or outcomes.exception() or outcomes.result()[place] is not None:
        journal.drop_number()
    else:
        with suppress(StoreError):  # then it stays set aside
            journal.end(number, None)
