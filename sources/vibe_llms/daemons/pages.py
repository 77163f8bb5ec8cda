"""CORS headers for pages that may read responses: https://fetch.spec.whatwg.org."""

from __future__ import annotations

from typing import Final

from vibe_llms.daemons.asgi import HttpCall

PREFLIGHT_HEADER: Final = "access-control-request-method"
"""Header of a preflight request."""

_CACHED_SECONDS: Final = 600


def compose_page_headers(call: HttpCall) -> dict[str, str]:
    """Return the headers that allow the requesting page to read the response.

    Browsers may send no cookies or certificates: a page sends a key itself, or none.
    """
    headers = {
        "access-control-allow-origin": call.headers["origin"],
        "access-control-expose-headers": "*",
        "vary": "origin",
    }
    if PREFLIGHT_HEADER in call.headers:
        headers |= {
            "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
            "access-control-allow-headers": call.headers.get("access-control-request-headers", "*"),
            "access-control-max-age": str(_CACHED_SECONDS),
        }
    return headers
