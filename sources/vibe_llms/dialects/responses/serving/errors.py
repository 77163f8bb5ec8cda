"""Errors in OpenAI's format."""

from __future__ import annotations

from vibe_llms.dialects.client_answers import ErrorAnswer
from vibe_llms.dialects.openai_serving import nativize_openai_error
from vibe_llms.exceptions import ConverseError


def nativize_error(error: ConverseError) -> ErrorAnswer:
    """Return the status, the headers and the body of an error for a client."""
    return nativize_openai_error(error, conversation_field="input")
