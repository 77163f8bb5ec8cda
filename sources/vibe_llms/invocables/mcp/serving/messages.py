"""Validation of clients' JSON-RPC messages."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types

from vibe_llms.foundation.json_types import is_encodable


class MalformedMessage(ValueError):
    """A client's message is invalid; the official package's text would disclose its classes.

    Args:
        code: The error code of JSON-RPC.
        text: The error message for the client.
        number: The id of the request, if it can be read.
    """

    def __init__(self, code: int, text: str, number: str | int | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.number = number

    def write(self) -> bytes:
        """Write the error response for the client."""
        return write_error(self.code, str(self), self.number)


def read_message(text: bytes) -> types.JSONRPCMessage:
    """Read a message.

    Raises:
        MalformedMessage: The message is invalid.
    """
    try:
        message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
        # The package mistakes a request with an invalid id for a notification.
        has_wrong_id = isinstance(message, types.JSONRPCNotification) and "id" in json.loads(text)
    except (ValueError, RecursionError):
        raise _explain(text) from None
    if has_wrong_id:
        raise MalformedMessage(
            types.INVALID_REQUEST, "The id of a request must be a text or a whole number."
        )
    return message


def _explain(text: bytes) -> MalformedMessage:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return MalformedMessage(types.PARSE_ERROR, "Invalid JSON.")
    if isinstance(value, list):
        return MalformedMessage(
            types.INVALID_REQUEST, "Batches of messages are not supported: send one at a time."
        )
    number = value.get("id") if isinstance(value, dict) else None
    is_id = isinstance(number, int) and not isinstance(number, bool)
    is_id = is_id or (isinstance(number, str) and is_encodable(number))
    return MalformedMessage(
        types.INVALID_REQUEST, "Invalid JSON-RPC 2.0 message.", number if is_id else None
    )


def write_error(code: int, text: str, number: str | int | None = None) -> bytes:
    """Write an error response to a request, or to an unknown one."""
    error = types.ErrorData(code=code, message=text)
    return write_message(types.JSONRPCError(jsonrpc="2.0", id=number, error=error))


def write_message(message: Any) -> bytes:
    """Write a message."""
    text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
    return text.encode()
