"""Admission of requests whose keys have limits: all waiting requests share one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

from vibe_llms.daemons.keys.journal import KeyJournal
from vibe_llms.daemons.keys.ledger import AdmissionRequest, KeyLedger
from vibe_llms.exceptions import AccessError, StoreError
from vibe_llms.foundation.coalescing import Coalescer

_Outcomes: TypeAlias = "asyncio.Future[Sequence[AccessError | None]]"


class AdmissionGate:
    """Runs transactions of the ledger in a thread, one at a time. For one event loop."""

    def __init__(self, ledger: KeyLedger) -> None:
        self._coalescer: Coalescer[AdmissionRequest, AccessError | None] = Coalescer(ledger.admit)

    async def admit(self, request: AdmissionRequest, journal: KeyJournal) -> None:
        """Admit a request durably.

        Args:
            request: The request, with a number from the journal.
            journal: Informed if the request is cancelled or refused.

        Raises:
            AccessError: A limit is reached.
            StoreError: The ledger is unusable, so nothing may be sent.
        """
        index = self._coalescer.backlog
        outcomes = self._coalescer.put(request)
        try:
            refusal = (await asyncio.shield(outcomes))[index]
        except asyncio.CancelledError:
            outcomes.add_done_callback(
                lambda outcomes: _release(outcomes, index, journal, request.number)
            )
            raise
        except BaseException:
            journal.free_number()
            raise
        if refusal is not None:
            journal.free_number()
            raise refusal

    async def close(self) -> None:
        """Wait for running transactions."""
        await self._coalescer.close()


def _release(outcomes: _Outcomes, index: int, journal: KeyJournal, number: int) -> None:
    """Release the reservation of a cancelled request."""
    if outcomes.cancelled() or outcomes.exception() or outcomes.result()[index] is not None:
        journal.free_number()
    else:
        with suppress(StoreError):  # it stays reserved
            journal.end(number, None)
