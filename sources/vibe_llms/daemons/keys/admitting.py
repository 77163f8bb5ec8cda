"""Admission of requests with bounded keys: all waiting requests share one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

from vibe_llms.daemons.keys.journal import KeyJournal
from vibe_llms.daemons.keys.ledger import KeyLedger, Stake
from vibe_llms.exceptions import AccessError, StoreError
from vibe_llms.foundation.coalescing import Coalescer

_Outcomes: TypeAlias = "asyncio.Future[Sequence[AccessError | None]]"


class AdmissionGate:
    """Runs transactions of the ledger in a thread, one at a time. For one event loop."""

    def __init__(self, ledger: KeyLedger) -> None:
        self._coalescer: Coalescer[Stake, AccessError | None] = Coalescer(ledger.admit)

    async def admit(self, stake: Stake, journal: KeyJournal) -> None:
        """Admit a request durably.

        Args:
            stake: The request, with a number from the journal.
            journal: Informed if the request is cancelled or refused.

        Raises:
            AccessError: A limit is reached.
            StoreError: The ledger is unusable, so nothing may be sent.
        """
        place = self._coalescer.backlog
        outcomes = self._coalescer.put(stake)
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
        """Wait for running transactions."""
        await self._coalescer.close()


def _give_back(outcomes: _Outcomes, place: int, journal: KeyJournal, number: int) -> None:
    """Release the reservation of a cancelled request."""
    if outcomes.cancelled() or outcomes.exception() or outcomes.result()[place] is not None:
        journal.drop_number()
    else:
        with suppress(StoreError):  # it stays reserved
            journal.end(number, None)
