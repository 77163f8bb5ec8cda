"""Where requests come from: below which span (W3C's Trace Context), and through which gateways."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

_NOTHING: Final[Mapping[str, str]] = {}
_PARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_STATE: Final = re.compile(r"[ -~]{1,512}")

TRACE: Final[ContextVar[Mapping[str, str]]] = ContextVar("vibe_llms_trace", default=_NOTHING)
"""The headers ``traceparent`` and ``tracestate`` of what a task sends to vendors, if any."""

VIA_HEADER: Final = "x-vibe-via"
VIA: Final[ContextVar[str]] = ContextVar("vibe_llms_via", default="")
"""The gateways that what a task sends has come through, as each calls itself; empty for none.

So one that asks itself by some way knows its own requests. (``Via`` itself makes servers leave out
what they take for too much for a proxy, such as compression.)
"""


def compose_tracks() -> dict[str, str]:
    """Return the headers that say where a request comes from."""
    via = VIA.get()
    return {**TRACE.get(), VIA_HEADER: via} if via else dict(TRACE.get())


def read_trace(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return those of a request's headers that tell of a span; what makes no sense is left out."""
    parent = headers.get("traceparent")
    if parent is None or not _PARENT.fullmatch(parent):
        return _NOTHING
    state = headers.get("tracestate")
    if state is None or not _STATE.fullmatch(state):
        return {"traceparent": parent}
    return {"traceparent": parent, "tracestate": state}
