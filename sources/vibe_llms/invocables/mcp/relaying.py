"""Forward the questions that an MCP server asks during a call to the program that made the call.

In protocol versions without sessions, the result of a call contains its questions. With sessions, a
question arrives separately: it is forwarded if all current calls have the same caller, and declined
otherwise.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import ConverseError, EnsembleError, Stage
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.mcp.client_answers import Declined, produce_callback
from vibe_llms.invocables.questions import ELICITATION, ROOTS, SAMPLING, Host

if TYPE_CHECKING:
    from mcp.client.client import Client

ROUNDS_LIMIT: Final = 10
"""Maximum number of results with questions in one call."""

_RESERVED: Final = "io.modelcontextprotocol/"
_PROGRESS: Final = "progressToken"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
"""Key in the ``_meta`` of a request: the minimum level of log messages that the client reads."""

LEVELS: Final = (
    *("debug", "info", "notice", "warning"),
    *("error", "critical", "alert", "emergency"),
)


_CALL: ContextVar[InvocationContext | None] = ContextVar("_CALL", default=None)
"""The call that the current task executes.

Over HTTP, the official package reads a response, and the server's questions in it, in the context
of the call that sent the request.
"""


def forget_call() -> None:
    """Detach the current task, and the tasks that it starts, from the current call."""
    _CALL.set(None)


class Relay:
    """The current calls to one server, and the server's requests and messages during these calls.

    Args:
        server: The name of the server.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._calls: list[InvocationContext] = []
        self._levels: dict[int, str] = {}  # by id of the client, which is not hashable

    @contextmanager
    def follow(self, context: InvocationContext) -> Iterator[None]:
        """Track a call while it lasts."""
        self._calls.append(context)
        token = _CALL.set(context)
        try:
            yield
        finally:
            _CALL.reset(token)
            self._calls.remove(context)

    def produce_callbacks(self) -> dict[str, Any]:
        """Return arguments of the official package's client, for one connection."""
        from mcp_types import SamplingCapability, SamplingToolsCapability

        return {
            "elicitation_callback": produce_callback(self._server, "elicitation", self._elicit),
            "sampling_callback": produce_callback(self._server, "sampling", self._sample),
            "sampling_capabilities": SamplingCapability(tools=SamplingToolsCapability()),
            "list_roots_callback": produce_callback(self._server, "roots", self._list_roots),
            "logging_callback": self._log,
        }

    async def _elicit(self, context: Any, params: Any) -> Any:
        return await self._ask(ELICITATION, dump(params))

    async def _sample(self, context: Any, params: Any) -> Any:
        return await self._ask(SAMPLING, dump(params))

    async def _list_roots(self, context: Any) -> Any:
        return await self._ask(ROOTS, {})

    async def _ask(self, method: str, params: JsonObject) -> Any:
        question: JsonObject = {"method": method, "params": params}
        call = self._find_call()
        if call is None:
            raise Declined("It is unclear which call this is about.")
        try:
            answers = await call.ask({"question": question})
        except ConverseError as error:
            raise Declined(str(error)) from error
        return _read_answer(question, answers["question"])

    async def _log(self, params: Any) -> None:
        call = self._find_call()
        if call is not None:
            call.log(params.data, params.level, params.logger)

    def _find_call(self) -> InvocationContext | None:
        """Return a call whose caller can answer a question; ``None`` if the caller is unclear.

        Over HTTP, a question arrives in the response to its call. Otherwise, it may belong to any
        call, which does not matter if all calls have the same caller.
        """
        if not self._calls:
            return None
        current = _CALL.get()
        if current is not None and current in self._calls:
            return None if current.host is None else current
        first = self._calls[0]
        if any(each.host is None for each in self._calls):
            return None
        identities = {each.host.identity for each in self._calls if each.host is not None}
        return first if len(identities) == 1 else None

    async def set_log_level(self, client: Client, host: Host | None) -> None:
        """Set the log level of a server that has sessions."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if host is None or client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        capability, level = client.server_capabilities.logging, host.log_level
        if capability is None or level not in LEVELS:
            return
        current = self._levels.get(id(client))
        # A connection has one log level: the lowest that any host reads. Each host filters further.
        if current is None or LEVELS.index(level) < LEVELS.index(current):
            import warnings

            from mcp.shared.exceptions import MCPDeprecationWarning

            if current is None:
                # Another client may get the id of a deleted one.
                weakref.finalize(client, self._levels.pop, id(client), None)
            self._levels[id(client)] = level
            with warnings.catch_warnings():
                # Deprecated, because newer versions of the protocol do not have this request.
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                request = client.set_logging_level(level)  # type: ignore[arg-type]
            await request


def compose_meta(client: Client, context: InvocationContext) -> dict[str, Any] | None:
    """Compose the ``_meta`` of a request: the caller's, without the fields of its connection."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    meta = strip_meta(context.meta)
    level = "" if context.host is None else context.host.log_level
    if level and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        meta[LOG_LEVEL] = level
    return meta or None


def strip_meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """Remove the fields of a ``_meta`` that belong to one connection."""
    return {
        name: value
        for name, value in (meta or {}).items()
        if not name.startswith(_RESERVED) and name not in (_PROGRESS, "progress_token")
    }


async def ask_until_complete(
    send: Callable[[Any, str | None], Awaitable[Any]], context: InvocationContext, server: str
) -> Any:
    """Send a request to a server without sessions until its result contains no question.

    Args:
        send: Sends the request, with answers and the server's state.
        context: The context of the call, whose caller answers the questions.
        server: The name of the server.

    Raises:
        ConverseError: A question was not answered, or the server asks too often.
    """
    from mcp_types import InputRequiredResult

    result = await send(None, None)
    for _ in range(ROUNDS_LIMIT):
        if not isinstance(result, InputRequiredResult):
            return result
        answers = None
        if result.input_requests:
            questions = {name: dump(each) for name, each in result.input_requests.items()}
            replies = await context.ask(questions)
            answers = {name: _read_answer(questions[name], each) for name, each in replies.items()}
        result = await send(answers, result.request_state)
    if not isinstance(result, InputRequiredResult):
        return result
    detail = f"The MCP server {server!r} asked more than {ROUNDS_LIMIT} times during one call."
    raise EnsembleError(ensemble=server, detail=detail, stage=Stage.EXECUTE)


def _read_answer(question: JsonObject, answer: JsonObject) -> Any:
    import mcp_types as types

    classes: dict[object, Any] = {ELICITATION: types.ElicitResult, ROOTS: types.ListRootsResult}
    result_class = classes.get(question["method"])
    if result_class is None:
        params = question.get("params")
        offers_tools = isinstance(params, Mapping) and "tools" in params
        # Only the class with tools accepts a list of contents, and calls of tools.
        if offers_tools or isinstance(answer.get("content"), list):
            result_class = types.CreateMessageResultWithTools
        else:
            result_class = types.CreateMessageResult
    return result_class.model_validate(answer, by_name=False)


def dump(value: Any) -> dict[str, Any]:
    """Return an object of the package in its wire format."""
    data: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return data
