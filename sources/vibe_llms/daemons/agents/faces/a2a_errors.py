"""Errors of A2A 1.0 over JSON-RPC."""

from __future__ import annotations

from typing import Final, NamedTuple

from vibe_llms.daemons.agents.faces.serving import describe_failure
from vibe_llms.daemons.agents.request_bodies import write_error
from vibe_llms.dialects.client_answers import ErrorAnswer
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.json_types import JsonObject, JsonValue

_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_DOMAIN: Final = "a2a-protocol.org"


class RpcCode(NamedTuple):
    """Code of an error, and its name for programs."""

    code: int
    reason: str


PARSE_ERROR: Final = RpcCode(-32700, "PARSE_ERROR")
INVALID_REQUEST: Final = RpcCode(-32600, "INVALID_REQUEST")
METHOD_NOT_FOUND: Final = RpcCode(-32601, "METHOD_NOT_FOUND")
INVALID_PARAMS: Final = RpcCode(-32602, "INVALID_PARAMS")
INTERNAL: Final = RpcCode(-32603, "INTERNAL_ERROR")
TASK_NOT_FOUND: Final = RpcCode(-32001, "TASK_NOT_FOUND")
NOT_CANCELABLE: Final = RpcCode(-32002, "TASK_NOT_CANCELABLE")
NO_PUSH: Final = RpcCode(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED")
UNSUPPORTED: Final = RpcCode(-32004, "UNSUPPORTED_OPERATION")
NO_EXTENDED_CARD: Final = RpcCode(-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
VERSION_UNSUPPORTED: Final = RpcCode(-32009, "VERSION_NOT_SUPPORTED")

# A2A leaves these to HTTP; JSON-RPC has the code for servers.
_BY_STATUS: Final = {
    400: INVALID_REQUEST,
    401: RpcCode(-32000, "UNAUTHENTICATED"),
    403: RpcCode(-32000, "PERMISSION_DENIED"),
    413: INVALID_REQUEST,
    429: RpcCode(-32000, "RESOURCE_EXHAUSTED"),
    503: RpcCode(-32000, "UNAVAILABLE"),
}


class RpcError(Exception):
    """An error of the protocol.

    Args:
        code: Its code.
        message: Its message.
    """

    def __init__(self, code: RpcCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def compose_rpc_error(request_id: JsonValue, error: RpcError) -> JsonObject:
    """Return the answer for an error."""
    info: JsonObject = {
        "@type": _INFO,
        "reason": error.code.reason,
        "domain": _DOMAIN,
        "metadata": {},
    }
    body: JsonObject = {"code": error.code.code, "message": str(error), "data": [info]}
    return {"jsonrpc": "2.0", "id": request_id, "error": body}


def write_rpc_error(error: ConverseError) -> ErrorAnswer:
    """Write an error outside of the protocol, such as a missing key, with its HTTP status."""
    answer = write_error(error)
    code = _BY_STATUS.get(answer.status, INTERNAL)
    body = compose_rpc_error(None, RpcError(code, describe_failure(error)))
    return ErrorAnswer(answer.status, body, answer.headers)
