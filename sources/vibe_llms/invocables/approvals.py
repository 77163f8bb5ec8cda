"""Approvals of calls: requests, answers, approvers, and consulting a policy.

An answer contains the digest of the call, so that it cannot be used for another call.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.calls import canonicalize, digest_call
from vibe_llms.messages.field_types import conform_fields


@frozen(kw_only=True, field_transformer=conform_fields)
class ApprovalRequest:
    """One call that waits for an approval.

    Attributes:
        invocation_id: The model's id of the call.
        name: Registered name of the invocable.
        arguments: The arguments as canonical JSON, so that equal arguments have equal texts.
        digest: The SHA-256 of the name, the arguments and `in_doubt`. As the digest covers
            `in_doubt`, an approval of the first execution does not approve a second one.
        description: Description of the invocable.
        effect: Side effects of an execution; see :class:`.invokers.Effect`.
        in_doubt: True if an earlier execution was started and may have taken effect, so that an
            approval may execute the call twice.
    """

    invocation_id: str
    name: str
    arguments: str
    digest: str
    description: str = ""
    effect: str = "once"
    in_doubt: bool = False


def produce_approval_request(
    invocation_id: str,
    name: str,
    arguments: JsonObject,
    *,
    description: str = "",
    effect: str = "once",
    in_doubt: bool = False,
) -> ApprovalRequest:
    """Create the approval request of a call.

    Raises:
        RequestError: The arguments cannot be written as JSON.
    """
    return ApprovalRequest(
        invocation_id=invocation_id,
        name=name,
        arguments=canonicalize(arguments),
        digest=digest_call(name, arguments, in_doubt=in_doubt),
        description=description,
        effect=effect,
        in_doubt=in_doubt,
    )


class Decision(enum.StrEnum):
    """Decision of an approval."""

    ALLOW = "allow"
    DENY = "deny"
    EDIT = "edit"


class Scope(enum.StrEnum):
    """Scope of an answer: this invocation, repeated identical calls, or the invocable."""

    ONCE = "once"
    CALL = "call"
    ALWAYS = "always"


@frozen(kw_only=True, field_transformer=conform_fields)
class Approval:
    """Answer to an approval request.

    Attributes:
        digest: Digest of the request.
        decision: Execute the call, refuse it, or execute it with other arguments.
        arguments: The other arguments, as JSON; only for an edit.
        reason: The reason, in words for the model.
        scope: Scope of the answer. An edit applies to one invocation.

    Raises:
        RequestError: The fields contradict each other.
    """

    digest: str
    decision: Decision
    arguments: str | None = None
    reason: str = ""
    scope: Scope = Scope.ONCE

    def __attrs_post_init__(self) -> None:
        is_edit, has_arguments = self.decision is Decision.EDIT, self.arguments is not None
        if is_edit != has_arguments:
            raise RequestError(
                path="arguments",
                detail="Only an edit takes arguments.",
                remedy="Pass arguments only with an edit.",
                stage=Stage.EXECUTE,
            )
        if is_edit and self.scope is not Scope.ONCE:
            raise RequestError(
                path="scope",
                detail="An edit applies to one invocation only.",
                remedy="Remove the scope.",
                stage=Stage.EXECUTE,
            )


def allow(request: ApprovalRequest, *, scope: Scope = Scope.ONCE) -> Approval:
    """Approve the call."""
    return Approval(digest=request.digest, decision=Decision.ALLOW, scope=scope)


def deny(request: ApprovalRequest, reason: str = "", *, scope: Scope = Scope.ONCE) -> Approval:
    """Refuse the call; the model gets the reason."""
    return Approval(digest=request.digest, decision=Decision.DENY, reason=reason, scope=scope)


def edit(request: ApprovalRequest, arguments: JsonObject, reason: str = "") -> Approval:
    """Approve the call with other arguments; the model is informed."""
    text = canonicalize(arguments)
    return Approval(digest=request.digest, decision=Decision.EDIT, arguments=text, reason=reason)


def settle(request: ApprovalRequest, approval: Approval) -> JsonObject | None:
    """Return the approved arguments; ``None`` if the call is refused.

    Raises:
        RequestError: The answer is about another call, or its arguments are not a JSON object.
    """
    if approval.digest != request.digest:
        raise RequestError(
            path="digest",
            detail=f"The approval is for another call than {request.name} "
            f"({request.invocation_id}).",
            remedy="Answer the waiting request.",
            stage=Stage.EXECUTE,
        )
    if approval.decision is Decision.DENY:
        return None
    return _read_object(approval.arguments or request.arguments)


def _read_object(text: str) -> JsonObject:
    import msgspec

    from vibe_llms.foundation.json_errors import UNREADABLE

    try:
        value = msgspec.json.decode(text)  # as strictly as a model's arguments
    except (*UNREADABLE, ValueError) as error:
        raise RequestError(
            path="arguments",
            detail=f"The arguments are not valid JSON: {error}.",
            remedy="Pass a JSON object.",
            stage=Stage.EXECUTE,
        ) from error
    if isinstance(value, dict):
        canonicalize(value)  # raises RequestError for arguments that could not be executed
        return value
    raise RequestError(
        path="arguments",
        detail=f"The arguments must be an object, not {type(value).__name__}.",
        remedy="Pass a JSON object.",
        stage=Stage.EXECUTE,
    )


class Approver(Protocol):
    """An approver: a person at a terminal, a callback, a policy.

    It may take any time, and may be cancelled.
    """

    async def approve(self, request: ApprovalRequest) -> Approval | None:
        """Answer a request; ``None`` leaves it open, so that the run waits for an answer."""
        ...


class DeferringApprover(Protocol):
    """An approver, from a plugin for example, that may leave a request to the user."""

    async def approve(self, request: ApprovalRequest) -> Approval | None:
        """Answer a request; ``None`` leaves the decision to the user.

        An exception, or a result that is not an answer to this request, counts as a refusal.
        """
        ...


async def consult(
    policy: DeferringApprover, request: ApprovalRequest, report: Callable[[BaseException], object]
) -> Approval | None:
    """Ask a policy; return ``None`` if it leaves the decision to the user.

    If the policy fails, the call is refused.

    Args:
        report: Called with the error of a policy that fails.
    """
    try:
        approval: object = await policy.approve(request)
        if approval is None:
            return None
        if not isinstance(approval, Approval):
            raise TypeError(f"it returned {type(approval).__name__} instead of an approval")
        settle(request, approval)  # raises RequestError for an answer about another call
        return approval
    except (Exception, SystemExit) as error:  # SystemExit must not end the program either
        report(error)
        return deny(request, "The approver failed, so the call was not allowed.")
