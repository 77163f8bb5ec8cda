"""Routes about the daemon itself: liveness, readiness, metrics and its description."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.openapi import ApiOperation, describe
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route, write_plain_error
from vibe_llms.daemons.service import Service
from vibe_llms.dialects.client_answers import STORE_RETRY_SECONDS
from vibe_llms.exceptions import DependencyError

if TYPE_CHECKING:
    from vibe_llms.daemons.metrics import Metrics


_IDENTITY: Final = ApiOperation(summary="Describe the server.", tag="daemon")
_LIVENESS: Final = ApiOperation(summary="Check that the server is alive.", tag="daemon")
_READINESS: Final = ApiOperation(
    summary="Check that the server is ready.", tag="daemon", error={"type": "object"}
)
_METRICS: Final = ApiOperation(
    summary="Return metrics.", tag="daemon", answers={"text/plain": {"type": "string"}}
)
_DESCRIPTION: Final = ApiOperation(summary="Return this description of the API.", tag="daemon")


def add_health(
    service: Service,
    *,
    admit: Callable[[HttpCall, CallRecord], Awaitable[object]] | None = None,
    needs_key: bool = False,
    page: str = "",
    check: Callable[[], Awaitable[bool]] | None = None,
) -> None:
    """Add the routes about a service.

    Args:
        admit: Authenticates clients of the metrics and the description; health needs no key.
        needs_key: Whether admission requires a key.
        page: Relative URL to which ``/`` redirects browsers; empty without a page.
        check: Returns, for ``/readyz``, whether the dependencies of the service are reachable.
    """
    produce = partial(Route, method="GET", write_error=write_plain_error, is_admitted=False)
    metrics = _produce_metrics(service)
    if not isinstance(metrics, DependencyError):
        service.listeners.append(metrics)

    async def show_name(call: HttpCall, record: CallRecord) -> None:
        if page and "text/html" in call.headers.get("accept", ""):
            # Temporary, as this URL returns JSON to programs.
            headers = {"location": page, "vary": "accept", "cache-control": "no-store"}
            await call.answer(303, b"", headers, content_type="text/html")
        else:
            await _show_name(call, record)

    async def show_readiness(call: HttpCall, record: CallRecord) -> None:
        if service.is_ready and (check is None or await check()):
            await call.send_json({"status": "ready"})
        else:
            headers = {"retry-after": str(int(STORE_RETRY_SECONDS))}
            await call.send_json({"status": "not ready"}, 503, headers)

    async def show_metrics(call: HttpCall, record: CallRecord) -> None:
        if admit is not None:
            await admit(call, record)
        if isinstance(metrics, DependencyError):
            raise metrics
        from vibe_llms.daemons.metrics import CONTENT_TYPE

        await call.answer(200, metrics.write(), {}, content_type=CONTENT_TYPE)

    async def show_description(call: HttpCall, record: CallRecord) -> None:
        if admit is not None:
            await admit(call, record)
        await call.send_json(describe(service.routes, "vibe-llms"))

    routes = (
        produce(pattern="/", handler=show_name, operation=_IDENTITY),
        produce(pattern="/healthz", handler=_show_liveness, operation=_LIVENESS),
        produce(pattern="/readyz", handler=show_readiness, operation=_READINESS),
        produce(
            pattern="/metrics",
            handler=show_metrics,
            operation=attrs.evolve(_METRICS, needs_key=needs_key),
        ),
        produce(
            pattern="/openapi.json",
            handler=show_description,
            operation=attrs.evolve(_DESCRIPTION, needs_key=needs_key),
        ),
    )
    service.adopt_routes((*service.routes, *routes))


def _produce_metrics(service: Service) -> Metrics | DependencyError:
    from vibe_llms.daemons.metrics import Metrics

    try:
        return Metrics(service)
    except DependencyError as error:  # metrics are optional; their route reports the error
        return error


async def _show_liveness(call: HttpCall, record: CallRecord) -> None:
    await call.answer(200, b'{"status":"ok"}', {})


async def _show_name(call: HttpCall, record: CallRecord) -> None:
    from vibe_llms.foundation.version import __version__

    body = {"name": "vibe-llms", "version": __version__, "description": "/openapi.json"}
    await call.send_json(body)
