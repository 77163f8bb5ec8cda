"""Answers to requests for approval in clients' free fields, and how requests are described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.daemons.agents.faces.steps import identify_approval
from vibe_llms.daemons.agents.route_access import refuse
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.approvals import Approval, Decision, Scope
from vibe_llms.runs.waiting import Waiting

RESPONSE_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "required": ["decision"],
    "properties": {
        "decision": {"enum": ["allow", "deny", "edit"]},
        "arguments": {"type": "object", "description": "Other arguments, for an edit."},
        "reason": {"type": "string", "description": "Reason, for the model."},
        "scope": {"enum": ["once", "call", "always"]},
    },
}
"""Schema of the answer to a request for approval."""

_DECISIONS: Final[Mapping[object, Decision]] = {
    **{each.value: each for each in Decision},
    True: Decision.ALLOW,
    False: Decision.DENY,
}


def read_decision(table: Mapping[str, Any], place: str) -> Approval:
    """Read the answer to a request for approval, still without its digest. Raises RequestError."""
    decision = _DECISIONS.get(_hashable(table.get("decision", table.get("approved"))))
    if decision is None:
        raise refuse(place, "The answer must have a decision: allow, deny or edit.")
    arguments, reason = table.get("arguments"), table.get("reason", "")
    scope = _hashable(table.get("scope", Scope.ONCE.value))
    if not isinstance(reason, str) or scope not in {each.value for each in Scope}:
        raise refuse(place, "The reason must be a text, and the scope once, call or always.")
    if arguments is not None and not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    return Approval(
        digest="",
        decision=decision,
        arguments=arguments,
        reason=reason,
        scope=Scope(str(scope)),
    )


def ask_approval(waiting: Waiting) -> str:
    """Return the question whether a call is allowed."""
    request = waiting.request
    doubt = " It was started before, and may have taken effect." if request.in_doubt else ""
    return f"Allow the call of {request.name}?{doubt}"


def describe_approval(waiting: Waiting) -> JsonObject:
    """Return a request for approval as plain data."""
    request = waiting.request
    return {
        "id": identify_approval(waiting.key, request.digest),
        "name": request.name,
        "arguments": request.arguments,
        "description": request.description,
        "effect": request.effect,
        "inDoubt": request.in_doubt,
    }


def _hashable(value: object) -> object:
    return value if isinstance(value, (str, bool)) else None
