"""CORS headers for pages that may read responses: https://fetch.spec.whatwg.org."""

from __future__ import annotations

from typing import Final

from vibe_llms.daemons.asgi import HttpCall

ASKED_METHOD: Final = "access-control-request-method"
"""Header of a preflight request."""

_REMEMBERED_SECONDS: Final = 600


def compose_page_headers(call: HttpCall) -> dict[str, str]:
    """Return the headers that allow the requesting page to read the response.

    Cookies and certificates are not allowed: a page sends its own key, or none.
    """
    told = {
        "access-control-allow-origin": call.headers["origin"],
        "access-control-expose-headers": "*",
        "vary": "origin",
    }
    if ASKED_METHOD in call.headers:
        told |= {
            "access-control-allow-methods": "GET, POST, DELETE",
            "access-control-allow-headers": call.headers.get("access-control-request-headers", "*"),
            "access-control-max-age": str(_REMEMBERED_SECONDS),
        }
    return told
