"""A client's call, over one or more requests.

In the era of sessions a question is a request to the client, and the call waits for its answer. In
the era without, the question is the answer to the client's request: the call waits until the client
sends another one, with answers and the name of the waiting call.
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
from vibe_llms.invocables.call_execution import perform_fitting
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.mcp.relaying import LEVELS, LOG_LEVEL, dump, strip_meta
from vibe_llms.invocables.mcp.serving.approving import Context
from vibe_llms.invocables.mcp.serving.capabilities import REQUESTS, find_lack
from vibe_llms.invocables.mcp.tools import KEY_META
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.invocables.questions import ELICITATION, ROOTS, SAMPLING, Answers, Questions

PROGRESS_LEVEL: Final = "info"
"""Log level of progress, for a client that reads a log and requests no progress."""

_MOST_WAITING: Final = 100
"""Maximum number of queued messages for a slow client; then the oldest are dropped."""

_RESULTS: Final[Mapping[str, type[Any]]] = {
    ELICITATION: types.ElicitResult,
    SAMPLING: types.CreateMessageResult,
    ROOTS: types.ListRootsResult,
}


def is_modern(context: Context) -> bool:
    """Return whether a request is of the era without sessions."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


@define(eq=False)
class ClientCall:
    """One call; it is the host of the executed invoker.

    Args:
        context: Of the current request.
        log_level: Minimum level of log messages that the client reads; empty if it reads none.
        wait_seconds: Timeout of one answer.
        can_wait: A later request can find the call.
        given: Answers that the client has sent along.

    Attributes:
        lacking: Capabilities for the questions that the client lacks.
    """

    _context: Context
    _log_level: str
    _wait_seconds: float
    _can_wait: bool
    _given: dict[str, Any] = attrs.field(factory=dict)
    lacking: dict[str, Any] = attrs.field(factory=dict, init=False)
    _performing: asyncio.Future[Outcome] = attrs.field(init=False)
    _open: dict[str, tuple[JsonObject, asyncio.Future[JsonObject]]] = attrs.field(
        factory=dict, init=False
    )
    _news: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _words: deque[tuple[Any, ...]] = attrs.field(
        factory=lambda: deque(maxlen=_MOST_WAITING), init=False
    )
    _has_words: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _amount: float = attrs.field(default=0.0, init=False)

    @property
    def identity(self) -> Hashable:
        """Equal for calls of one session, of one parent program, or of one key."""
        if self._context.request is None:
            return "pipes"
        if not is_modern(self._context):
            return id(self._context.session._connection)
        return access_subject(self._context) or id(self)

    @property
    def log_level(self) -> str:
        """Minimum level of log messages that the client reads."""
        said = (self._context.meta or {}).get(LOG_LEVEL)
        return str(said) if said in LEVELS else self._log_level

    def begin(self, invoker: Invoker, arguments: JsonObject) -> None:
        """Start the execution, with valid arguments."""
        meta = dict(self._context.meta or {})
        key = meta.get(KEY_META)
        invocation = InvocationContext(
            invocation_id=str(self._context.request_id),
            idempotency_key=key if isinstance(key, str) else "",
            host=self,
            meta=strip_meta(meta),
        )
        # A task of its own: the package repeats its cancellations, and would prevent cleaning up.
        self._performing = asyncio.ensure_future(perform_fitting(invoker, arguments, invocation))
        self._performing.add_done_callback(lambda _: self._news.set())

    async def advance(self) -> Outcome | dict[str, JsonObject]:
        """Continue until the call completes or has questions; return the outcome, or the questions.

        A cancellation of this method ends the call, and waits until it has ended.
        """
        telling = asyncio.ensure_future(self._tell_words())
        try:
            while not self._performing.done() and not self._open:
                self._news.clear()
                await self._news.wait()
            await asyncio.sleep(0)  # concurrent questions are sent in the same answer
        except asyncio.CancelledError:
            telling.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait((telling,))
                await self.end()
            raise
        self._words.append(())
        self._has_words.set()
        await telling
        if self._performing.done():
            return self._performing.result()
        return {name: question for name, (question, _) in self._open.items()}

    def resume(self, context: Context, answers: Mapping[str, JsonObject]) -> None:
        """Take the request with which the client resumes; others' answers are ignored."""
        self._context = context
        for name, answer in answers.items():
            if name in self._open:
                _, waiting = self._open.pop(name)
                if not waiting.done():
                    waiting.set_result(answer)

    async def end(self) -> None:
        """End the call, even if it is waiting."""
        self._performing.cancel()
        await asyncio.wait((self._performing,))

    def can_answer(self, question: JsonObject) -> bool:
        """Return whether the client supports this question."""
        return not find_lack(self._context.session, question) and self._is_reachable()

    def _is_reachable(self) -> bool:
        if is_modern(self._context):
            return self._can_wait
        return self._context.session.can_send_request

    async def ask(self, questions: Questions) -> Answers:
        """Ask the client, within the time limit.

        Raises:
            RequestError: The client cannot be asked, or did not answer.
        """
        found = {name: self._given.pop(name) for name in questions if name in self._given}
        left = {name: each for name, each in questions.items() if name not in found}
        if left and not self._is_reachable():
            raise _refuse("Clients cannot be asked questions if several processes answer them.")
        for question in left.values():
            if lack := find_lack(self._context.session, question):
                self.lacking.update(lack)
                raise _refuse(f"The client does not support {question['method']}.")
        try:
            async with asyncio.timeout(self._wait_seconds):
                ask = self._ask_later if is_modern(self._context) else self._ask_now
                return {**found, **await ask(left)}
        except TimeoutError as error:
            seconds = f"wait_seconds = {self._wait_seconds:g}"
            raise _refuse(f"The client did not answer within {seconds}.") from error

    async def _ask_now(self, questions: Questions) -> Answers:
        """Ask over the session, one question after the other, as a person reads them."""
        answers: dict[str, JsonObject] = {}
        related = ServerMessageMetadata(related_request_id=self._context.request_id)
        for name, question in questions.items():
            method = str(question["method"])
            request = REQUESTS[method].model_validate(question, by_name=False)
            result = _RESULTS[method]
            if method == SAMPLING and request.params.tools is not None:
                result = types.CreateMessageResultWithTools
            try:
                said = await self._context.session.send_request(request, result, metadata=related)
            except (MCPError, ValueError) as error:  # pydantic's errors are ValueErrors
                raise _refuse(f"The client did not answer {method}: {error}.") from error
            answers[name] = dump(said)
        return answers

    async def _ask_later(self, questions: Questions) -> Answers:
        """Answer the present request with the questions, and wait for the next request."""
        waiting: dict[str, tuple[str, asyncio.Future[JsonObject]]] = {}
        try:
            for name, question in questions.items():
                shown = name
                while shown in self._open:  # a concurrent question of the same name
                    shown += "_"
                future: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
                self._open[shown] = question, future
                waiting[name] = shown, future
            self._news.set()
            return {name: await future for name, (_, future) in waiting.items()}
        finally:
            for shown, future in waiting.values():
                if not future.done():
                    self._open.pop(shown, None)

    def tell(self, text: str, done: float | None, total: float | None) -> None:
        """Queue a report of progress."""
        self._amount = self._amount + 1 if done is None else done
        self._say("progress", self._amount, total, escape_surrogates(str(text)))

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """Queue a message for the client's log."""
        if level in LEVELS and self._reads(level):
            self._say(
                "log", level, escape_surrogates(data) if isinstance(data, str) else data, logger
            )

    def _reads(self, level: str) -> bool:
        least = self.log_level
        return bool(least) and LEVELS.index(level) >= LEVELS.index(least)

    def _say(self, *word: Any) -> None:
        self._words.append(word)
        self._has_words.set()

    async def _tell_words(self) -> None:
        """Send the queued messages, in order, until an empty one."""
        while True:
            while self._words:
                word = self._words.popleft()
                if not word:
                    return
                await self._send(*word)
            self._has_words.clear()
            await self._has_words.wait()

    async def _send(self, kind: str, *said: Any) -> None:
        """Send a message in the way that the client has requested; else drop it."""
        session = self._context.session
        if kind == "progress":
            amount, total, text = said
            if "progress_token" in (self._context.meta or {}):
                await session.report_progress(amount, total, text)
                return
            if not text or not self._reads(PROGRESS_LEVEL):
                return
            said = PROGRESS_LEVEL, text, None
        level, data, logger = said
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)  # some clients use it
            sent = session.send_log_message(level, data, logger, self._context.request_id)
        await sent


def access_subject(context: Any) -> str | None:
    """Return the client's subject, as the authorizer names it."""
    user = getattr(context.request, "scope", {}).get("user")
    return None if user is None else str(user.display_name)


def _refuse(detail: str) -> RequestError:
    return RequestError(path="ask", detail=detail, stage=Stage.EXECUTE)
