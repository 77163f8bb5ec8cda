"""Handlers of clients' requests that execute something: calls, reads, prompts, completions."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final, TypeAlias

import attrs
import mcp_types as types
from mcp.server.connection import Connection
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    InputRequiredResult,
)

from vibe_llms.exceptions import ConverseError, UnknownNameError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.approvals import produce_approval_request, settle
from vibe_llms.invocables.argument_faults import explain_faults
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.mcp.relaying import dump
from vibe_llms.invocables.mcp.serving.approving import QUESTION, CallApprover, Context
from vibe_llms.invocables.mcp.serving.callers import ClientCall, is_modern
from vibe_llms.invocables.mcp.serving.catalogue import EnsembleCatalogue
from vibe_llms.invocables.mcp.serving.results import (
    compose_completion,
    compose_prompt,
    compose_reading,
    compose_result,
)
from vibe_llms.invocables.mcp.serving.shares import find_client
from vibe_llms.invocables.mcp.serving.waiting import PREFIX, WaitingRoom
from vibe_llms.invocables.outcomes import Outcome, fail
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.contents import TextualContent

NOT_FOUND: Final = -32002
"""Error code for an unknown resource in protocol versions with sessions; newer ones have none."""

_Params: TypeAlias = (
    types.CallToolRequestParams | types.ReadResourceRequestParams | types.GetPromptRequestParams
)


@define(eq=False, kw_only=True)
class Attendant:
    """Executes clients' requests.

    Attributes:
        registry: The invocables.
        catalogue: The resources and prompts.
        call_approver: Asked about calls that need an approval.
        waiting: The calls whose clients are being asked a question.
        levels: The log levels of the sessions.
        can_wait: True if the repeated request of a client always reaches this process.
    """

    registry: Registry
    catalogue: EnsembleCatalogue
    call_approver: CallApprover
    waiting: WaitingRoom
    levels: MutableMapping[Connection, str]
    can_wait: bool

    async def call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | InputRequiredResult:
        """Execute a call of a tool. Raises MCPError if the tool is unknown."""
        try:
            invoker = self.registry.access(params.name)
        except UnknownNameError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        arguments = params.arguments or {}
        approved: JsonObject | Outcome | InputRequiredResult = arguments
        if not _is_waiting(params):
            try:
                approved = await self._approve(invoker, arguments, context, params)
            except ConverseError as error:
                approved = fail(str(error))
        outcome: Outcome | InputRequiredResult
        if isinstance(approved, (Outcome, InputRequiredResult)):
            outcome = approved
        else:
            outcome = await self._execute(invoker, approved, context, params)
            if isinstance(outcome, Outcome):
                outcome = _mark_edit(outcome, arguments, approved)
        if isinstance(outcome, InputRequiredResult):
            return outcome
        return compose_result(outcome, invoker, is_modern=is_modern(context))

    async def read(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | InputRequiredResult:
        """Read a resource. Raises MCPError if it is unknown or cannot be read."""
        resource = self.catalogue.find_resource(params.uri)
        arguments = None if resource is None else resource.match(params.uri)
        if resource is None or arguments is None:
            code = INVALID_PARAMS if is_modern(context) else NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": params.uri})
        await _ensure_valid(resource.reader, arguments, params.uri)
        outcome = await self._execute(resource.reader, arguments, context, params)
        if isinstance(outcome, InputRequiredResult):
            return outcome
        return compose_reading(outcome, resource, params.uri)

    async def get_prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | InputRequiredResult:
        """Write a prompt. Raises MCPError if that fails."""
        prompt = self.catalogue.access_prompt(params.name)
        arguments: dict[str, Any] = dict(params.arguments or {})
        await _ensure_valid(prompt.writer, arguments, params.name)
        outcome = await self._execute(prompt.writer, arguments, context, params)
        if isinstance(outcome, InputRequiredResult):
            return outcome
        return compose_prompt(outcome, prompt)

    async def complete(
        self, context: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Return suggestions. Raises MCPError if their target is unknown."""
        if isinstance(params.ref, types.PromptReference):
            completer = self.catalogue.access_prompt(params.ref.name).completer
        else:
            completer = self.catalogue.access_template(params.ref.uri).completer
        if completer is None:
            return types.CompleteResult(completion=types.Completion(values=[], total=0))
        others = params.context.arguments if params.context else None
        arguments: dict[str, Any] = {
            "argument": params.argument.name,
            "value": params.argument.value,
            "others": others or {},
        }
        call = ClientCall(context, "", self.waiting.seconds, can_wait=False)
        call.start(completer, arguments)
        outcome = await call.advance()
        if not isinstance(outcome, Outcome):  # suggestions ask no questions
            await call.end()
            raise MCPError(INTERNAL_ERROR, "Suggestions are not supported.")
        return compose_completion(outcome)

    async def _approve(
        self,
        invoker: Invoker,
        arguments: JsonObject,
        context: Context,
        params: types.CallToolRequestParams,
    ) -> JsonObject | Outcome | InputRequiredResult:
        """Return the arguments of the approved call, or why it is refused."""
        faults = await invoker.examine(arguments)
        if faults:  # invalid arguments need no approval
            return fail(explain_faults(invoker.name, faults))
        if not invoker.needs_approval:
            return arguments
        request = produce_approval_request(
            str(context.request_id),
            invoker.name,
            arguments,
            description=invoker.description,
            effect=invoker.effect,
        )
        approval = await self.call_approver.ask(request, context, params)
        if isinstance(approval, InputRequiredResult):
            return approval
        approved = settle(request, approval)
        if approved is None:
            reason = f" {approval.reason}" if approval.reason else ""
            return fail(f"{invoker.name} was not executed: it needs approval.{reason}")
        if approved != arguments:
            faults = await invoker.examine(approved)
            if faults:
                return fail(explain_faults(invoker.name, faults))
        return approved

    async def _execute(
        self, invoker: Invoker, arguments: JsonObject, context: Context, params: _Params
    ) -> Outcome | InputRequiredResult:
        """Execute or resume a call; return its outcome, or a question to the client."""
        answers = {name: dump(each) for name, each in (params.input_responses or {}).items()}
        if _is_waiting(params):
            waiting_call = self.waiting.take(params.request_state or "")
            if waiting_call is None:
                raise MCPError(INVALID_PARAMS, "No call waits for these answers now")
            call = waiting_call
            call.resume(context, answers)
        else:
            if invoker.needs_approval:
                # This answer has approved the call. Such an answer must not answer a later question
                # with this name, for example a question of the server behind this one.
                answers.pop(QUESTION, None)
            call = ClientCall(
                context,
                self.levels.get(context.session._connection, ""),
                self.waiting.seconds,
                self.can_wait,
                early_answers=answers,
            )
            call.start(invoker, arguments)
        step = await call.advance()
        if not isinstance(step, Outcome):
            return InputRequiredResult.model_validate(
                {
                    "inputRequests": step,
                    "requestState": await self.waiting.keep(call, find_client(context)),
                },
                by_name=False,
            )
        if step.is_error and call.missing_capabilities and is_modern(context):
            raise MCPError(
                MISSING_REQUIRED_CLIENT_CAPABILITY,
                f"{invoker.name} needs to ask a question that this client does not support",
                {"requiredCapabilities": call.missing_capabilities},
            )
        return step


async def _ensure_valid(invoker: Invoker, arguments: JsonObject, name: str) -> None:
    """Check the arguments. Raises MCPError."""
    faults = await invoker.examine(arguments)
    if faults:
        raise MCPError(INVALID_PARAMS, explain_faults(name, faults))


def _is_waiting(params: _Params) -> bool:
    """Return whether a request resumes a waiting call."""
    return (params.request_state or "").startswith(PREFIX)


def _mark_edit(outcome: Outcome, arguments: JsonObject, approved: JsonObject) -> Outcome:
    """Inform the client if a policy has changed its arguments."""
    if approved == arguments:
        return outcome
    note = TextualContent("[executed with other arguments than given, as approved]\n")
    return attrs.evolve(outcome, contents=(note, *outcome.contents), source=None)
