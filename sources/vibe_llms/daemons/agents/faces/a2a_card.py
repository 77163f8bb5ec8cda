"""Agent card of the daemon for A2A 1.0."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from vibe_llms.daemons.agents.faces.serving import SPEC_QUERIES
from vibe_llms.daemons.agents.route_access import RouteAccess
from vibe_llms.daemons.arrivals import ensure_host
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.openapi import ApiOperation
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route, write_plain_error
from vibe_llms.foundation.json_types import JsonObject

FACE: Final = "a2a"
VERSION: Final = "1.0"
CARD_PATH: Final = "/.well-known/agent-card.json"
PATH: Final = "/a2a"
_HEADERS: Final = {"cache-control": "max-age=60", "vary": "host, x-forwarded-proto"}

_CARD: Final[JsonObject] = {
    "title": "AgentCard",
    "type": "object",
    "required": ["name", "description", "version", "supportedInterfaces", "skills"],
}


def produce_card_route(access: RouteAccess) -> Route:
    """Produce the route of the agent card, which needs no key."""

    async def answer(call: HttpCall, record: CallRecord) -> None:
        record.face = FACE
        ensure_host(call, access.hosts)
        card = compose_card(call, needs_key=access.authorizer is not None)
        await call.send_json(card, headers=_HEADERS)

    return Route(
        method="GET",
        pattern=CARD_PATH,
        handler=answer,
        write_error=write_plain_error,
        is_admitted=False,
        operation=ApiOperation(
            summary="Return the agent card of A2A.",
            tag=FACE,
            answers={"application/json": _CARD},
            queries=SPEC_QUERIES,
        ),
    )


def compose_card(call: HttpCall, *, needs_key: bool) -> JsonObject:
    """Return the card. It says nothing of the configuration, as no key is needed to read it."""
    from vibe_llms.foundation.version import __version__

    chosen = {name: value for name, value in call.query.items() if name in SPEC_QUERIES}
    query = f"?{urlencode(chosen)}" if chosen else ""
    host = call.headers.get("host", "localhost")
    scheme = call.scope.get("scheme", "http")
    if call.headers.get("x-forwarded-proto", "").strip().lower() == "https":
        scheme = "https"  # a proxy has the certificate; keys must not be sent without TLS
    url = f"{scheme}://{host}{PATH}{query}"
    card: dict[str, object] = {
        "name": "vibe-llms agents",
        "description": "Runs models with tools in the background; calls may wait for approvals.",
        "version": __version__,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": VERSION}
        ],
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "extendedAgentCard": False,
        },
        "defaultInputModes": ["text/plain", "application/json", "image/*", "application/*"],
        "defaultOutputModes": ["text/plain", "image/*", "audio/*", "application/*"],
        "skills": [
            {
                "id": "run",
                "name": "Run an agent",
                "description": "Answers messages with a model and the daemon's tools.",
                "tags": ["agent", "tools"],
            }
        ],
    }
    if needs_key:
        card["securitySchemes"] = {"key": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        card["securityRequirements"] = [{"schemes": {"key": {"list": []}}}]
    return card  # type: ignore[return-value]
