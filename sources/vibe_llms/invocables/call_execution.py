"""Execution of a call: within its limits, whatever the function does, and always with an outcome.

Asynchronous functions run in a task, which is cancelled; plain ones in a thread, which cannot be
stopped: one that exceeds its time is abandoned and informed, keeps its place among the limited
number of threads, and is not waited for, not even at exit.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
import threading
import time
from collections.abc import Awaitable
from typing import Any, Final, TypeAlias

import attrs

from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.argument_faults import Misfit, explain_faults, list_faults
from vibe_llms.invocables.bindings import Bound
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.eagerness import begin
from vibe_llms.invocables.gates import Gate, GateBlockedError, Gates
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.outcomes import Outcome, fail, limit_outcome
from vibe_llms.invocables.threads import submit

_logger = logging.getLogger(__name__)

THREADS_LIMIT: Final = 32
"""Maximum number of concurrent plain functions in one event loop."""

GRACE_SECONDS: Final = 5.0
"""Grace period of a cancelled function."""

_Ended: TypeAlias = Outcome | KeyboardInterrupt

_ERROR_CHARACTERS: Final = 4_000
_threads: Final = Gates(THREADS_LIMIT)


class Interrupted(Exception):
    """KeyboardInterrupt in an asynchronous function, on its way to the caller.

    A task that raises KeyboardInterrupt itself would end the event loop immediately, and the caller
    would see only a cancellation.
    """


async def perform(invoker: Invoker, arguments: JsonObject, context: InvocationContext) -> Outcome:
    """Execute one call, and cancel it when this is cancelled.

    Args:
        arguments: As the model wrote them; they are checked against the schema here.

    Returns:
        The outcome. Invalid arguments, an exception of the function, and a reached limit are
        outcomes too, in words that the model can act on.

    Raises:
        KeyboardInterrupt: An asynchronous function was interrupted (Ctrl-C) in the main thread.
    """
    try:
        faults = await invoker.examine(arguments)
    except ConverseError as error:
        return fail(str(error))
    if faults:
        return fail(explain_faults(invoker.name, faults))
    try:
        return await perform_fitting(invoker, arguments, context)
    except Interrupted:
        raise KeyboardInterrupt from None


async def perform_fitting(
    invoker: Invoker, arguments: JsonObject, context: InvocationContext
) -> Outcome:
    """Execute as :func:`perform` does, with arguments that are known to fit the schema.

    Raises:
        Interrupted: An asynchronous function was interrupted (Ctrl-C) in the main thread.
    """
    bound = _bind(invoker, arguments, context)
    if isinstance(bound, Outcome):
        return bound
    is_plain = not invoker.is_asynchronous
    held = _HeldGates(invoker, is_plain)
    try:
        await held.acquire()
    except GateBlockedError:
        return fail(
            f"{invoker.name} cannot be executed now: earlier calls exceeded their time limit "
            "and are still running. Continue without it."
        )
    run = _run_in_thread if is_plain else _run
    task = begin(run(invoker, bound, held))
    # A task's callbacks run a turn of the loop later, and until then the next call would find no
    # place.
    if task.done():  # it never waited
        held.leave()
    else:
        task.add_done_callback(held.end_task)
    try:
        outcome = await _watch(task, invoker, held, context)
    finally:
        context.cancel()
    if isinstance(outcome, KeyboardInterrupt):
        raise Interrupted from outcome
    if invoker.output_schema is not None and not outcome.is_error:
        outcome = await _check_result(invoker, outcome)
    return limit_outcome(outcome, invoker.output_limit_characters, invoker.output_limit_bytes)


async def _check_result(invoker: Invoker, outcome: Outcome) -> Outcome:
    """Check the structured result against the output schema."""
    try:
        faults = await invoker.examine_result(outcome.structured)
    except ConverseError as error:
        return fail(f"{invoker.name} was executed, but its result cannot be checked. {error}")
    if not faults:
        return outcome
    said = f"{invoker.name} was executed, but its result does not match its own schema:"
    return fail(said + list_faults(faults))


def _bind(invoker: Invoker, arguments: JsonObject, context: InvocationContext) -> Bound | Outcome:
    try:
        return invoker.bind(arguments, context)
    except Misfit as misfit:
        return fail(explain_faults(invoker.name, misfit.faults))
    except ConverseError as error:
        return fail(str(error))
    except Exception as error:
        return fail(f"Invalid arguments of {invoker.name}: {_tell(error)}")


@define(eq=False)
class _HeldGates:
    """Places that an execution holds until it has really ended: of its invoker, and of the threads.

    Attributes:
        in_thread: A thread is at work, and its end counts; else the end of the task.
        is_given_up: The execution was abandoned, and still runs.
    """

    _invoker: Invoker
    _is_plain: bool
    in_thread: bool = attrs.field(default=False, init=False)
    is_given_up: bool = attrs.field(default=False, init=False)
    _held: list[Gate] = attrs.field(factory=list, init=False)

    async def acquire(self) -> None:
        """Acquire all gates. Raise GateBlockedError if none will become free."""
        # The invoker first: a call that waits for a busy invoker must not hold a thread.
        wanted = [self._invoker.gates] if self._invoker.gates is not None else []
        if self._is_plain:
            wanted.append(_threads)
        try:
            for gates in wanted:
                gate = gates.access()
                await gate.acquire()
                self._held.append(gate)
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Release the gates; to be called in the event loop."""
        for gate in self._held:
            if self.is_given_up:
                gate.recover()
            else:
                gate.release()
        self._held.clear()

    def end_task(self, task: asyncio.Future[_Ended]) -> None:
        """Release the gates at the end of the task, if no thread is at work."""
        if not self.in_thread:
            self.leave()

    def give_up(self) -> None:
        """Mark the execution as abandoned and still running."""
        if not self.is_given_up:
            self.is_given_up = True
            for gate in self._held:
                gate.give_up()


async def _watch(
    task: asyncio.Future[_Ended],
    invoker: Invoker,
    held: _HeldGates,
    context: InvocationContext,
) -> _Ended:
    """Wait for an execution within its time limit; stop it on a timeout or a cancellation."""
    try:
        if not task.done():
            await _wait(task, invoker.time_limit_seconds, context)
    except asyncio.CancelledError:
        await _stop(task, invoker, held, context)
        raise
    is_late = not task.done()
    if is_late:
        await _stop(task, invoker, held, context)
    if task.done() and not task.cancelled():
        return task.result()  # also of a late one that ended while it was stopped
    if not is_late:
        return fail(f"{invoker.name} cancelled itself.")
    return fail(_explain_time(invoker, held.is_given_up))


async def _wait(
    task: asyncio.Future[_Ended], seconds: float | None, context: InvocationContext
) -> None:
    """Wait for a time, excluding the time in which the caller is asked a question."""
    begun = time.monotonic()
    left = seconds
    while not task.done() and (left is None or left > 0):
        # Not wait_for, which waits without limit for a task that ignores its cancellation.
        await asyncio.wait((task,), timeout=left)
        if seconds is not None:
            left = seconds + context.asked_seconds - (time.monotonic() - begun)


async def _stop(
    task: asyncio.Future[_Ended], invoker: Invoker, held: _HeldGates, context: InvocationContext
) -> None:
    """Cancel an execution, and abandon it if it does not end."""
    context.cancel()
    task.cancel()
    try:
        await asyncio.wait((task,), timeout=GRACE_SECONDS)
    finally:
        if not task.done():
            held.give_up()
    if held.is_given_up:
        _logger.warning("The invocable %s keeps running although it was stopped.", invoker.name)


def _explain_time(invoker: Invoker, goes_on: bool) -> str:
    text = f"{invoker.name} exceeded its time limit of {invoker.time_limit_seconds:g} seconds"
    text += ", and cannot be stopped." if goes_on else ", and was stopped."
    return text if invoker.effect is Effect.PURE else f"{text} It may have taken effect."


async def _run(invoker: Invoker, bound: Bound, held: _HeldGates) -> _Ended:
    return await _await(invoker, invoker.function(*bound.positional, **bound.named))


async def _await(invoker: Invoker, awaitable: Awaitable[Any]) -> _Ended:
    """Await a function; an exception becomes an outcome, too."""
    try:
        value = await awaitable
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        # Signals arrive in the main thread. Elsewhere it is an exception like any other.
        if isinstance(error, KeyboardInterrupt) and _is_main_thread():
            return error
        return _explain_failure(invoker, error)
    return _conclude(invoker, value)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


async def _run_in_thread(invoker: Invoker, bound: Bound, held: _HeldGates) -> _Ended:
    """Run a plain function in a thread; an awaitable result is awaited in the loop."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Outcome | Awaitable[Any]] = loop.create_future()

    def deliver(result: Outcome | Awaitable[Any]) -> None:
        held.in_thread = False
        if not ended.done():
            ended.set_result(result)
            return
        held.leave()
        if inspect.iscoroutine(result):
            # Else Python warns of a coroutine that was never awaited.
            result.close()

    def work() -> None:
        result = _call(invoker, bound)
        try:
            loop.call_soon_threadsafe(deliver, result)
        except RuntimeError:
            return  # the loop has ended without waiting

    try:
        submit(functools.partial(contextvars.copy_context().run, work))
    except RuntimeError as error:
        return _explain_failure(invoker, error)
    # Not too late: deliver comes through the loop, and so after this.
    held.in_thread = True
    try:
        result = await ended
    except asyncio.CancelledError:
        held.give_up()
        raise
    if isinstance(result, Outcome):
        return result
    return await _await(invoker, result)


def _call(invoker: Invoker, bound: Bound) -> Outcome | Awaitable[Any]:
    try:
        value = invoker.function(*bound.positional, **bound.named)
        if inspect.isawaitable(value):
            return value
    except BaseException as error:  # an exception must not end the thread silently
        return _explain_failure(invoker, error)
    return _conclude(invoker, value)


def _conclude(invoker: Invoker, value: Any) -> Outcome:
    """Create an outcome from a function's result, even if the result cannot be converted."""
    try:
        return invoker.conclude(value)
    except BaseException as error:  # raised by the value's own methods
        return fail(
            f"{invoker.name} was executed, but its result cannot be converted: {_tell(error)}"
        )


def _explain_failure(invoker: Invoker, error: BaseException) -> Outcome:
    _logger.debug("The invocable %s failed.", invoker.name, exc_info=error)
    return fail(f"{invoker.name} failed: {_tell(error)}")


def _tell(error: BaseException) -> str:
    """Return the message of an error, limited; some errors cannot even be printed."""
    try:
        text = str.__str__(str(error))
    except BaseException:  # raised by the error's own method
        text = ""
    if not isinstance(error, ConverseError):
        name = type.__dict__["__name__"].__get__(type(error))  # a metaclass may override it
        text = f"{name}: {text}" if text else name
    return text if len(text) <= _ERROR_CHARACTERS else f"{text[:_ERROR_CHARACTERS]} …"
