"""What an error of a vendor of this dialect means; two dialects of OpenAI's share the table."""

from __future__ import annotations

from vibe_llms.dialects.openai_errors import produce_openai_error as produce_error

__all__ = ["produce_error"]
