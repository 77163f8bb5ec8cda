"""Where requests come from: below which span (W3C's Trace Context), and through which gateways."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

TRACEPARENT: Final[ContextVar[str]] = ContextVar("vibe_llms_traceparent", default="")
"""The header ``traceparent`` of what a task sends to vendors; empty for none."""

VIA_HEADER: Final = "x-vibe-via"
VIA: Final[ContextVar[str]] = ContextVar("vibe_llms_via", default="")
"""The gateways that what a task sends has come through, as each calls itself; empty for none.

So one that asks itself by some way knows its own requests. (``Via`` itself makes servers leave out
what they take for too much for a proxy, such as compression.)
"""


def compose_tracks() -> dict[str, str]:
    """Returns the headers that say where a request comes from."""
    told = {"traceparent": TRACEPARENT.get(), VIA_HEADER: VIA.get()}
    return {name: text for name, text in told.items() if text}
