"""An error as OpenAI would answer it."""

from __future__ import annotations

from vibe_llms.dialects.answering import ErrorAnswer
from vibe_llms.dialects.openai_serving import nativize_openai_error
from vibe_llms.exceptions import ConverseError


def nativize_error(error: ConverseError) -> ErrorAnswer:
    """Returns the status, the headers and the body with which a client is told of an error."""
    return nativize_openai_error(error, asked="input")
