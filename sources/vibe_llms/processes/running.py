"""A program that is run to its end, and what it said."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.processes.programs import CHUNK_BYTES, Program

OUTPUT_BYTES: Final = 67_108_864
"""How much a program may write before it is ended."""

_GRACE_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.1
_READ_SECONDS: Final = 1.0


@frozen(kw_only=True)
class Ended:
    """A program that has ended.

    Attributes:
        status: Its exit status.
        output: What it wrote.
        errors: What it wrote to its standard error.
        fault: The limit that ended it, in words; empty where it ended by itself.
    """

    status: int
    output: bytes
    errors: bytes
    fault: str = ""

    def explain(self) -> str:
        """Returns why it failed, in words; empty where it did not."""
        if self.fault or not self.status:
            return self.fault
        lines = self.errors.decode("utf-8", "replace").strip().splitlines()
        # As pip marks what matters among what it says besides.
        told = [line for line in lines if line.startswith("ERROR:")] or lines
        return told[-1].removeprefix("ERROR: ") if told else f"it ended with status {self.status}"


def run_program(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    seconds: float | None = None,
    watch: Callable[[], object] | None = None,
) -> Ended:
    """Runs a program to its end. Blocks.

    Whatever ends this early, such as an interrupt, ends the program and all it has started.

    Args:
        environment: Its variables; ``None`` for ours.
        seconds: How long it may take.
        watch: Is called now and then, and at the end; what it raises ends the program.

    Raises:
        OSError: It cannot be started.
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
        # In bounds: what has left the program may hold its streams open for ever.
        stream.thread.join(_READ_SECONDS)
    output, errors = (bytes(stream.data) for stream in streams)
    return Ended(status=program.status or 0, output=output, errors=errors, fault=fault)


def _await_end(
    program: Program,
    streams: Sequence[_Stream],
    seconds: float | None,
    watch: Callable[[], object] | None,
) -> str:
    """Waits for the end; returns the limit that is exceeded, in words."""
    until = None if seconds is None else time.monotonic() + seconds
    has_ended = False
    while not has_ended:
        has_ended = program.pause(_POLL_SECONDS)
        if watch is not None:
            watch()
        if any(stream.is_over for stream in streams):
            return f"it wrote more than {OUTPUT_BYTES:,} bytes"
        if until is not None and not has_ended and time.monotonic() > until:
            return f"it did not end within {seconds:g} seconds"
    return ""


class _Stream:
    """One of a program's streams, and the thread that reads it to its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.data = bytearray()
        self.is_over = False
        # One thread a stream: who reads them in turn waits for one while the other is full.
        self.thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self.thread.start()

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while data := pipe.read(CHUNK_BYTES):
                if len(self.data) + len(data) > OUTPUT_BYTES:
                    self.is_over = True  # what comes now is let go: a full pipe would stop it
                else:
                    self.data += data
