"""What a function may know about the call that it serves, and how it says how far it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject

if TYPE_CHECKING:
    from vibe_llms.invocables.asking import Answers, Host, Questions


def _access_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@define(kw_only=True, eq=False)
class InvocationContext:
    """One call, as its function sees it.

    A function asks for it with a parameter of this type; the model never hears of that one.

    Attributes:
        invocation_id: The model's id of the call.
        run_id: Of the run; empty outside of one.
        idempotency_key: The same for every attempt at the same call, to be handed to services
            which then do a thing once however often they are told.
        listener: Hears of progress, in the event loop in which the context was made.
        host: The program that has called, where it can be asked something; else ``None``.
        meta: What that program has said beside the arguments: what MCP calls ``_meta``.
        cancelled: Nobody waits for the result any more. A function in a thread cannot be
            stopped from outside: a long one looks here now and then, and returns.
    """

    invocation_id: str = ""
    run_id: str = ""
    idempotency_key: str = ""
    listener: Callable[[str], None] | None = attrs.field(default=None, repr=False)
    host: Host | None = attrs.field(default=None, repr=False)
    meta: JsonObject = attrs.field(factory=dict, repr=False)
    _loop: asyncio.AbstractEventLoop | None = attrs.field(
        factory=_access_loop, init=False, repr=False
    )
    cancelled: bool = attrs.field(default=False, init=False)
    _asking: int = attrs.field(default=0, init=False, repr=False)
    _asking_since: float | None = attrs.field(default=None, init=False, repr=False)
    _asked_seconds: float = attrs.field(default=0.0, init=False, repr=False)

    def cancel(self) -> None:
        """Tells the function that nobody waits any more."""
        self.cancelled = True

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Says how far the call is, in a few words; from any thread, and without waiting.

        Args:
            done: How far in numbers, if that is known; it only grows.
            total: How much there is to be done, if that is known.
        """
        if self.cancelled:
            return
        if self.host is not None:
            self._deliver(partial(self.host.tell, text, done, total))
        elif self.listener is not None:
            self._deliver(partial(self.listener, _tell_amount(text, done, total)))

    def log(self, data: Any, level: str = "info", logger: str | None = None) -> None:
        """Writes into the log of the program that has called, if it reads one.

        Args:
            data: A text, or other plain data.
            level: ``debug``, ``info``, ``notice``, ``warning``, ``error``, ``critical``, ``alert``
                or ``emergency``.
            logger: Who says it.
        """
        if self.host is not None and not self.cancelled:
            self._deliver(partial(self.host.log, level, data, logger))

    def can_ask(self, question: JsonObject) -> bool:
        """Tells whether the program that has called can be asked this; see :mod:`.asking`."""
        return self.host is not None and self.host.can_answer(question)

    async def ask(self, questions: Questions) -> Answers:
        """Asks the program that has called, all questions at once; see :mod:`.asking`.

        The time limit of the call stands still meanwhile.

        Args:
            questions: Each under a name of its own. The client sees the names, and may have
                given an answer under one of them beforehand.

        Returns:
            The answers, under the same names.

        Raises:
            RequestError: Nobody can be asked.
            ConverseError: There was no answer.
        """
        if self.host is None:
            raise RequestError(
                path="ask",
                detail="Cannot ask the user: the caller does not take questions.",
                stage=Stage.EXECUTE,
            )
        with self._stand_still():
            return await self.host.ask(questions)

    @property
    def asked_seconds(self) -> float:
        """How long answers have been waited for until now."""
        since = 0.0 if self._asking_since is None else time.monotonic() - self._asking_since
        return self._asked_seconds + since

    @contextmanager
    def _stand_still(self) -> Iterator[None]:
        # Of questions that overlap the first begins, and the last ends: time counts once.
        if not self._asking:
            self._asking_since = time.monotonic()
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self._asked_seconds = self.asked_seconds
                self._asking_since = None

    def _deliver(self, say: Callable[[], None]) -> None:
        if self._loop is None or _access_loop() is self._loop:
            say()
            return
        try:
            self._loop.call_soon_threadsafe(say)
        except RuntimeError:
            return  # the loop has ended meanwhile, and with it whoever listened


def _tell_amount(text: str, done: float | None, total: float | None) -> str:
    if done is None:
        return text
    amount = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return f"{amount}: {text}" if text else amount
