"""Headers for tracing: the parent span (W3C Trace Context), and the gateways passed so far."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

_NO_HEADERS: Final[Mapping[str, str]] = {}
_PARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_STATE: Final = re.compile(r"[ -~]{1,512}")

TRACE: Final[ContextVar[Mapping[str, str]]] = ContextVar("vibe_llms_trace", default=_NO_HEADERS)
"""Headers ``traceparent`` and ``tracestate`` for the current task's requests to vendors."""

VIA_HEADER: Final = "x-vibe-via"
VIA: Final[ContextVar[str]] = ContextVar("vibe_llms_via", default="")
"""Names of the gateways that the current task's requests have passed; empty for none.

With it, a gateway recognizes requests that return to it. (The standard header ``Via`` would make
servers turn off features such as compression.)
"""


def compose_trace_headers() -> dict[str, str]:
    """Return the headers for tracing."""
    headers = {**TRACE.get()}
    if via := VIA.get():
        headers[VIA_HEADER] = via
    return headers


def read_trace(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the trace headers of a request; skip invalid ones."""
    parent = headers.get("traceparent")
    if parent is None or not _PARENT.fullmatch(parent):
        return _NO_HEADERS
    state = headers.get("tracestate")
    if state is None or not _STATE.fullmatch(state):
        return {"traceparent": parent}
    return {"traceparent": parent, "tracestate": state}
