"""Worker processes that serve one port, and the supervisor of the processes.

The sockets are opened once and inherited: if a worker dies, its pending connections are accepted
by its successor. Workers are forked: they start with everything that was imported and read before,
and each worker creates an application. The package ``processes`` is for other programs, which must
not inherit the sockets.
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

RunWorker: TypeAlias = Callable[[Sequence[socket.socket], Callable[[], object]], None]
"""Main function of a worker; takes the sockets, and a function to call when it is ready."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_READY: Final = b"\0"
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 10.0
_STABLE_SECONDS: Final = 30.0
"""Lifetime after which a worker that ends is restarted at once: its start was not the cause."""

_KILL_SECONDS: Final = 15.0
"""Time that a worker may take to end, in addition to the timeouts of its requests."""

_ORPHANED_SECONDS: Final = 8.0
"""Time that a worker may continue after its supervisor has died."""


@define
class _Worker:
    """State of one worker.

    Attributes:
        sockets: Its listening sockets.
        process: Process id; 0 if it has to be started or restarted.
        report_pipe: Read end of a pipe on which the worker reports that it is ready, or why not; -1
            if the pipe is closed.
        report: Output received from the pipe.
        started_at: Time of the start, or time from which the worker may be restarted.
        pause_seconds: Pause before the next restart.
    """

    sockets: Sequence[socket.socket]
    process: int = 0
    report_pipe: int = -1
    report: bytes = b""
    started_at: float = 0.0
    is_ready: bool = False
    pause_seconds: float = 0.0


class Supervisor:
    """Supervisor that starts workers, restarts workers that die, and stops all workers.

    Args:
        shares: Sockets of each worker; closed at the start of the shutdown.
        run_worker: Main function of each worker.
        drain_seconds: Time that a worker may take to end.
        on_ready: Called as soon as all workers are ready for the first time.
    """

    def __init__(
        self,
        shares: Sequence[Sequence[socket.socket]],
        run_worker: RunWorker,
        *,
        drain_seconds: float,
        on_ready: Callable[[], object],
    ) -> None:
        self._workers = [_Worker(share) for share in shares]
        self._run_worker = run_worker
        self._drain_seconds = drain_seconds
        self._on_ready = on_ready
        self._has_begun = False
        self._is_stopping = False
        self._kill_due = 0.0
        self._lifeline = (-1, -1)

    def run(self) -> None:
        """Supervise the workers until they have ended after a signal.

        Raises:
            ConverseError: A worker cannot start at all.
        """
        # A worker reads from one end, and gets the end of the stream when the supervisor dies.
        self._lifeline = os.pipe()
        try:
            with _catch_signals() as inbox:
                while not (self._is_stopping and self._have_all_ended):
                    self._begin_missing()
                    self._wait(inbox)
                    self._reap()
        finally:
            for worker in self._workers:
                if worker.process:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(worker.process, signal.SIGKILL)
                    os.waitpid(worker.process, 0)
                if worker.report_pipe >= 0:
                    os.close(worker.report_pipe)
            for end in self._lifeline:
                os.close(end)

    @property
    def _have_all_ended(self) -> bool:
        return not any(worker.process for worker in self._workers)

    def _begin_missing(self) -> None:
        now = time.monotonic()
        for worker in self._workers:
            if not worker.process and not self._is_stopping and now >= worker.started_at:
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
                self._prepare_child(worker)
                status = _run_child(
                    lambda report_ready: self._run_worker(worker.sockets, report_ready),
                    writing,
                    self._lifeline[0],
                )
            finally:
                os._exit(status)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(writing)
        os.set_blocking(reading, False)
        worker.process, worker.report_pipe, worker.report = process, reading, b""
        worker.started_at, worker.is_ready = time.monotonic(), False

    def _prepare_child(self, worker: _Worker) -> None:
        """Reset signal handlers and close foreign files, in a process that was just forked."""
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until an event loop handles it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(self._lifeline[1])
        for other in self._workers:
            if other.report_pipe >= 0:
                os.close(other.report_pipe)
            if other.sockets is not worker.sockets:
                _close(other.sockets)
        # The supervisor forwards an interrupt at the terminal, once.
        os.setpgid(0, 0)

    def _wait(self, inbox: int) -> None:
        """Wait until an event occurs, or an action is due."""
        workers = {each.report_pipe: each for each in self._workers if each.report_pipe >= 0}
        ready, _, _ = select.select([inbox, *workers], [], [], self._find_timeout())
        for end in ready:
            if end == inbox:
                for number in os.read(inbox, 256):
                    self._handle_signal(signal.Signals(number))
            else:
                self._read_report(workers[end])
        if self._is_stopping and time.monotonic() > self._kill_due:
            self._send(signal.SIGKILL)

    def _find_timeout(self) -> float | None:
        """Return the seconds until the next action is due; ``None`` without one."""
        now = time.monotonic()
        dues = [
            worker.started_at
            for worker in self._workers
            if not worker.process and not self._is_stopping
        ]
        if self._is_stopping:
            dues.append(self._kill_due + 0.1)
        return max(0.0, min(dues) - now) if dues else None

    def _handle_signal(self, number: signal.Signals) -> None:
        if number is signal.SIGHUP:
            self._send(number)
        elif number is not signal.SIGCHLD:
            self._is_stopping = True
            for worker in self._workers:
                _close(worker.sockets)  # no further connections may wait there
            self._kill_due = time.monotonic() + self._drain_seconds + _KILL_SECONDS
            self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.process:
                os.kill(worker.process, number)  # a dead process still exists until it is reaped

    def _read_report(self, worker: _Worker) -> None:
        data = os.read(worker.report_pipe, 65_536)
        if not data:
            os.close(worker.report_pipe)
            worker.report_pipe = -1
        worker.report += data
        if worker.report.startswith(_READY):
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
                self._handle_exit(worker, os.waitstatus_to_exitcode(status))

    def _handle_exit(self, worker: _Worker, status: int) -> None:
        """Handle the end of a worker: schedule its restart, unless the first start failed."""
        while worker.report_pipe >= 0:
            self._read_report(worker)
        if self._is_stopping:
            return
        report = worker.report.removeprefix(_READY).decode("utf-8", "replace")
        if not self._has_begun:
            raise ConverseError(
                detail=report or f"A worker process ended during its start, with status {status}.",
                stage=Stage.CONFIGURE,
            )
        lifetime = time.monotonic() - worker.started_at
        longer = max(_FIRST_PAUSE_SECONDS, min(2 * worker.pause_seconds, _LONGEST_PAUSE_SECONDS))
        worker.pause_seconds = 0.0 if lifetime > _STABLE_SECONDS else longer
        worker.started_at = time.monotonic() + worker.pause_seconds
        reason = f"{report or 'no reason was reported'} (status {status})"
        _logger.error("A worker process ended and is restarted: %s", reason)


def _close(sockets: Sequence[socket.socket]) -> None:
    for listening in sockets:
        listening.close()


def _run_child(
    run_worker: Callable[[Callable[[], object]], None], report_pipe: int, lifeline: int
) -> int:
    """Run as a worker; return the exit status of the process."""
    threading.Thread(target=_watch_supervisor, args=(lifeline,), daemon=True).start()
    try:
        run_worker(lambda: os.write(report_pipe, _READY))
    except ConverseError as error:
        os.write(report_pipe, str(error).encode()[:60_000])
        return 1
    except Exception as error:
        _logger.error("A worker process failed", exc_info=error)
        return 1
    return 0


def _watch_supervisor(lifeline: int) -> None:
    """End this process when its supervisor dies: as after two signals, and at last by force."""
    os.read(lifeline, 1)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
    time.sleep(_ORPHANED_SECONDS)
    os._exit(1)


@contextlib.contextmanager
def _catch_signals() -> Iterator[int]:
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
