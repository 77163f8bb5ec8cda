"""What a client has said that it can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server.session import ServerSession

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.asking import ELICITATION, ROOTS, SAMPLING

REQUESTS: Final[Mapping[str, type[Any]]] = {
    ELICITATION: types.ElicitRequest,
    SAMPLING: types.CreateMessageRequest,
    ROOTS: types.ListRootsRequest,
}
"""How each question is sent in the era of sessions."""


def find_lack(session: ServerSession, question: JsonObject) -> dict[str, Any]:
    """Returns what a client would have to be able to, as it would say it; nothing if it is.

    Raises:
        RequestError: No client can be asked such a thing.
    """
    able = session.client_capabilities or types.ClientCapabilities()
    params: Any = question.get("params") or {}
    match question.get("method"):
        case "elicitation/create":
            mode = "url" if params.get("mode") == "url" else "form"
            return {} if _can_elicit(able.elicitation, mode) else {"elicitation": {mode: {}}}
        case "sampling/createMessage":
            if able.sampling is None:
                return {"sampling": {}}
            return {"sampling": {"tools": {}}} if _lacks_tools(able.sampling, params) else {}
        case "roots/list":
            return {"roots": {}} if able.roots is None else {}
        case method:
            raise RequestError(
                path="ask",
                detail=f"Clients do not support {method!r}.",
                remedy=f"There are: {', '.join(REQUESTS)}.",
                stage=Stage.EXECUTE,
            )


def _can_elicit(said: types.ElicitationCapability | None, mode: str) -> bool:
    if said is None:
        return False
    if mode == "url":
        return said.url is not None
    # Before there were forms and addresses, there were forms.
    return said.form is not None or said.url is None


def _lacks_tools(said: types.SamplingCapability, params: Mapping[str, Any]) -> bool:
    return bool(params.get("tools")) and said.tools is None
