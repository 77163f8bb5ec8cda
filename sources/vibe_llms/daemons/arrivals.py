"""Who asks a daemon: shown to the authorizer, where there is one."""

from __future__ import annotations

from vibe_llms.daemons.asgi import HttpCall, read_credential
from vibe_llms.daemons.records import CallRecord
from vibe_llms.plugins.specification.daemons import Arrival, Authorizer, Grant


async def authorize(
    authorizer: Authorizer | None, call: HttpCall, record: CallRecord
) -> Grant | None:
    """Says who asks; ``None`` where nobody has to say. Raises AccessError."""
    if authorizer is None:
        return None
    arrival = Arrival(
        method=call.method,
        path=call.path,
        headers=call.headers,
        credential=read_credential(call.headers, call.query),
        client=call.client,
        certificate=call.certificate,
    )
    grant = await authorizer.authorize(arrival)
    record.subject = grant.subject
    return grant
