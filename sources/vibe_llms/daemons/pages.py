"""What browsers are told of pages that may read our answers: https://fetch.spec.whatwg.org."""

from __future__ import annotations

from typing import Final

from vibe_llms.daemons.asgi import HttpCall

ASKED_METHOD: Final = "access-control-request-method"
"""Of the question that a browser sends before a page's request."""

_REMEMBERED_SECONDS: Final = 600


def compose_page_headers(call: HttpCall) -> dict[str, str]:
    """Returns what lets the page that asks read the answer, and ask anything that clients may.

    No cookie and no certificate of the browser's goes with such a request: a page shows its own
    key, or none.
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
