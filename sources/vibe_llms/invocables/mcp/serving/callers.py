"""Calls of clients, each over one or more requests.

With sessions, a question is a request to the client, and the call waits for the answer. In protocol
versions without sessions, the question is the answer to the client's request. The call then waits
for another request of the client, with the answers and the name of the waiting call.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any, Final

import anyio
import attrs
import mcp_types as types
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject, escape_surrogates
from vibe_llms.invocables.call_execution import perform_validated
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.mcp.relaying import LEVELS, LOG_LEVEL, dump, strip_meta
from vibe_llms.invocables.mcp.serving.approving import Context
from vibe_llms.invocables.mcp.serving.capabilities import REQUESTS, find_missing_capabilities
from vibe_llms.invocables.mcp.tools import KEY_META
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.invocables.questions import ELICITATION, ROOTS, SAMPLING, Answers, Questions

PROGRESS_LEVEL: Final = "info"
"""Log level of progress, for clients that read logs but do not request progress."""

_QUEUE_LIMIT: Final = 100
"""Maximum number of queued messages for a slow client; then the oldest are dropped."""

_RESULTS: Final[Mapping[str, type[Any]]] = {
    ELICITATION: types.ElicitResult,
    SAMPLING: types.CreateMessageResult,
    ROOTS: types.ListRootsResult,
}


def is_modern(context: Context) -> bool:
    """Return whether a request uses a version of the protocol without sessions."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


@define(eq=False)
class ClientCall:
    """One call, which is the host that the executed function can ask.

    Args:
        context: The context of the current request.
        log_level: Minimum level of log messages that the client reads; empty if it reads none.
        wait_seconds: Timeout of one answer.
        can_wait: True if a later request can find the call.
        early_answers: Answers that the client has sent with its first request.

    Attributes:
        missing_capabilities: Capabilities for questions that the client does not have.
    """

    _context: Context
    _log_level: str
    _wait_seconds: float
    _can_wait: bool
    _early_answers: dict[str, Any] = attrs.field(factory=dict)
    missing_capabilities: dict[str, Any] = attrs.field(factory=dict, init=False)
    _execution: asyncio.Future[Outcome] = attrs.field(init=False)
    _open_questions: dict[str, tuple[JsonObject, asyncio.Future[JsonObject]]] = attrs.field(
        factory=dict, init=False
    )
    _changed: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _messages: deque[tuple[Any, ...]] = attrs.field(
        factory=lambda: deque(maxlen=_QUEUE_LIMIT), init=False
    )
    _has_messages: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _amount: float = attrs.field(default=0.0, init=False)

    @property
    def identity(self) -> Hashable:
        """Equal for calls of one session, of the parent program, or of one key."""
        if self._context.request is None:
            return "pipes"
        if not is_modern(self._context):
            return id(self._context.session._connection)
        return access_subject(self._context) or id(self)

    @property
    def log_level(self) -> str:
        """Minimum level of log messages that the client reads."""
        level = (self._context.meta or {}).get(LOG_LEVEL)
        return str(level) if level in LEVELS else self._log_level

    def start(self, invoker: Invoker, arguments: JsonObject) -> None:
        """Start the execution, with valid arguments."""
        meta = dict(self._context.meta or {})
        key = meta.get(KEY_META)
        invocation = InvocationContext(
            invocation_id=str(self._context.request_id),
            subject=access_subject(self._context) or "",
            idempotency_key=key if isinstance(key, str) else "",
            host=self,
            meta=strip_meta(meta),
        )
        # In a separate task, because the package cancels repeatedly, also during the cleanup.
        self._execution = asyncio.ensure_future(perform_validated(invoker, arguments, invocation))
        self._execution.add_done_callback(lambda _: self._changed.set())

    async def advance(self) -> Outcome | dict[str, JsonObject]:
        """Wait until the call completes or has questions; return the outcome, or the questions.

        If this method is cancelled, it ends the call.
        """
        sending = asyncio.ensure_future(self._send_messages())
        try:
            while not self._execution.done() and not self._open_questions:
                self._changed.clear()
                await self._changed.wait()
            await asyncio.sleep(0)  # so that concurrent questions are sent together
        except asyncio.CancelledError:
            sending.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait((sending,))
                await self.end()
            raise
        self._messages.append(())
        self._has_messages.set()
        await sending
        if self._execution.done():
            return self._execution.result()
        return {name: question for name, (question, _) in self._open_questions.items()}

    def resume(self, context: Context, answers: Mapping[str, JsonObject]) -> None:
        """Continue with the client's next request; answers to unknown questions are ignored."""
        self._context = context
        for name, answer in answers.items():
            if name in self._open_questions:
                _, future = self._open_questions.pop(name)
                if not future.done():
                    future.set_result(answer)

    async def end(self) -> None:
        """End the call, even if it is waiting."""
        self._execution.cancel()
        await asyncio.wait((self._execution,))

    def can_answer(self, question: JsonObject) -> bool:
        """Return whether the client supports this question."""
        return (
            not find_missing_capabilities(self._context.session, question) and self._is_reachable()
        )

    def _is_reachable(self) -> bool:
        if is_modern(self._context):
            return self._can_wait
        return self._context.session.can_send_request

    async def ask(self, questions: Questions) -> Answers:
        """Ask the client, within the time limit.

        Raises:
            RequestError: The client cannot be asked, or did not answer.
        """
        answers = {
            name: self._early_answers.pop(name) for name in questions if name in self._early_answers
        }
        remaining = {name: each for name, each in questions.items() if name not in answers}
        if remaining and not self._is_reachable():
            raise _refuse("Clients cannot be asked questions if several processes answer them.")
        for question in remaining.values():
            if missing := find_missing_capabilities(self._context.session, question):
                self.missing_capabilities.update(missing)
                raise _refuse(f"The client does not support {question['method']}.")
        try:
            async with asyncio.timeout(self._wait_seconds):
                ask = self._ask_later if is_modern(self._context) else self._ask_now
                return {**answers, **await ask(remaining)}
        except TimeoutError as error:
            seconds = f"wait_seconds = {self._wait_seconds:g}"
            raise _refuse(f"The client did not answer within {seconds}.") from error

    async def _ask_now(self, questions: Questions) -> Answers:
        """Ask over the session, one question after the other, because a person answers them."""
        answers: dict[str, JsonObject] = {}
        related = ServerMessageMetadata(related_request_id=self._context.request_id)
        for name, question in questions.items():
            method = str(question["method"])
            request = REQUESTS[method].model_validate(question, by_name=False)
            result = _RESULTS[method]
            if method == SAMPLING and request.params.tools is not None:
                result = types.CreateMessageResultWithTools
            try:
                response = await self._context.session.send_request(
                    request, result, metadata=related
                )
            except (MCPError, ValueError) as error:  # pydantic's errors are ValueErrors
                raise _refuse(f"The client did not answer {method}: {error}.") from error
            answers[name] = dump(response)
        return answers

    async def _ask_later(self, questions: Questions) -> Answers:
        """Answer the present request with the questions, and wait for the next request."""
        futures: dict[str, tuple[str, asyncio.Future[JsonObject]]] = {}
        try:
            for name, question in questions.items():
                shown = name
                while shown in self._open_questions:  # a concurrent question with this name
                    shown += "_"
                future: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
                self._open_questions[shown] = question, future
                futures[name] = shown, future
            self._changed.set()
            return {name: await future for name, (_, future) in futures.items()}
        finally:
            for shown, future in futures.values():
                if not future.done():
                    self._open_questions.pop(shown, None)

    def report_progress(self, text: str, done: float | None, total: float | None) -> None:
        """Queue a report of progress."""
        self._amount = self._amount + 1 if done is None else done
        self._enqueue("progress", self._amount, total, escape_surrogates(str(text)))

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """Queue a message for the client's log."""
        if level in LEVELS and self._reads(level):
            self._enqueue(
                "log", level, escape_surrogates(data) if isinstance(data, str) else data, logger
            )

    def _reads(self, level: str) -> bool:
        minimum = self.log_level
        return bool(minimum) and LEVELS.index(level) >= LEVELS.index(minimum)

    def _enqueue(self, *message: Any) -> None:
        self._messages.append(message)
        self._has_messages.set()

    async def _send_messages(self) -> None:
        """Send the queued messages, in order, until an empty one."""
        while True:
            while self._messages:
                message = self._messages.popleft()
                if not message:
                    return
                await self._send(*message)
            self._has_messages.clear()
            await self._has_messages.wait()

    async def _send(self, kind: str, *fields: Any) -> None:
        """Send a message as progress or log, if the client reads it."""
        session = self._context.session
        if kind == "progress":
            amount, total, text = fields
            if "progress_token" in (self._context.meta or {}):
                await session.report_progress(amount, total, text)
                return
            if not text or not self._reads(PROGRESS_LEVEL):
                return
            fields = PROGRESS_LEVEL, text, None
        level, data, logger = fields
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)  # some clients use it
            sending = session.send_log_message(level, data, logger, self._context.request_id)
        await sending


def access_subject(context: Any) -> str | None:
    """Return the client's subject, as the authorizer names it."""
    user = getattr(context.request, "scope", {}).get("user")
    return None if user is None else str(user.display_name)


def _refuse(detail: str) -> RequestError:
    return RequestError(path="ask", detail=detail, stage=Stage.EXECUTE)
