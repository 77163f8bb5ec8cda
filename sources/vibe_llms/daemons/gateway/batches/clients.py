"""Clients of batches."""

from __future__ import annotations

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.server.asgi_types import Scope
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.plugins.specification.daemons import Grant


@frozen(kw_only=True)
class BatchClient:
    """A client that asks for its batches.

    Attributes:
        subject: Its name; empty without an authorizer.
        scope: Scope of its request, whose credentials the requests of its batches have.
        grant: Its permissions; ``None`` without an authorizer.
    """

    subject: str
    scope: Scope
    grant: Grant | None = None


async def identify(gateway: Gateway, call: HttpCall, record: CallRecord) -> BatchClient:
    """Return the client of a request. Raises AccessError."""
    grant = await gateway.authorize(call, record)
    return BatchClient(subject=record.subject, scope=call.scope, grant=grant)
