"""Several processes that serve one port, and the one that watches over them.

The sockets are opened once and inherited: what waits for a worker that dies is taken by the next.
Workers are forked: they begin with what was imported and read already, and each makes an
application of its own. ``processes`` is for strangers' programs, which it hides our sockets from.
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
"""What a worker does; it is given where it listens, and what tells that it is ready."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_READY: Final = b"\0"
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 10.0
_SETTLED_SECONDS: Final = 30.0
"""Who lived so long did not die of how it began."""

_KILL_SECONDS: Final = 15.0
"""How long above its own bounds a worker may take to end."""

_ORPHANED_SECONDS: Final = 8.0
"""How long a worker may go on when nobody watches over it any more."""


@define
class _Worker:
    """One worker.

    Attributes:
        sockets: Where it listens.
        process: 0 where it is to be begun, again or at all.
        told: The end of a pipe that says that it is ready, or why not.
        words: What it has said.
        began: When.
        pause_seconds: How long to wait before the next time.
    """

    sockets: Sequence[socket.socket]
    process: int = 0
    told: int = -1
    words: bytes = b""
    began: float = 0.0
    is_ready: bool = False
    pause_seconds: float = 0.0


class Supervisor:
    """Begins workers, begins those again that die, and ends all of them.

    Args:
        shares: The sockets of each; closed as soon as it is enough.
        live: What each does.
        drain_seconds: How long one may take to end.
        on_ready: Is called as soon as all are ready for the first time.
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
        """Does all of that until a signal says that it is enough.

        Raises:
            ConverseError: A worker cannot begin at all.
        """
        # A worker holds one end and sees when nobody holds the other any more.
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
        # Else one that came before the worker is itself would be lost on it.
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
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is served by a loop
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(self._lifeline[1])
        for other in self._workers:
            if other.told >= 0:
                os.close(other.told)
            if other.sockets is not worker.sockets:
                _close(other.sockets)
        # An interrupt at the terminal is the supervisor's to hand on, once.
        os.setpgid(0, 0)

    def _wait(self, inbox: int) -> None:
        """Waits until something happens, or is due."""
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
                _close(worker.sockets)  # nobody is to wait there any more
            self._kill_due = time.monotonic() + self._drain_seconds + _KILL_SECONDS
            self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.process:
                os.kill(worker.process, number)  # one that is dead waits to be reaped

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
        """Is told that a worker has ended: another takes its place, unless it could not begin."""
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
    """Lives as a worker; returns the status of the process."""
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
    """Ends this process when nobody watches over it any more; first as a signal would, twice."""
    os.read(lifeline, 1)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
    time.sleep(_ORPHANED_SECONDS)
    os._exit(1)


@contextlib.contextmanager
def _hear_signals() -> Iterator[int]:
    """Gives what the numbers of signals are read from, and puts back what was."""
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
