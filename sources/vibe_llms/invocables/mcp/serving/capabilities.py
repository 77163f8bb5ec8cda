"""Client capabilities that questions need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server.session import ServerSession

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.questions import ELICITATION, ROOTS, SAMPLING

REQUESTS: Final[Mapping[str, type[Any]]] = {
    ELICITATION: types.ElicitRequest,
    SAMPLING: types.CreateMessageRequest,
    ROOTS: types.ListRootsRequest,
}
"""Request type of each question to a client with sessions."""


def find_missing_capabilities(session: ServerSession, question: JsonObject) -> dict[str, Any]:
    """Return the capabilities that a client lacks for a question, in the format of MCP.

    Raises:
        RequestError: No client supports this question.
    """
    capabilities = session.client_capabilities or types.ClientCapabilities()
    params: Any = question.get("params") or {}
    match question.get("method"):
        case "elicitation/create":
            mode = "url" if params.get("mode") == "url" else "form"
            return (
                {} if _can_elicit(capabilities.elicitation, mode) else {"elicitation": {mode: {}}}
            )
        case "sampling/createMessage":
            if capabilities.sampling is None:
                return {"sampling": {}}
            return (
                {"sampling": {"tools": {}}} if _lacks_tools(capabilities.sampling, params) else {}
            )
        case "roots/list":
            return {"roots": {}} if capabilities.roots is None else {}
        case method:
            raise RequestError(
                path="ask",
                detail=f"Clients do not support {method!r}.",
                remedy=f"There are: {', '.join(REQUESTS)}.",
                stage=Stage.EXECUTE,
            )


def _can_elicit(capability: types.ElicitationCapability | None, mode: str) -> bool:
    if capability is None:
        return False
    if mode == "url":
        return capability.url is not None
    # Clients of older versions, which do not distinguish forms and addresses, support forms.
    return capability.form is not None or capability.url is None


def _lacks_tools(capability: types.SamplingCapability, params: Mapping[str, Any]) -> bool:
    return bool(params.get("tools")) and capability.tools is None
