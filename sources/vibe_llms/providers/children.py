"""Model servers as child processes: started if so configured, and stopped when this process ends.

A watchdog process (see :mod:`vibe_llms.processes`) starts the server. It stops the server when this
process ends, even by a crash, so that the server is never orphaned.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import shutil
import socket
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from vibe_llms.exceptions import ConverseError, DependencyError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.child_environment import strip_keys
from vibe_llms.plugins.specification.users import Progress
from vibe_llms.processes.outputs import OutputLog
from vibe_llms.processes.programs import CHUNK_BYTES, Program

GRACE_SECONDS: Final = 5.0
"""Grace period in seconds for a server to end after it was told to stop."""

_PASSED_KEYS: Final = frozenset(
    {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "LLAMA_API_KEY", "OLLAMA_API_KEY", "VLLM_API_KEY"}
)
"""Keys that are passed to the server: to download models and to authenticate clients."""

_QUIET_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.05


@frozen(kw_only=True)
class ChildSettings:
    """The command of a server, and its health check.

    Attributes:
        name: The provider's name, for messages.
        command: The program and its arguments; ``{port}`` stands for the port to listen on.
        environment: Variables to add to those of this process, from which the keys of other
            services are removed; ``{port}`` is replaced, too.
        health_path: Path that returns status 200 as soon as the server is ready.
        startup_seconds: Maximum time until the server is ready.
        log_path: The file for the server's output.
        remedy: How to install the program if it is missing.
    """

    name: str
    command: tuple[str, ...] = attrs.field(converter=tuple[str, ...])
    environment: Mapping[str, str] = attrs.field(factory=dict)
    health_path: str = "/"
    startup_seconds: float = 60.0
    log_path: Path
    remedy: str = ""


class ChildServer:
    """A server that all callers share, from any thread and event loop.

    Args:
        progress: Notified of a start that takes longer than a second.
    """

    def __init__(self, settings: ChildSettings, progress: Progress) -> None:
        self._settings = settings
        self._progress = progress
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._running: _Running | None = None
        self._restarts = 0

    async def acquire(self) -> str:
        """Return the base URL of the server; start it if it is not running.

        A server that ended is restarted once.

        Raises:
            DependencyError: The program is missing.
            ConverseError: It did not become ready, or ended too often.
        """
        running = self._running
        if running is not None and running.is_alive:
            return running.url
        self._stopped.clear()
        starting = asyncio.ensure_future(asyncio.to_thread(self._ensure_running))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # Let the start continue, as other callers may wait for the server. Retrieve the task's
            # error, so that asyncio does not log the error as unhandled.
            starting.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    async def close(self) -> None:
        """Stop the server and wait for its end.

        May be called again; the server can be started again.
        """
        self._stopped.set()
        await asyncio.to_thread(self.stop)

    def stop(self) -> None:
        """Close like :meth:`close`, but block."""
        self._stopped.set()
        with self._lock:
            running, self._running = self._running, None
            self._restarts = 0
        if running is not None:
            running.stop()

    def _ensure_running(self) -> str:
        # Other callers that need the server wait here.
        with self._lock:
            running = self._running
            if running is not None and running.is_alive:
                return running.url
            if running is not None:
                self._restarts += 1
                if self._restarts > 1:
                    raise self._refuse("has died again", running)
            self._running = None
            started = _Running(self._settings)
            try:
                self._await_health(started)
            except BaseException:
                started.stop()
                raise
            self._running = started
            return started.url

    def _await_health(self, running: _Running) -> None:
        """Wait until the server is healthy; show progress if that takes long."""
        settings = self._settings
        started_at = time.monotonic()
        is_shown = False
        try:
            while not running.is_healthy():
                waited = time.monotonic() - started_at
                if not running.is_alive:
                    raise self._refuse("stopped while it was starting", running)
                if self._stopped.is_set():
                    raise self._refuse("was stopped while it was starting", running)
                if waited > settings.startup_seconds:
                    seconds = f"{settings.startup_seconds:g} seconds"
                    raise self._refuse(f"was not ready within {seconds}", running)
                if not is_shown and waited > _QUIET_SECONDS:
                    self._progress.start(None, f"Starting {settings.command[0]}")
                    is_shown = True
                self._stopped.wait(_POLL_SECONDS)
        finally:
            if is_shown:
                self._progress.finish()

    def _refuse(self, what: str, running: _Running) -> ConverseError:
        lines = running.tail()
        output_note = f" Last output: {' / '.join(lines)}." if lines else ""
        return ConverseError(
            detail=f"The server of {self._settings.name}, {running.command}, {what}.{output_note}",
            remedy=f"Its output is in {self._settings.log_path}.",
            stage=Stage.CONNECT,
        )


class _Running:
    """A started server, and the thread that reads its output."""

    def __init__(self, settings: ChildSettings) -> None:
        program = shutil.which(settings.command[0])
        if program is None:
            raise DependencyError(
                package=settings.command[0],
                detail=f"The program {settings.command[0]!r} is not on the path, and "
                f"[providers.{settings.name}] has start = true.",
                remedy=settings.remedy or "Install it, or set command to its full path.",
            )
        self._port = find_free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._health_path = settings.health_path
        arguments = [self._insert_port(text) for text in settings.command[1:]]
        self.command = " ".join((settings.command[0], *arguments))
        environment = {name: self._insert_port(text) for name, text in settings.environment.items()}
        self._log = OutputLog(settings.log_path)
        self._program = Program(
            (program, *arguments),
            grace_seconds=GRACE_SECONDS,
            environment={**strip_keys(os.environ, _PASSED_KEYS), **environment},
        )
        # The thread keeps a reference to this object, so that a server which is never closed runs
        # until the interpreter ends.
        self._reader = threading.Thread(target=self._log_output, daemon=True)
        self._reader.start()
        self._finalize = weakref.finalize(self, self._program.stop, GRACE_SECONDS + 2)

    @property
    def is_alive(self) -> bool:
        """True if the server is running."""
        return self._program.status is None

    def is_healthy(self) -> bool:
        """Return whether the server is ready. Blocks for a moment."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)
        try:
            connection.request("GET", self._health_path)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """Stop the server and its child processes, and wait for its end."""
        self._finalize()
        self._reader.join(GRACE_SECONDS)

    def tail(self) -> tuple[str, ...]:
        """Return the last lines of its output."""
        if not self.is_alive:
            self._reader.join(1)  # the last output may not have arrived yet
        return self._log.tail()

    def _log_output(self) -> None:
        with self._program.output as output:
            while data := output.read(CHUNK_BYTES):
                self._log.write(data)
        self._log.close()

    def _insert_port(self, text: str) -> str:
        return text.replace("{port}", str(self._port))


def find_free_port() -> int:
    """Return an unused port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
