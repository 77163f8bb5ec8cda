"""Approvals of clients' calls: by a policy, then by the client's user, if the client supports that.

The daemon itself has no user to ask. With sessions, the question is a request to the client. In
protocol versions without sessions, the question is the answer to the client's request, and the
client repeats the request with the user's answer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from functools import partial
from typing import Any, Final, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.approvals import (
    Approval,
    ApprovalRequest,
    DeferringApprover,
    allow,
    consult,
    deny,
)
from vibe_llms.invocables.mcp.serving.capabilities import find_missing_capabilities
from vibe_llms.invocables.questions import compose_form

_LOGGER: Final = logging.getLogger(__name__)

ALL: Final = "all"
QUESTION: Final = "approval"
"""Name of the question to a client, and of its answer, without sessions."""

_ANSWER: Final = "allow"
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        _ANSWER: {
            "type": "boolean",
            "title": "Allow",
            "description": "Allow this call with these arguments.",
        }
    },
    "required": [_ANSWER],
}

Context: TypeAlias = ServerRequestContext[Any, Any]


@frozen(kw_only=True, eq=False)
class CallApprover:
    """Decides whether a call that needs an approval may be executed.

    Attributes:
        allowed: Names of invocables that need no approval; ``all`` stands for all tools.
        policy: Asked first. If it defers, the client's user is asked.
    """

    allowed: Collection[str] = ()
    policy: DeferringApprover | None = None

    async def ask(
        self, request: ApprovalRequest, context: Context, params: CallToolRequestParams
    ) -> Approval | InputRequiredResult:
        """Return the answer, or the question that the client must ask its user first."""
        if {ALL, request.name} & set(self.allowed):
            return allow(request)
        report = partial(_LOGGER.error, "The approver failed at %s: %s", request.name)
        if self.policy is not None:
            approval = await consult(self.policy, request, report)
            if approval is not None:
                return approval
        if not _can_be_asked(context):
            return deny(
                request,
                "This client does not support approvals. The server's operator can allow the "
                f"call without one: vibe serve tools --allow {request.name}",
            )
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await _ask(request, context)
        answers = params.input_responses or {}
        # The signed state proves that the question was asked about this call.
        if params.request_state != request.digest or QUESTION not in answers:
            return _compose_question(request)
        answer = answers[QUESTION]
        return _read_answer(request, answer if isinstance(answer, ElicitResult) else None)


def _can_be_asked(context: Context) -> bool:
    if find_missing_capabilities(context.session, compose_form("", _SCHEMA)):
        return False
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_modern or context.session.can_send_request


async def _ask(request: ApprovalRequest, context: Context) -> Approval:
    """Ask over the session, until the client's request ends."""
    try:
        answer = await context.session.elicit_form(
            _compose_text(request), _SCHEMA, related_request_id=context.request_id
        )
    except (MCPError, ValueError) as error:  # pydantic's errors are ValueErrors
        _LOGGER.info("The client did not ask about %s: %s", request.name, error)
        return deny(request, "The client was asked for approval and did not answer.")
    return _read_answer(request, answer)


def _compose_question(request: ApprovalRequest) -> InputRequiredResult:
    params = ElicitRequestFormParams(message=_compose_text(request), requested_schema=_SCHEMA)
    return InputRequiredResult(
        input_requests={QUESTION: ElicitRequest(params=params)}, request_state=request.digest
    )


def _read_answer(request: ApprovalRequest, answer: ElicitResult | None) -> Approval:
    if answer is None or answer.action != "accept":
        return deny(request, "The user was asked and did not allow it.")
    is_allowed = (answer.content or {}).get(_ANSWER)
    if is_allowed is True:
        return allow(request)
    if is_allowed is False:
        return deny(request, "The user was asked and declined.")
    # Some clients show no fields, so that their user cannot answer.
    return deny(
        request,
        f"The client's answer lacks {_ANSWER!r} (true or false), which the form requires.",
    )


def _compose_text(request: ApprovalRequest) -> str:
    """Describe the call with its complete arguments, in which invisible characters are escaped."""
    text = json.dumps(json.loads(request.arguments), indent=2, ensure_ascii=False)
    shown = "".join(each if each.isprintable() or each == "\n" else _escape(each) for each in text)
    purpose = " ".join(request.description.split())[:300]
    return f"{request.name} asks to be executed: {purpose}\n{shown}"


def _escape(letter: str) -> str:
    return json.dumps(letter)[1:-1]
