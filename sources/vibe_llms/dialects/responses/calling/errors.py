"""What an error of this dialect means."""

from __future__ import annotations

from vibe_llms.dialects.openai_errors import produce_openai_error as produce_error

__all__ = ["produce_error"]
