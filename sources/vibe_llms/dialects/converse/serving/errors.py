"""Errors for another vibe-llms, which raises the same errors and decides on retries itself."""

from __future__ import annotations

import msgspec

from vibe_llms.dialects.client_answers import ErrorAnswer, classify, compose_error_headers
from vibe_llms.dialects.converse.versions import VERSION
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.codec.errors import encode_error


def nativize_error(error: ConverseError) -> ErrorAnswer:
    """Return an error with its class, stage, facts, remedy and causes, but without canisters."""
    _, status = classify(error)
    body: JsonObject = {"version": VERSION, "error": write_error(error)}
    return ErrorAnswer(status, body, compose_error_headers(error))


def write_error(error: ConverseError) -> JsonObject:
    """Return an error as plain data."""
    written: JsonObject = msgspec.json.decode(encode_error(error))
    return written
