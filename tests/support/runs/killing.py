"""Programs that are killed at each of their steps, that is, changes of files.

A program is a child of this process. It kills itself with SIGKILL before its n-th step, or in the
middle of it if the step is a write. Every state between two steps is tested in this way.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

real_write, real_fstat = os.write, os.fstat


class World:
    """External effects of the program, which are never undone: one line each, in files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, name: str, line: str) -> None:
        """Add an effect, as one counted step."""
        descriptor = os.open(self.root / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, line.encode() + b"\n")
        os.close(descriptor)

    def note(self, name: str, line: bytes) -> None:
        """Record a fact for the test, which does not count as a step."""
        descriptor = os.open(self.root / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        real_write(descriptor, line + b"\n")
        os.close(descriptor)

    def read(self, name: str) -> list[str]:
        """Return the lines of a file, without an incomplete last line."""
        path = self.root / name
        return path.read_text().split("\n")[:-1] if path.exists() else []


class KillPoint:
    """Counter of the steps of this process, which kills it at one of them.

    Args:
        at: Number of the step, from 1; 0 for none.
        tears: Whether half of a write is done.
    """

    def __init__(self, world: World, at: int, tears: bool) -> None:
        self.world, self.at, self.tears, self.steps = world, at, tears, 0
        self.lock = threading.Lock()

    def install(self) -> None:
        """Wrap all functions that change files."""
        for name in ("write", "fdatasync", "fsync", "ftruncate", "replace", "mkdir", "unlink"):
            setattr(os, name, self._guard(name, getattr(os, name)))

    def _guard(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            with self.lock:
                self.steps += 1
                if self.steps == self.at:
                    if name == "write" and self.tears and len(arguments[1]) > 80:
                        descriptor, data = arguments
                        original(descriptor, data[: len(data) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
                if name not in ("fdatasync", "fsync"):
                    return original(*arguments)
                # Synchronization matters only at a power failure; see cut_power.
                path = Path(f"/proc/self/fd/{arguments[0]}").readlink()
                size = real_fstat(arguments[0]).st_size
                return self.world.note("synchronized", f"{size} {path}".encode())

        return step


def run_child(
    world: World, at: int, act: Callable[[], Awaitable[None]], *, tears: bool
) -> int | None:
    """Run a child process; return the number of its steps, or ``None`` if it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            kill_point = KillPoint(world, at, tears)
            kill_point.install()
            asyncio.run(_await(act))
            real_write(writing, str(kill_point.steps).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as report:
        text = report.read()
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    assert status == 0, f"the run failed by itself: {status}"
    return int(text)


async def _await(act: Callable[[], Awaitable[None]]) -> None:
    await act()


def read_synchronized(world: World) -> dict[str, int]:
    """Return the number of synchronized bytes of each file."""
    known: dict[str, int] = {}
    for line in world.read("synchronized"):
        size, path = line.split(" ", 1)
        known[path] = int(size)
    return known


def cut_power(world: World, dice: random.Random | None = None) -> None:
    """Remove bytes that were not synchronized: all, or a random number of them with ``dice``."""
    known = read_synchronized(world)
    for path in (world.root / "store").rglob("*.jsonl"):
        size = path.stat().st_size
        kept = min(known.get(str(path), 0), size)
        if dice is not None:
            kept = dice.choice([kept, dice.randint(kept, size), size])
        os.truncate(path, kept)
        world.note("synchronized", f"{path.stat().st_size} {path}".encode())


def run_victims(victims: Path, path: Path, kind: str, *more: object) -> Counter[str]:
    """Run a program that kills its children; return the counts that it prints.

    Args:
        victims: The program.
        path: A folder for it.
        kind: The way of killing.
        more: Further arguments.
    """
    done = subprocess.run(
        [sys.executable, victims, path, kind, *map(str, more)],
        check=False,
        timeout=300,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return Counter(json.loads(done.stdout))
