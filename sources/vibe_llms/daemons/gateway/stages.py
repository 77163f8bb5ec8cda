"""The stages of a request to the gateway, in order: a new stage goes into these lists.

A stage is a function of one value, the :class:`.GatewayCall`. A stage adds its results to the call,
and performs the following stages by ``await call.proceed()``, as middleware does: code after that
line runs after the following stages have answered. A stage without such code is a plain function
that returns ``call.proceed()``, which saves a coroutine. A stage that raises a ``ConverseError``
ends the request; the service writes the error for the client.
"""

from __future__ import annotations

from typing import Final

from vibe_llms.daemons.gateway.accounting import account, account_count
from vibe_llms.daemons.gateway.basic_stages import (
    ask,
    authenticate,
    cache,
    count,
    fall_back,
    find_upstream,
    read,
    require_same_protocol,
    route,
)
from vibe_llms.daemons.gateway.calls import Stage
from vibe_llms.daemons.gateway.interactions import keep_interaction
from vibe_llms.daemons.gateway.passthrough import pass_through
from vibe_llms.daemons.gateway.responses.storing import expand, store

ANSWER: Final[tuple[Stage, ...]] = (
    authenticate,
    read,
    route,
    cache,
    fall_back,
    # The stages after this one run once for each upstream that is tried.
    store,
    keep_interaction,
    account,
    ask,
)
"""The stages of a request for an answer."""

COUNT: Final[tuple[Stage, ...]] = (
    authenticate,
    read,
    find_upstream,
    expand,
    account_count,
    count,
)
"""The stages of a request to count tokens."""

COMPACT: Final[tuple[Stage, ...]] = (
    authenticate,
    read,
    find_upstream,
    require_same_protocol,
    expand,
    account,
    pass_through,
)
"""The stages of a request that only a vendor of the client's protocol can answer."""
