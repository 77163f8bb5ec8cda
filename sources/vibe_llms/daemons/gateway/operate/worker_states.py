"""Exchange of states among the worker processes of one gateway, as files in a private folder.

Each process writes its state when it has changed, at most every two seconds, so that any of them
can answer for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from vibe_llms.daemons.gateway.operate.entries import RequestEntry
from vibe_llms.daemons.gateway.operate.history import BUCKET_SECONDS, BUCKETS, Bucket

DELAY_SECONDS: Final = 2.0
_SUFFIX: Final = ".state"


class TargetState(msgspec.Struct):
    """State of a target in one worker process. Times are in seconds since 1970.

    Attributes:
        circuit: State of its circuit: ``none``, ``closed``, ``open`` or ``probing``.
        failures: Recent failures, which may open the circuit.
        open_until: Time until which the circuit is open; 0 while it is closed.
        held_until: Time until which its vendor accepts no requests; 0 if it accepts some.
        busy, waiting: Requests in its slots, and in its queue.
        failure: The last failure, and its time; empty and 0 without any.
    """

    circuit: str = "none"
    failures: int = 0
    open_until: float = 0.0
    held_until: float = 0.0
    busy: int = 0
    waiting: int = 0
    failure: str = ""
    failed_at: float = 0.0


class WorkerState(msgspec.Struct):
    """State of one worker process.

    Attributes:
        started: Time since which it counts, in seconds since 1970.
        busy, waiting: Requests being answered, and queued.
        buckets: As in :class:`.TrafficHistory`.
        requests: Its last requests, the latest first.
        targets: States of its targets, by model.
        process: Its process id; 0 if it has ended.
    """

    started: float
    busy: int = 0
    waiting: int = 0
    buckets: dict[int, Bucket] = {}
    requests: list[RequestEntry] = []
    targets: dict[str, list[TargetState]] = {}
    process: int = msgspec.field(default_factory=os.getpid)


class WorkerStates:
    """The states of all worker processes.

    Args:
        survey: Returns the state of this process.
        folder: Folder that all processes share; ``None`` if there is only this one.
    """

    def __init__(self, survey: Callable[[], WorkerState], folder: Path | None = None) -> None:
        self._survey = survey
        self._folder = folder
        self._writing: asyncio.Task[None] | None = None
        self._decoder = msgspec.msgpack.Decoder(WorkerState)

    def begin(self) -> None:
        """Write the state of this process regularly, if there are others."""
        if self._folder is not None and self._writing is None:
            self._writing = asyncio.create_task(self._write_regularly(self._folder))

    async def end(self) -> None:
        """Stop writing."""
        if self._writing is not None:
            self._writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._writing

    async def survey(self) -> list[WorkerState]:
        """Return the states of all living processes; of ended ones, what they counted last."""
        # A copy: a thread composes the answer while requests are counted.
        own = msgspec.msgpack.encode(self._survey())
        return await asyncio.to_thread(self._read_all, own)

    def _read_all(self, own: bytes) -> list[WorkerState]:
        others = [] if self._folder is None else self._read_others(self._folder)
        return [self._decoder.decode(own), *others]

    def _read_others(self, folder: Path) -> list[WorkerState]:
        states = []
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            if path.stem == str(os.getpid()):
                continue
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                state = self._decoder.decode(path.read_bytes())
                if is_alive(state.process):
                    states.append(state)
                elif _has_recent(state):  # its requests still count
                    states.append(
                        msgspec.structs.replace(state, process=0, busy=0, waiting=0, targets={})
                    )
                else:
                    path.unlink()
        return states

    async def _write_regularly(self, folder: Path) -> None:
        path = folder / f"{os.getpid()}{_SUFFIX}"
        encoder, written = msgspec.msgpack.Encoder(), b""
        while True:
            data = encoder.encode(self._survey())
            if data != written:
                written = data
                with contextlib.suppress(OSError):  # the folder is deleted when the gateway ends
                    await asyncio.to_thread(_replace, path, data)
            await asyncio.sleep(DELAY_SECONDS)


def _replace(path: Path, data: bytes) -> None:
    """Replace a file atomically; it need not survive the machine."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(data)
    draft.replace(path)


def is_alive(process: int) -> bool:
    """Return whether a worker process still runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _has_recent(state: WorkerState) -> bool:
    oldest = time.time() // BUCKET_SECONDS - BUCKETS
    return any(number >= oldest for number in state.buckets)
