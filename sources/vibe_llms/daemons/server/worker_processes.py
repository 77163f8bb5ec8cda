"""Worker processes that serve one port, and their supervisor.

The sockets are opened once and inherited: connections that wait for a worker that dies are
accepted by the next. Workers are forked: they start with everything that was imported and read
before, and each creates its own application. ``processes`` is for foreign programs, which must not
inherit our sockets.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.attrs_classes import define

_logger = logging.getLogger(__name__)

Live: TypeAlias = Callable[[Sequence[socket.socket], Callable[[], object]], None]
"""Main function of a worker; takes its sockets, and a function that reports that it is ready."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_READY: Final = b"\0"
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 10.0
_SETTLED_SECONDS: Final = 30.0
"""Lifetime after which a worker's death is not caused by its start."""

_KILL_SECONDS: Final = 15.0
"""Time that a worker may take to end beyond its own timeouts."""

_ORPHANED_SECONDS: Final = 8.0
"""Time that a worker may continue after its supervisor has died."""


@define
class _Worker:
    """State of one worker.

    Attributes:
        sockets: Its listening sockets.
        process: Process id; 0 if it has to be started or restarted.
        told: Read end of a pipe on which it reports that it is ready, or why not.
        words: Output received from the pipe.
        began: Time of its start.
        pause_seconds: Pause before the next restart.
    """

    sockets: Sequence[socket.socket]
    process: int = 0
    told: int = -1
    words: bytes = b""
    began: float = 0.0
    is_ready: bool = False
    pause_seconds: float = 0.0


class Supervisor:
    """Supervisor that starts workers, restarts those that die, and stops all of them.

    Args:
        shares: Sockets of each worker; closed at the start of the shutdown.
        live: Main function of each worker.
        drain_seconds: Time that a worker may take to end.
        on_ready: Called as soon as all workers are ready for the first time.
    """

    def __init__(
        self,
        shares: Sequence[Sequence[socket.socket]],
        live: Live,
        *,
        drain_seconds: float,
        on_ready: Callable[[], object],
    ) -> None:
        self._workers = [_Worker(share) for share in shares]
        self._live = live
        self._drain_seconds = drain_seconds
        self._on_ready = on_ready
        self._has_begun = False
        self._asked = False
        self._kill_due = 0.0
        self._lifeline = (-1, -1)

    def run(self) -> None:
        """Supervise the workers until a signal requests the shutdown.

        Raises:
            ConverseError: A worker cannot start at all.
        """
        # A worker holds one end, and detects when no process holds the other.
        self._lifeline = os.pipe()
        try:
            with _hear_signals() as inbox:
                while not (self._asked and self._are_gone):
                    self._begin_missing()
                    self._wait(inbox)
                    self._reap()
        finally:
            for worker in self._workers:
                if worker.process:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(worker.process, signal.SIGKILL)
                    os.waitpid(worker.process, 0)
                if worker.told >= 0:
                    os.close(worker.told)
            for end in self._lifeline:
                os.close(end)

    @property
    def _are_gone(self) -> bool:
        return not any(worker.process for worker in self._workers)

    def _begin_missing(self) -> None:
        now = time.monotonic()
        for worker in self._workers:
            if not worker.process and not self._asked and now >= worker.began:
                self._begin(worker)

    def _begin(self, worker: _Worker) -> None:
        reading, writing = os.pipe()
        # Otherwise a signal that arrives before the worker has its own handlers would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        process = os.fork()
        if process == 0:
            status = 1
            try:
                os.close(reading)
                self._become(worker)
                status = _live_within(
                    lambda tell: self._live(worker.sockets, tell), writing, self._lifeline[0]
                )
            finally:
                os._exit(status)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(writing)
        os.set_blocking(reading, False)
        worker.process, worker.told, worker.words = process, reading, b""
        worker.began, worker.is_ready = time.monotonic(), False

    def _become(self, worker: _Worker) -> None:
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until an event loop handles it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(self._lifeline[1])
        for other in self._workers:
            if other.told >= 0:
                os.close(other.told)
            if other.sockets is not worker.sockets:
                _close(other.sockets)
        # The supervisor forwards an interrupt at the terminal, once.
        os.setpgid(0, 0)

    def _wait(self, inbox: int) -> None:
        """Wait until an event occurs, or an action is due."""
        told = {worker.told: worker for worker in self._workers if worker.told >= 0}
        ready, _, _ = select.select([inbox, *told], [], [], self._find_patience())
        for end in ready:
            if end == inbox:
                for number in os.read(inbox, 256):
                    self._hear(signal.Signals(number))
            else:
                self._listen(told[end])
        if self._asked and time.monotonic() > self._kill_due:
            self._send(signal.SIGKILL)

    def _find_patience(self) -> float | None:
        now = time.monotonic()
        dues = [worker.began for worker in self._workers if not worker.process and not self._asked]
        if self._asked:
            dues.append(self._kill_due + 0.1)
        return max(0.0, min(dues) - now) if dues else None

    def _hear(self, number: signal.Signals) -> None:
        if number is signal.SIGHUP:
            self._send(number)
        elif number is not signal.SIGCHLD:
            self._asked = True
            for worker in self._workers:
                _close(worker.sockets)  # no further connections may wait there
            self._kill_due = time.monotonic() + self._drain_seconds + _KILL_SECONDS
            self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.process:
                os.kill(worker.process, number)  # a dead process still exists until it is reaped

    def _listen(self, worker: _Worker) -> None:
        data = os.read(worker.told, 65_536)
        if not data:
            os.close(worker.told)
            worker.told = -1
        worker.words += data
        if worker.words.startswith(_READY):
            worker.is_ready = True
            if not self._has_begun and all(each.is_ready for each in self._workers):
                self._has_begun = True
                self._on_ready()

    def _reap(self) -> None:
        for worker in self._workers:
            if not worker.process:
                continue
            process, status = os.waitpid(worker.process, os.WNOHANG)
            if process:
                worker.process = 0
                self._bury(worker, os.waitstatus_to_exitcode(status))

    def _bury(self, worker: _Worker, status: int) -> None:
        """Handle the end of a worker: schedule its restart, unless the first start failed."""
        while worker.told >= 0:
            self._listen(worker)
        if self._asked:
            return
        words = worker.words.removeprefix(_READY).decode("utf-8", "replace")
        if not self._has_begun:
            raise ConverseError(
                detail=words or f"A worker process ended during its start, with status {status}.",
                stage=Stage.CONFIGURE,
            )
        lived = time.monotonic() - worker.began
        longer = max(_FIRST_PAUSE_SECONDS, min(2 * worker.pause_seconds, _LONGEST_PAUSE_SECONDS))
        worker.pause_seconds = 0.0 if lived > _SETTLED_SECONDS else longer
        worker.began = time.monotonic() + worker.pause_seconds
        why = f"{words or 'it did not say why'} (status {status})"
        _logger.error("A worker process ended and is restarted: %s", why)


def _close(sockets: Sequence[socket.socket]) -> None:
    for listening in sockets:
        listening.close()


def _live_within(live: Callable[[Callable[[], object]], None], told: int, lifeline: int) -> int:
    """Run as a worker; return the exit status of the process."""
    threading.Thread(target=_watch, args=(lifeline,), daemon=True).start()
    try:
        live(lambda: os.write(told, _READY))
    except ConverseError as error:
        os.write(told, str(error).encode()[:60_000])
        return 1
    except Exception as error:
        _logger.error("A worker process failed", exc_info=error)
        return 1
    return 0


def _watch(lifeline: int) -> None:
    """End this process when its supervisor dies; first as two signals would, then by force."""
    os.read(lifeline, 1)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
    time.sleep(_ORPHANED_SECONDS)
    os._exit(1)


@contextlib.contextmanager
def _hear_signals() -> Iterator[int]:
    """Yield a pipe with the numbers of received signals; restore the handlers at the end."""
    inbox, outbox = os.pipe()
    os.set_blocking(inbox, False)
    os.set_blocking(outbox, False)
    before = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
    wakeup = signal.set_wakeup_fd(outbox)
    try:
        yield inbox
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(inbox)
        os.close(outbox)
