"""Requests of a server to the client, answered by a model, a person, or the user's grants.

With sessions, the server sends them as requests. In protocol versions without sessions, the result
of a call contains them, and the call continues after the answers. A request is answered only with
the consent of the approver or the person who is also asked about calls. Each kind has a limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from vibe_llms.exceptions import ConverseError, LimitError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.approvals import (
    ApprovalRequest,
    Approver,
    produce_approval_request,
    settle,
)
from vibe_llms.invocables.mcp.elicitation import Action, Elicitor, answer_address, answer_form
from vibe_llms.invocables.mcp.sampling import (
    describe_sampling,
    nativize_answer,
    produce_request,
)

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext
    from mcp_types import CreateMessageRequestParams, ElicitRequestParams

    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.providers.interfaces import ConverserModel

_logger = logging.getLogger(__name__)

_DECLINED: Final = -1
"""The error code in the protocol's example for a user who declined."""

Callback: TypeAlias = Callable[..., Awaitable[Any]]


@frozen(kw_only=True)
class AnswerLimits:
    """Limits of one connection's requests.

    Attributes:
        sampling_tokens: Maximum tokens of one answer of a model, whatever the server requests.
        sampling_requests: Maximum number of requests to a model.
        sampling_depth: Maximum number of concurrent answers, which also limits chains of questions
            that each lead to the next.
        elicitations: Maximum number of questions to a person.
        wait_seconds: Time limit for a person to answer one question or approval.
    """

    sampling_tokens: int = 4_096
    sampling_requests: int = 50
    sampling_depth: int = 4
    elicitations: int = 50
    wait_seconds: float = 600.0


class Declined(Exception):
    """A refused request of a server; the server gets its text."""


def _ensure_paths(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(paths)


@frozen(kw_only=True, eq=False)
class Answers:
    """Answerers of one server's requests. A request without an answerer is not offered to the
    server.

    Attributes:
        server: The name of the server.
        approver: Asked before the model, about a call of ``<server>/sampling``.
        model: Answers the server's questions to a model; ``None`` to offer none.
        reactors: Callbacks for the model's answers.
        elicitor: Asks a person the server's questions; ``None`` to offer no person.
        roots: Directories that the user discloses to the server.
        limits: Limits of the server's requests.
    """

    server: str
    approver: Approver | None = None
    model: ConverserModel | None = None
    reactors: ConversationReactors | None = None
    elicitor: Elicitor | None = None
    roots: tuple[Path, ...] = attrs.field(default=(), converter=_ensure_paths)
    limits: AnswerLimits = AnswerLimits()

    def produce_callbacks(self) -> dict[str, Any]:
        """Return arguments of the official package's client, for one connection.

        A callback tells the server that it may ask, so only questions with an answerer have a
        callback.
        """
        callbacks: dict[str, Any] = {}
        # Without an approver, a server could spend the user's money on a model unnoticed.
        if self.model is not None and self.approver is not None:
            from mcp_types import SamplingCapability, SamplingToolsCapability

            sampler = _Sampler(self, self.approver, self.model)
            callbacks["sampling_callback"] = produce_callback(self.server, "sampling", sampler)
            callbacks["sampling_capabilities"] = SamplingCapability(tools=SamplingToolsCapability())
        if self.elicitor is not None:
            questioner = _PersonQuestioner(self, self.elicitor)
            callbacks["elicitation_callback"] = produce_callback(
                self.server, "elicitation", questioner
            )
        if self.roots:
            callbacks["list_roots_callback"] = produce_callback(
                self.server, "roots", self._list_roots
            )
        return callbacks

    async def _list_roots(self, context: ClientRequestContext) -> Any:
        from mcp_types import ListRootsResult, Root

        roots = [
            {"uri": root.as_uri(), "name": root.name} for root in map(Path.resolve, self.roots)
        ]
        return ListRootsResult(roots=list(map(Root.model_validate, roots)))


def produce_callback(server: str, kind: str, answer: Callback) -> Callback:
    """Wrap an answerer as a callback of the official package's client.

    Every exception becomes an error for the server, without details.
    """

    async def callback(*arguments: Any) -> Any:
        from mcp_types import INTERNAL_ERROR, ErrorData

        try:
            return await answer(*arguments)
        except Declined as refusal:
            _logger.info("A request of %s was not answered (%s): %s", server, kind, refusal)
            return ErrorData(code=_DECLINED, message=str(refusal))
        except Exception as error:
            _logger.warning("A request of %s could not be answered (%s): %s", server, kind, error)
            return ErrorData(code=INTERNAL_ERROR, message="It could not be answered.")

    return callback


@define(eq=False)
class _Sampler:
    """Answers a server's questions to a model, within the limits of one connection."""

    _answers: Answers
    _approver: Approver
    _model: ConverserModel
    _count: int = attrs.field(default=0, init=False)
    _depth: int = attrs.field(default=0, init=False)

    async def __call__(
        self, context: ClientRequestContext, parameters: CreateMessageRequestParams
    ) -> Any:
        """Ask for an approval, then the model."""
        limits = self._answers.limits
        # Refused questions count as well, so that a server that keeps asking reaches the limit.
        self._count += 1
        if self._count > limits.sampling_requests:
            raise _exceed("sampling_requests", limits.sampling_requests)
        if self._depth >= limits.sampling_depth:
            raise _exceed("sampling_depth", limits.sampling_depth)
        self._depth += 1
        try:
            return await self._answer(str(context.request_id), parameters)
        finally:
            self._depth -= 1

    async def _answer(self, identity: str, parameters: CreateMessageRequestParams) -> Any:
        limit = self._answers.limits.sampling_tokens
        max_tokens = max(1, min(parameters.max_tokens, limit))
        parameters, max_tokens = await self._approve(identity, parameters, max_tokens)
        request = produce_request(parameters, self._model.descriptor, max_tokens)
        response = await self._model.converse(request, self._answers.reactors, stream=False)
        return nativize_answer(response, with_tools=bool(parameters.tools))

    async def _approve(
        self, identity: str, parameters: CreateMessageRequestParams, max_tokens: int
    ) -> tuple[CreateMessageRequestParams, int]:
        """Return the approved request, which the approver may have reduced."""
        description = describe_sampling(parameters, max_tokens)
        request = produce_approval_request(
            f"sampling-{identity}",
            f"{self._answers.server}/sampling",
            description,
            description=f"The MCP server {self._answers.server!r} wants to ask"
            f" {self._model.descriptor}.",
        )
        approved = await self._ask(request)
        # The approver sees data only as digests, so that changes could not be merged back.
        unchangeable = {"messages", "tools"}
        if any(approved.get(key) != description.get(key) for key in unchangeable):
            raise Declined("The request would have been changed.")
        tokens = approved.get("max_tokens")
        tokens = tokens if isinstance(tokens, int) and 0 < tokens <= max_tokens else max_tokens
        if approved.get("system") != description.get("system"):
            system = str(approved.get("system") or "") or None
            parameters = parameters.model_copy(update={"system_prompt": system})
        return parameters, tokens

    async def _ask(self, request: ApprovalRequest) -> JsonObject:
        seconds = self._answers.limits.wait_seconds
        try:
            async with asyncio.timeout(seconds):
                approval = await self._approver.approve(request)
        except TimeoutError as error:
            raise Declined("It was not approved in time.") from error
        if approval is None:
            raise Declined("No terminal to ask for approval.")
        approved = settle(request, approval)
        if approved is None:
            raise Declined("The user declined it.")
        return approved


@define(eq=False)
class _PersonQuestioner:
    """Asks a person a server's questions, within the limits of one connection."""

    _answers: Answers
    _elicitor: Elicitor
    _count: int = attrs.field(default=0, init=False)
    _lock: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    async def __call__(self, context: ClientRequestContext, parameters: ElicitRequestParams) -> Any:
        """Ask one question after the other, because a person answers them one at a time."""
        from mcp_types import ElicitResult

        limits = self._answers.limits
        self._count += 1
        if self._count > limits.elicitations:
            raise _exceed("elicitations", limits.elicitations)
        server, message = self._answers.server, parameters.message
        try:
            # The lock first, so that the time limit of a question starts when it is shown.
            async with self._lock, asyncio.timeout(limits.wait_seconds):
                if parameters.mode == "url":
                    answer = await answer_address(self._elicitor, server, message, parameters.url)
                else:
                    answer = await answer_form(
                        self._elicitor, server, message, parameters.requested_schema
                    )
        except TimeoutError:
            return ElicitResult(action="cancel")
        except (ValueError, ConverseError) as error:
            raise Declined(f"Invalid question: {error}") from error
        content: Mapping[str, Any] | None = None
        if answer.action is Action.ACCEPT and parameters.mode != "url":
            content = answer.values
        return ElicitResult.model_validate({"action": str(answer.action), "content": content})


def _exceed(name: str, value: int) -> Declined:
    return Declined(str(LimitError(limit=name, value=value)))
