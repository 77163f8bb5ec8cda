"""A program that runs to its end, and its output."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.processes.programs import CHUNK_BYTES, Program

OUTPUT_BYTES: Final = 67_108_864
"""Maximum output of a program before it is ended."""

_GRACE_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.1
_READ_SECONDS: Final = 1.0


@frozen(kw_only=True)
class FinishedProgram:
    """A completed program.

    Attributes:
        status: Exit status of the program.
        output: Standard output of the program.
        errors: Standard error of the program.
        fault: Description of the limit that ended it; empty if it ended on its own.
    """

    status: int
    output: bytes
    errors: bytes
    fault: str = ""

    def explain(self) -> str:
        """Return the reason of the failure, in words; empty on success."""
        if self.fault or not self.status:
            return self.fault
        lines = self.errors.decode("utf-8", "replace").strip().splitlines()
        # pip marks its important lines in this way.
        messages = [line for line in lines if line.startswith("ERROR:")] or lines
        return (
            messages[-1].removeprefix("ERROR: ")
            if messages
            else f"it ended with status {self.status}"
        )


def run_program(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    seconds: float | None = None,
    watch: Callable[[], object] | None = None,
) -> FinishedProgram:
    """Run a program to its end. Blocks.

    An interrupt or another early end also ends the program and all it has started.

    Args:
        environment: Environment variables of the program; ``None`` for those of this process.
        seconds: The timeout.
        watch: Called periodically, and at the end; an exception from it ends the program.

    Raises:
        OSError: The program cannot be started.
    """
    program = Program(
        command,
        grace_seconds=_GRACE_SECONDS,
        environment=environment,
        directory=directory,
        errors_apart=True,
    )
    try:
        streams = (_Stream(program.output), _Stream(program.errors))
        fault = _await_end(program, streams, seconds, watch)
    finally:
        program.stop(_GRACE_SECONDS + 1)
    for stream in streams:
        # With a timeout: a process that left the program may hold its streams open forever.
        stream.thread.join(_READ_SECONDS)
    output, errors = (bytes(stream.data) for stream in streams)
    return FinishedProgram(status=program.status or 0, output=output, errors=errors, fault=fault)


def _await_end(
    program: Program,
    streams: Sequence[_Stream],
    seconds: float | None,
    watch: Callable[[], object] | None,
) -> str:
    """Wait for the end; return the exceeded limit, in words."""
    deadline = None if seconds is None else time.monotonic() + seconds
    has_ended = False
    while not has_ended:
        has_ended = program.pause(_POLL_SECONDS)
        if watch is not None:
            watch()
        if any(stream.is_too_long for stream in streams):
            return f"it wrote more than {OUTPUT_BYTES:,} bytes"
        if deadline is not None and not has_ended and time.monotonic() > deadline:
            return f"it did not end within {seconds:g} seconds"
    return ""


class _Stream:
    """One stream of a program, and the thread that reads it to its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.data = bytearray()
        self.is_too_long = False
        # One thread per stream: reading them in turn would wait for one while the other is full.
        self.thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self.thread.start()

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while data := pipe.read(CHUNK_BYTES):
                if len(self.data) + len(data) > OUTPUT_BYTES:
                    self.is_too_long = (
                        True  # the rest is discarded: a full pipe would stop the program
                    )
                else:
                    self.data += data
