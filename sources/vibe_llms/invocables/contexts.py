"""Context of a call, for its function: ids, progress, logs and questions."""

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
    from vibe_llms.invocables.questions import Answers, Host, Questions


def _access_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@define(kw_only=True, eq=False)
class InvocationContext:
    """Context of one call, for the function that executes it.

    A function receives it in a parameter of this type, which is hidden from the model.

    Attributes:
        invocation_id: The model's id of the call.
        run_id: Id of the run; empty outside of one.
        subject: Outside of a run, the name of the client as the tools daemon knows it; empty for
            the user of this machine.
        idempotency_key: A key that is equal for all attempts at one call. Pass the key to services
            that support idempotency.
        listener: Called on progress, in the event loop of the context.
        host: The calling program, if it can be asked; else ``None``.
        meta: Further data from that program: MCP's ``_meta``.
        cancelled: True if the result is not needed any longer. A function in a thread cannot be
            stopped from outside, so a long one should check this regularly and return.
    """

    invocation_id: str = ""
    run_id: str = ""
    subject: str = ""
    idempotency_key: str = ""
    listener: Callable[[str], None] | None = attrs.field(default=None, repr=False)
    host: Host | None = attrs.field(default=None, repr=False)
    meta: JsonObject = attrs.field(factory=dict, repr=False)
    _loop: asyncio.AbstractEventLoop | None = attrs.field(
        factory=_access_loop, init=False, repr=False
    )
    cancelled: bool = attrs.field(default=False, init=False)
    _open_questions: int = attrs.field(default=0, init=False, repr=False)
    _first_asked_at: float | None = attrs.field(default=None, init=False, repr=False)
    _asked_seconds: float = attrs.field(default=0.0, init=False, repr=False)

    def cancel(self) -> None:
        """Tell the function that its result is not needed any longer."""
        self.cancelled = True

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Report progress in a few words; from any thread, without waiting.

        Args:
            done: Completed amount, if known; it must not decrease.
            total: Total amount, if known.
        """
        if self.cancelled:
            return
        if self.host is not None:
            self._deliver(partial(self.host.report_progress, text, done, total))
        elif self.listener is not None:
            self._deliver(partial(self.listener, _write_progress(text, done, total)))

    def log(self, data: Any, level: str = "info", logger: str | None = None) -> None:
        """Write into the log of the calling program, if the program reads it.

        Args:
            data: A text, or other plain data.
            level: ``debug``, ``info``, ``notice``, ``warning``, ``error``, ``critical``, ``alert``
                or ``emergency``.
            logger: Name of the logger.
        """
        if self.host is not None and not self.cancelled:
            self._deliver(partial(self.host.log, level, data, logger))

    def can_ask(self, question: JsonObject) -> bool:
        """Return whether the calling program supports this question; see :mod:`.questions`."""
        return self.host is not None and self.host.can_answer(question)

    async def ask(self, questions: Questions) -> Answers:
        """Ask the calling program all questions together; see :mod:`.questions`.

        The time limit of the call is paused until the answers arrive.

        Args:
            questions: The questions by unique names, which the client sees. The user may repeat the
                answer to an earlier question with this name.

        Returns:
            The answers, by the names of the questions.

        Raises:
            RequestError: The calling program cannot be asked.
            ConverseError: No answer was received.
        """
        if self.host is None:
            raise RequestError(
                path="ask",
                detail="Cannot ask the user: the caller does not take questions.",
                stage=Stage.EXECUTE,
            )
        with self._pause_time():
            return await self.host.ask(questions)

    @property
    def asked_seconds(self) -> float:
        """Time spent waiting for answers so far."""
        current = 0.0 if self._first_asked_at is None else time.monotonic() - self._first_asked_at
        return self._asked_seconds + current

    @contextmanager
    def _pause_time(self) -> Iterator[None]:
        # The time of overlapping questions counts once.
        if not self._open_questions:
            self._first_asked_at = time.monotonic()
        self._open_questions += 1
        try:
            yield
        finally:
            self._open_questions -= 1
            if not self._open_questions:
                self._asked_seconds = self.asked_seconds
                self._first_asked_at = None

    def _deliver(self, send: Callable[[], None]) -> None:
        """Call a function in the event loop of the context."""
        if self._loop is None or _access_loop() is self._loop:
            send()
            return
        try:
            self._loop.call_soon_threadsafe(send)
        except RuntimeError:
            return  # the loop has ended, so there are no listeners


def _write_progress(text: str, done: float | None, total: float | None) -> str:
    if done is None:
        return text
    amount = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return f"{amount}: {text}" if text else amount
