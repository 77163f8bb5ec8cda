"""OpenAI's older call for prompts, and Mistral's call for the text before a suffix."""

from __future__ import annotations

from functools import partial
from typing import Final

import attrs

from vibe_llms.daemons.gateway.accounting import account
from vibe_llms.daemons.gateway.basic_stages import (
    authenticate,
    cache,
    fall_back,
    read,
    route,
)
from vibe_llms.daemons.gateway.calls import GatewayCall, Stage, handle
from vibe_llms.daemons.gateway.client_requests import Face
from vibe_llms.daemons.gateway.faces.calls import DEPLOYMENT, read_deployment
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import completions

FACE: Final = Face(
    name="completions",
    dialect=completions,
    forwarded_headers=("openai-beta", "idempotency-key", "x-client-request-id"),
    id_header="x-request-id",
    has_prompts=True,
)
FIM: Final = attrs.evolve(FACE, name="fim_completions", forwarded_headers=())

_BEFORE: Final[tuple[Stage, ...]] = (authenticate, read, route, cache, fall_back, account)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of completions, also for Azure's clients."""
    produce = partial(Route, method="POST", write_error=FACE.write_error)
    stages = (*_BEFORE, _complete)
    deployed = handle(gateway, FACE, stages, read_deployment)
    return (
        produce(pattern="/v1/completions", handler=handle(gateway, FACE, stages)),
        produce(pattern=f"{DEPLOYMENT}/completions", handler=deployed),
        produce(pattern="/v1/fim/completions", handler=handle(gateway, FIM, (*_BEFORE, _fill))),
    )


# The modules with these stages are imported for the first request of a client.


async def _complete(call: GatewayCall) -> None:
    from vibe_llms.daemons.gateway.completing import complete

    await complete(call)


async def _fill(call: GatewayCall) -> None:
    from vibe_llms.daemons.gateway.completing import fill

    await fill(call)
