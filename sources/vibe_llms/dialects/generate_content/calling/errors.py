"""Classification of errors of this dialect."""

from __future__ import annotations

from vibe_llms.dialects.google_errors import produce_google_error as produce_error

__all__ = ["produce_error"]
