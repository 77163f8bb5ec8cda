"""Asking before a call: what is asked, what is answered, who answers, and how a policy is asked.

An answer names, by a digest, the call that it is about: it cannot be used for another, whoever
brings it, and whenever.
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
        name: Of the invocable, as it is registered.
        arguments: Canonical JSON: equal arguments have equal texts.
        digest: The SHA-256 of name and arguments, and of the doubt: an answer that was given
            before the call began does not settle whether it may be executed again.
        description: What the invocable is for.
        effect: What executing it does to the world; see :class:`.invokers.Effect`.
        in_doubt: It was begun before, and it is not known whether it took effect: to allow it
            is to let it be executed, perhaps, again.
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
    """Produces what is asked about a call.

    Raises:
        RequestError: The arguments are beyond JSON.
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
    """What was answered."""

    ALLOW = "allow"
    DENY = "deny"
    EDIT = "edit"


class Scope(enum.StrEnum):
    """How far an answer reaches: this invocation, this call when it recurs, or the invocable."""

    ONCE = "once"
    CALL = "call"
    ALWAYS = "always"


@frozen(kw_only=True, field_transformer=conform_fields)
class Approval:
    """An answer.

    Attributes:
        digest: Of the request that it answers.
        decision: Whether the call is executed, refused, or executed with other arguments.
        arguments: The other arguments, as JSON; for an edit alone.
        reason: Why, in words for the model.
        scope: How far it reaches. An edit is about one invocation.

    Raises:
        RequestError: The parts do not go together.
    """

    digest: str
    decision: Decision
    arguments: str | None = None
    reason: str = ""
    scope: Scope = Scope.ONCE

    def __attrs_post_init__(self) -> None:
        is_edit = self.decision is Decision.EDIT
        if is_edit != (self.arguments is not None):
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
    """Lets the call be executed as it is."""
    return Approval(digest=request.digest, decision=Decision.ALLOW, scope=scope)


def deny(request: ApprovalRequest, reason: str = "", *, scope: Scope = Scope.ONCE) -> Approval:
    """Refuses the call; the model is told the reason."""
    return Approval(digest=request.digest, decision=Decision.DENY, reason=reason, scope=scope)


def edit(request: ApprovalRequest, arguments: JsonObject, reason: str = "") -> Approval:
    """Lets the call be executed with other arguments; the model is told."""
    text = canonicalize(arguments)
    return Approval(digest=request.digest, decision=Decision.EDIT, arguments=text, reason=reason)


def settle(request: ApprovalRequest, approval: Approval) -> JsonObject | None:
    """Returns the arguments with which the call may be executed; ``None`` where it may not.

    Raises:
        RequestError: The answer is about another call, or its arguments are no JSON object.
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
        value = msgspec.json.decode(text)  # as strictly as what a model wrote
    except (*UNREADABLE, ValueError) as error:
        raise RequestError(
            path="arguments",
            detail=f"The arguments are not valid JSON: {error}.",
            remedy="Pass a JSON object.",
            stage=Stage.EXECUTE,
        ) from error
    if isinstance(value, dict):
        canonicalize(value)  # else it could not be executed
        return value
    raise RequestError(
        path="arguments",
        detail=f"The arguments must be an object, not {type(value).__name__}.",
        remedy="Pass a JSON object.",
        stage=Stage.EXECUTE,
    )


class Approver(Protocol):
    """Whoever is asked: a person at a terminal, a callback, a policy.

    It may think for as long as it likes, and may be cancelled meanwhile.
    """

    async def approve(self, request: ApprovalRequest) -> Approval | None:
        """Answer a request; ``None`` leaves it open, and the run waits for an answer."""
        ...


class DeferringApprover(Protocol):
    """An approver that may leave a request to the person at the terminal: what a plugin has."""

    async def approve(self, request: ApprovalRequest) -> Approval | None:
        """Answers a request; ``None`` leaves it to the person.

        What it raises, or returns instead of an answer to this very request, is a refusal.
        """
        ...


async def consult(
    policy: DeferringApprover, request: ApprovalRequest, tell: Callable[[BaseException], object]
) -> Approval | None:
    """Asks a policy, whose failure never is a consent; ``None`` where it leaves it to the person.

    Args:
        tell: Takes what it failed with.
    """
    try:
        given: object = await policy.approve(request)
        if given is None:
            return None
        if not isinstance(given, Approval):
            raise TypeError(f"it returned {type(given).__name__} instead of an approval")
        settle(request, given)  # what is about another call
        return given
    except (Exception, SystemExit) as error:  # ending the process is no consent either
        tell(error)
        return deny(request, "The approver failed, so the call was not allowed.")
