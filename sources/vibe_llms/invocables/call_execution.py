"""Execution of a call, within its limits and always with an outcome.

An asynchronous function runs in a task, which is cancelled at the time limit. A plain function runs
in a thread, which cannot be stopped: at the time limit the thread is abandoned, and only the call's
context reports the cancellation. Such a thread counts towards the limit of threads until it ends,
but nothing waits for it, not even the exit of the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.argument_faults import Misfit, explain_faults, write_fault_lines
from vibe_llms.invocables.bindings import Bound
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.eagerness import start_eagerly
from vibe_llms.invocables.gates import Gate, GateBlockedError, Gates
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.outcomes import Outcome, fail, limit_outcome
from vibe_llms.invocables.threads import submit
from vibe_llms.messages.contents import TextualContent

if TYPE_CHECKING:
    from vibe_llms.guards.arguments import ArgumentGuard

_logger = logging.getLogger(__name__)

THREADS_LIMIT: Final = 32
"""Maximum number of concurrent plain functions in one event loop."""

GRACE_SECONDS: Final = 5.0
"""Grace period of a cancelled function."""

_Result: TypeAlias = Outcome | KeyboardInterrupt

_ERROR_CHARACTERS: Final = 4_000
_threads: Final = Gates(THREADS_LIMIT)


class Interrupted(Exception):
    """KeyboardInterrupt in an asynchronous function, on its way to the caller.

    A task that raises KeyboardInterrupt itself would end the event loop immediately, and the caller
    would see only a cancellation.
    """


async def perform(invoker: Invoker, arguments: JsonObject, context: InvocationContext) -> Outcome:
    """Execute one call; a cancellation cancels the execution, too.

    Args:
        arguments: The model's arguments, not yet validated.

    Returns:
        The outcome. Invalid arguments, an exception of the function, and a reached limit are
        outcomes too, in words with which the model can continue.

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
        return await perform_validated(invoker, arguments, context)
    except Interrupted:
        raise KeyboardInterrupt from None


def perform_validated(
    invoker: Invoker, arguments: JsonObject, context: InvocationContext
) -> Coroutine[Any, Any, Outcome]:
    """Execute a call as :func:`perform` does, with arguments that match the schema.

    Raises:
        Interrupted: An asynchronous function was interrupted (Ctrl-C) in the main thread.
    """
    if invoker.guard is None:
        return _perform(invoker, arguments, context)
    return _perform_guarded(invoker, invoker.guard, arguments, context)


async def _perform_guarded(
    invoker: Invoker, guard: ArgumentGuard, arguments: JsonObject, context: InvocationContext
) -> Outcome:
    """Execute a call with the arguments that the guards let pass, and tell the model of changes."""
    try:
        guarded = await guard.examine(invoker.name, arguments)
        faults = await invoker.examine(guarded.value) if guarded.losses else ()
    except ConverseError as error:
        return fail(str(error))
    if faults:
        return fail(explain_faults(invoker.name, faults))
    outcome = await _perform(invoker, guarded.value, context)
    if not guarded.losses:
        return outcome
    reasons = "; ".join(loss.reason for loss in guarded.losses)
    note = TextualContent(f"[executed with other arguments: {reasons}]\n")
    return attrs.evolve(outcome, contents=(note, *outcome.contents))


async def _perform(invoker: Invoker, arguments: JsonObject, context: InvocationContext) -> Outcome:
    bound = _bind(invoker, arguments, context)
    if isinstance(bound, Outcome):
        return bound
    is_plain = not invoker.is_asynchronous
    permits = _Permits(invoker, is_plain)
    try:
        await permits.acquire()
    except GateBlockedError:
        return fail(
            f"{invoker.name} cannot be executed now: earlier calls exceeded their time limit "
            "and are still running. Continue without it."
        )
    run = _run_in_thread if is_plain else _run
    task = start_eagerly(run(invoker, bound, permits))
    # Callbacks run only in the next iteration of the loop; a task that has completed without
    # waiting releases its permits now, for the next call.
    if task.done():
        permits.release()
    else:
        task.add_done_callback(permits.end_task)
    try:
        outcome = await _watch(task, invoker, permits, context)
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
    problem = f"{invoker.name} was executed, but its result does not match its own schema:"
    return fail(problem + write_fault_lines(faults))


def _bind(invoker: Invoker, arguments: JsonObject, context: InvocationContext) -> Bound | Outcome:
    try:
        return invoker.bind(arguments, context)
    except Misfit as misfit:
        return fail(explain_faults(invoker.name, misfit.faults))
    except ConverseError as error:
        return fail(str(error))
    except Exception as error:
        return fail(f"Invalid arguments of {invoker.name}: {_describe_error(error)}")


@define(eq=False)
class _Permits:
    """Concurrency permits that an execution holds until its end: of its invoker, and for a thread.

    Attributes:
        in_thread: True while a thread executes the function; then the end of the thread releases
            the permits, otherwise the end of the task.
        is_abandoned: True if the execution was abandoned but still runs.
    """

    _invoker: Invoker
    _is_plain: bool
    in_thread: bool = attrs.field(default=False, init=False)
    is_abandoned: bool = attrs.field(default=False, init=False)
    _gates: list[Gate] = attrs.field(factory=list, init=False)

    async def acquire(self) -> None:
        """Wait for all permits. Raise GateBlockedError if one will not become available."""
        # The invoker's first: a call that waits for a busy invoker must not occupy a thread.
        limits = [self._invoker.gates] if self._invoker.gates is not None else []
        if self._is_plain:
            limits.append(_threads)
        try:
            for gates in limits:
                gate = gates.access()
                await gate.acquire()
                self._gates.append(gate)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the permits; to be called in the event loop."""
        for gate in self._gates:
            if self.is_abandoned:
                gate.recover()
            else:
                gate.release()
        self._gates.clear()

    def end_task(self, task: asyncio.Future[_Result]) -> None:
        """Release the permits at the end of the task, unless a thread executes the function."""
        if not self.in_thread:
            self.release()

    def abandon(self) -> None:
        """Mark the execution as abandoned and still running."""
        if not self.is_abandoned:
            self.is_abandoned = True
            for gate in self._gates:
                gate.abandon()


async def _watch(
    task: asyncio.Future[_Result],
    invoker: Invoker,
    permits: _Permits,
    context: InvocationContext,
) -> _Result:
    """Wait for an execution within its time limit; on a timeout or a cancellation, stop it."""
    try:
        if not task.done():
            await _wait(task, invoker.time_limit_seconds, context)
    except asyncio.CancelledError:
        await _stop(task, invoker, permits, context)
        raise
    is_late = not task.done()
    if is_late:
        await _stop(task, invoker, permits, context)
    if task.done() and not task.cancelled():
        return task.result()  # even if the execution ended only while it was being stopped
    if not is_late:
        return fail(f"{invoker.name} cancelled itself.")
    return fail(_explain_timeout(invoker, is_running=permits.is_abandoned))


async def _wait(
    task: asyncio.Future[_Result], seconds: float | None, context: InvocationContext
) -> None:
    """Wait for an execution, not counting the time in which the caller is asked a question."""
    started_at = time.monotonic()
    remaining = seconds
    while not task.done() and (remaining is None or remaining > 0):
        # Not asyncio.wait_for, which waits endlessly for a task that ignores its cancellation.
        await asyncio.wait((task,), timeout=remaining)
        if seconds is not None:
            remaining = seconds + context.asked_seconds - (time.monotonic() - started_at)


async def _stop(
    task: asyncio.Future[_Result], invoker: Invoker, permits: _Permits, context: InvocationContext
) -> None:
    """Cancel an execution; abandon it if it does not end."""
    context.cancel()
    task.cancel()
    try:
        await asyncio.wait((task,), timeout=GRACE_SECONDS)
    finally:
        if not task.done():
            permits.abandon()
    if permits.is_abandoned:
        _logger.warning("The invocable %s keeps running although it was stopped.", invoker.name)


def _explain_timeout(invoker: Invoker, *, is_running: bool) -> str:
    text = f"{invoker.name} exceeded its time limit of {invoker.time_limit_seconds:g} seconds"
    text += ", and cannot be stopped." if is_running else ", and was stopped."
    return text if invoker.effect is Effect.PURE else f"{text} It may have taken effect."


async def _run(invoker: Invoker, bound: Bound, permits: _Permits) -> _Result:
    return await _await(invoker, invoker.function(*bound.positional, **bound.named))


async def _await(invoker: Invoker, awaitable: Awaitable[Any]) -> _Result:
    """Await the result of a function; turn it, or an exception, into an outcome."""
    try:
        value = await awaitable
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        # Signals arrive in the main thread. In other threads it is an ordinary exception.
        if isinstance(error, KeyboardInterrupt) and _is_main_thread():
            return error
        return _explain_failure(invoker, error)
    return _conclude(invoker, value)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


async def _run_in_thread(invoker: Invoker, bound: Bound, permits: _Permits) -> _Result:
    """Run a plain function in a thread; an awaitable result is awaited in the loop."""
    loop = asyncio.get_running_loop()
    delivered: asyncio.Future[Outcome | Awaitable[Any]] = loop.create_future()

    def deliver(result: Outcome | Awaitable[Any]) -> None:
        permits.in_thread = False
        if not delivered.done():
            delivered.set_result(result)
            return
        permits.release()
        if inspect.iscoroutine(result):
            # Otherwise Python warns of a coroutine that was never awaited.
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
    # The thread cannot have reset this yet: the loop calls deliver only during the next await.
    permits.in_thread = True
    try:
        result = await delivered
    except asyncio.CancelledError:
        permits.abandon()
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
    except BaseException as error:  # raised by methods of the value
        return fail(
            f"{invoker.name} was executed, but its result cannot be converted: "
            f"{_describe_error(error)}"
        )


def _explain_failure(invoker: Invoker, error: BaseException) -> Outcome:
    _logger.debug("The invocable %s failed.", invoker.name, exc_info=error)
    return fail(f"{invoker.name} failed: {_describe_error(error)}")


def _describe_error(error: BaseException) -> str:
    """Return the message of an error, shortened; printing an error can itself raise one."""
    try:
        text = str.__str__(str(error))
    except BaseException:  # raised by a method of the error
        text = ""
    if not isinstance(error, ConverseError):
        name = type.__dict__["__name__"].__get__(type(error))  # a metaclass may override it
        text = f"{name}: {text}" if text else name
    return text if len(text) <= _ERROR_CHARACTERS else f"{text[:_ERROR_CHARACTERS]} …"
