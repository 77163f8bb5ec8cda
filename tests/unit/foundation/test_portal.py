"""The portal through which synchronous code runs the asynchronous code."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.gateways.gateways import wait_until
from vibe_llms.exceptions import ConverseError, LimitError
from vibe_llms.foundation.portal import (
    Portal,
    _Abandoned,
    access_portal,
    close_portal,
    finish,
    run_outside_loop,
)

SOURCES = Path(__file__).resolve().parents[2] / "sources"


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.close()


async def double(value: int) -> int:
    await asyncio.sleep(0)
    return 2 * value


def run_program(text: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of its own, with every warning an error, and returns what came of it."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        check=False,
    )


def test_a_call_returns_what_the_function_returns(portal: Portal) -> None:
    """Synchronous code gets the result of asynchronous code."""
    assert portal.call(lambda: double(21)) == 42


def test_a_call_raises_what_the_function_raises(portal: Portal) -> None:
    """An error behind the portal is the same object in front of it."""
    error = LimitError(limit="max_events", value=3)

    async def fail() -> None:
        raise error

    with pytest.raises(LimitError) as caught:
        portal.call(fail)

    assert caught.value is error


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("is_late", [False, True])
def test_what_would_end_a_program_is_raised_to_the_caller(
    portal: Portal, kind: type[BaseException], is_late: bool
) -> None:
    """The loop goes on for all others."""

    async def leave() -> None:
        if is_late:
            await asyncio.sleep(0)
        raise kind

    with pytest.raises(kind):
        portal.call(leave)
    assert portal.call(lambda: double(21)) == 42


def test_many_threads_share_one_loop(portal: Portal) -> None:
    """What one thread opened another can use, because all calls meet in one loop."""

    async def access_loop(number: int) -> tuple[int, int]:
        await asyncio.sleep(0)
        return number, id(asyncio.get_running_loop())

    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(portal.call, lambda n=n: access_loop(n)) for n in range(100)]
        outcomes = [call.result() for call in calls]

    assert [number for number, _ in outcomes] == list(range(100))
    assert len({loop for _, loop in outcomes}) == 1


async def test_it_works_where_the_calling_thread_already_runs_a_loop(portal: Portal) -> None:
    """A notebook, whose thread runs a loop of its own, can use the synchronous face."""
    assert portal.call(lambda: double(4)) == 8


def test_a_call_from_behind_the_portal_is_refused(portal: Portal) -> None:
    """Code behind the portal that called in would wait for itself, so it is told so."""

    async def call_again() -> int:
        return portal.call(lambda: double(1))

    with pytest.raises(ConverseError, match="from inside its own event loop"):
        portal.call(call_again)


def test_an_interrupt_cancels_and_waits_for_the_cleaning_up(portal: Portal) -> None:
    """After Ctrl-C the function has been cancelled, and what it does to clean up has ended."""
    steps: list[str] = []

    async def wait() -> None:
        steps.append("started")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            for _ in range(20):
                await asyncio.sleep(0.001)
            steps.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        portal.call(wait)

    assert steps == ["started", "cleaned up"]
    assert portal.call(lambda: double(1)) == 2


def test_an_error_in_the_cleaning_up_after_an_interrupt_is_not_reported_twice() -> None:
    """The interrupt is what the caller learns; the loop does not complain behind its back."""
    outcome = run_program("""
        import asyncio, gc, signal, threading
        from vibe_llms.foundation.portal import access_portal

        async def wait():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            try:
                await asyncio.sleep(60)
            finally:
                raise OSError("in the cleaning up")

        try:
            access_portal().call(wait)
        except KeyboardInterrupt:
            print("interrupted")
        gc.collect()
    """)

    assert (outcome.stdout, outcome.stderr, outcome.returncode) == ("interrupted\n", "", 0)


def test_closing_cancels_what_runs_and_says_so_to_whoever_waits(portal: Portal) -> None:
    """A caller does not wait for ever when another thread closes the portal."""
    started = threading.Event()

    async def wait() -> None:
        started.set()
        await asyncio.sleep(60)

    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(portal.call, wait)
        started.wait()
        portal.close()

        with pytest.raises(ConverseError, match="closed"):
            call.result()


def test_a_closed_portal_refuses_calls(portal: Portal) -> None:
    """A call after the end fails at once instead of waiting for ever."""
    portal.close()
    portal.close()

    with pytest.raises(ConverseError, match=r"closed.*access_portal"):
        portal.call(lambda: double(1))


def test_the_portal_of_the_process_is_made_once_and_again_after_closing() -> None:
    """All share one portal, until it is closed; the next use opens a new one."""
    first = access_portal()
    assert access_portal() is first

    close_portal()
    close_portal()
    second = access_portal()

    assert second is not first
    assert second.call(lambda: double(3)) == 6
    close_portal()


def test_a_forked_child_gets_a_portal_of_its_own() -> None:
    """After a fork the child's calls work, the inherited portal refuses, the parent goes on."""
    outcome = run_program("""
        import asyncio, os
        from vibe_llms.foundation.portal import access_portal
        from vibe_llms.exceptions import ConverseError

        async def name():
            await asyncio.sleep(0)
            return os.getpid()

        inherited = access_portal()
        assert inherited.call(name) == os.getpid()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                inherited.call(name)
            except ConverseError:
                status = 0 if access_portal().call(name) == os.getpid() else 2
            os._exit(status)
        _, status = os.waitpid(child, 0)
        assert inherited.call(name) == os.getpid()
        print(os.waitstatus_to_exitcode(status))
    """)

    assert (outcome.stdout, outcome.stderr, outcome.returncode) == ("0\n", "", 0)


def test_a_process_ends_quietly_while_something_still_runs() -> None:
    """The end of the program cancels what runs behind the portal and prints nothing."""
    outcome = run_program("""
        import asyncio, threading
        from vibe_llms.foundation.portal import access_portal
        started = threading.Event()

        async def wait():
            started.set()
            try:
                await asyncio.sleep(60)
            finally:
                print("cleaned up", flush=True)

        def call():
            try:
                access_portal().call(wait)
            except Exception:
                pass

        threading.Thread(target=call, daemon=True).start()
        started.wait()
    """)

    assert (outcome.stdout, outcome.stderr, outcome.returncode) == ("cleaned up\n", "", 0)


@pytest.mark.parametrize("cancellations", [0, 1, 2, 3])
@pytest.mark.parametrize("fails", [False, True])
async def test_work_is_finished_however_often_its_waiter_is_cancelled(
    cancellations: int, fails: bool
) -> None:
    """The work ends by itself; then the cancellation is raised, else what the work brought."""
    is_free, ended = asyncio.Event(), False

    async def work() -> int:
        nonlocal ended
        await is_free.wait()
        ended = True
        if fails:
            raise KeyError
        return 7

    waiting = asyncio.create_task(finish(work()))
    for _ in range(cancellations + 1):
        await asyncio.sleep(0)
        assert not waiting.done()
        if cancellations:
            waiting.cancel()
    is_free.set()
    (outcome,) = await asyncio.gather(waiting, return_exceptions=True)

    assert ended
    if cancellations:
        assert isinstance(outcome, asyncio.CancelledError)
    else:
        assert isinstance(outcome, KeyError) if fails else outcome == 7


async def test_work_that_ends_by_its_own_cancellation_says_so() -> None:
    """Nobody waits for it for ever."""

    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await finish(work())
    assert await finish(asyncio.sleep(0, "done")) == "done"


async def test_long_work_is_performed_beside_the_loop_one_after_the_other() -> None:
    """The loop goes on: the first waits for what the loop does, and the second for the first."""
    may_end, order = threading.Event(), list[str]()

    def wait() -> str:
        order.append("first")
        assert may_end.wait(60)
        order.append("ended")
        return "done"

    first = asyncio.create_task(run_outside_loop(wait))
    second = asyncio.create_task(run_outside_loop(lambda: order.append("second")))
    await wait_until(lambda: order)
    await asyncio.sleep(0.02)
    may_end.set()

    assert await first == "done"
    await second
    assert order == ["first", "ended", "second"]


async def test_what_long_work_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await run_outside_loop(lambda: 1 / 0)


async def test_work_that_nobody_waits_for_ends_and_lets_the_next_begin() -> None:
    """As where a client has left."""
    ended = threading.Event()
    begun = threading.Event()

    def work() -> None:
        begun.set()
        try:
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    task = asyncio.create_task(run_outside_loop(work))
    await wait_until(begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await run_outside_loop(lambda: 5) == 5
    assert ended.is_set()


async def test_work_that_is_abandoned_at_its_very_end_is_not_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an error of a thread, on the standard error of a server."""
    reported: list[object] = []
    threads = threading.active_count()
    monkeypatch.setattr(threading, "excepthook", reported.append)

    def arrive(*_: object) -> None:
        raise _Abandoned

    with monkeypatch.context() as patching:
        patching.setattr(asyncio.get_running_loop(), "call_soon_threadsafe", arrive)
        task = asyncio.create_task(run_outside_loop(lambda: 1))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    while threading.active_count() > threads:  # noqa: ASYNC110  # nobody tells of its end
        await asyncio.sleep(0.01)
    assert not reported
