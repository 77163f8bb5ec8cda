"""Errors in the format of this dialect."""

from __future__ import annotations

from vibe_llms.dialects.google_serving import nativize_google_error as nativize_error

__all__ = ["nativize_error"]
