"""Below which span requests are sent, as W3C's Trace Context has it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

TRACEPARENT: Final[ContextVar[str]] = ContextVar("vibe_llms_traceparent", default="")
"""The header ``traceparent`` of what a task sends to vendors; empty for none."""
