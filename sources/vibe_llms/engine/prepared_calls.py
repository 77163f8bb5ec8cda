"""Prepared invocation: invoker, arguments, and the required approval."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from vibe_llms.engine.recovery import Record
from vibe_llms.events.engine import ApprovalAnsweredEvent
from vibe_llms.exceptions import ConverseError, UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.approvals import ApprovalRequest, produce_approval_request
from vibe_llms.invocables.argument_faults import ArgumentFault
from vibe_llms.invocables.calls import canonicalize, read_arguments
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.canisters import InvocationCanister


@frozen(kw_only=True)
class Call:
    """Invocation of a turn.

    Attributes:
        canister: Invocation as the model wrote it.
        invoker: Executes it; ``None`` if it cannot be executed, for the reason in ``fault``.
        arguments: Arguments of the invocation.
        canonical: Arguments as text, with sorted keys.
        fault: Why the call cannot be executed, for the model; empty if it can.
        request: Approval request, if an approval is needed.
        approval: Answer to the request.
    """

    canister: InvocationCanister
    invoker: Invoker | None = None
    arguments: JsonObject = attrs.field(factory=dict)
    canonical: str = "{}"
    fault: str = ""
    request: ApprovalRequest | None = None
    approval: ApprovalAnsweredEvent | None = None

    @property
    def key(self) -> str:
        """Id of its canister."""
        return self.canister.id

    @property
    def is_waiting(self) -> bool:
        """True if it waits for an approval."""
        return self.request is not None and self.approval is None


def prepare_calls(
    pending: Iterable[InvocationCanister], registry: Registry, record: Record
) -> tuple[Call, ...]:
    """Prepare the invocations of a turn that have no result."""
    return tuple(_prepare(canister, registry, record) for canister in pending)


async def examine_pending(
    pending: Iterable[InvocationCanister], registry: Registry, record: Record
) -> None:
    """Record for calls that need an approval whether their arguments are valid.

    Preparing calls is synchronous, and validating arguments may not be.
    """
    for canister in pending:
        try:
            invoker = registry.access(canister.name)
        except UnknownNameError:
            continue
        # Only calls that need an approval: others are validated on execution.
        if canister.id in record.invalid_arguments or not _may_need_approval(
            canister, invoker, record
        ):
            continue
        arguments = read_arguments(canister)
        if isinstance(arguments, ArgumentFault):
            continue
        try:
            record.invalid_arguments[canister.id] = bool(await invoker.examine(arguments))
        except ConverseError as error:
            record.invalid_arguments[canister.id] = str(error)


def _may_need_approval(canister: InvocationCanister, invoker: Invoker, record: Record) -> bool:
    """Return whether a call needs an approval, provided that its arguments are valid."""
    if canister.id in record.results:
        return False
    return invoker.needs_approval or _is_in_doubt(canister, invoker, record)


def _is_in_doubt(canister: InvocationCanister, invoker: Invoker, record: Record) -> bool:
    return invoker.effect is Effect.ONCE and canister.id in record.started


def _prepare(canister: InvocationCanister, registry: Registry, record: Record) -> Call:
    try:
        invoker = registry.access(canister.name)
    except UnknownNameError as error:
        return Call(canister=canister, fault=str(error))
    arguments = read_arguments(canister)
    if isinstance(arguments, ArgumentFault):
        return Call(canister=canister, fault=f"{arguments.rule.rstrip('.')}.")
    try:
        canonical = canonicalize(arguments)
        return _prepare_valid(canister, invoker, arguments, canonical, record)
    except ConverseError as error:
        return Call(canister=canister, fault=str(error))


def _prepare_valid(
    canister: InvocationCanister,
    invoker: Invoker,
    arguments: JsonObject,
    canonical: str,
    record: Record,
) -> Call:
    """Prepare a call that can be executed: find its approval request, and the answer."""
    call = Call(canister=canister, invoker=invoker, arguments=arguments, canonical=canonical)
    if not _may_need_approval(canister, invoker, record):
        return call
    is_invalid = record.invalid_arguments.get(canister.id)
    if isinstance(is_invalid, str):  # why the arguments cannot be checked
        return Call(canister=canister, fault=is_invalid)
    if is_invalid is None:  # not checked yet: a replay prepares calls, too
        is_invalid = bool(invoker.check(arguments))
    if is_invalid:
        return call  # it needs no approval: the error is explained to the model
    in_doubt = _is_in_doubt(canister, invoker, record)
    request = produce_approval_request(
        canister.invocation_id,
        invoker.name,
        arguments,
        description=invoker.description,
        effect=invoker.effect.value,
        in_doubt=in_doubt,
    )
    approval = record.find_approval(canister.id, request.digest, invoker.name, in_doubt=in_doubt)
    return attrs.evolve(call, request=request, approval=approval)


def find_denial(call: Call) -> str:
    """Return why a call may not be executed, for the model; empty if it may."""
    approval = call.approval
    if approval is None or approval.decision != "deny":
        return ""
    parts = ["The call was not approved."]
    if call.request is not None and call.request.in_doubt:
        parts.insert(0, "The call was started before, and its effect is unknown.")
    if approval.reason:
        parts.append(approval.reason)
    return " ".join(parts)
