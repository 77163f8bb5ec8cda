"""Identification of the clients of batches."""

from __future__ import annotations

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.batches.interfaces import BatchClient
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.records import CallRecord


async def identify(gateway: Gateway, call: HttpCall, record: CallRecord) -> BatchClient:
    """Return the client of a request. Raises AccessError."""
    grant = await gateway.authorize(call, record)
    return BatchClient(subject=record.subject, scope=call.scope, grant=grant)
