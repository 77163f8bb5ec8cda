"""Killing programs at each of their steps: what they do to the disk and to the world is counted.

A program is a child of this process. It kills itself with SIGKILL before the n-th of its steps, or
in the middle of it where it is a write. What comes after a step comes before the next, so that
nothing is left out.
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
    """What is outside of the program: what was done stays done. One line each, in files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, name: str, line: str) -> None:
        """Does something, in one step, which is counted as any other."""
        descriptor = os.open(self.root / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, line.encode() + b"\n")
        os.close(descriptor)

    def note(self, name: str, line: bytes) -> None:
        """Notes what the judge has to know; no step of the run."""
        descriptor = os.open(self.root / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        real_write(descriptor, line + b"\n")
        os.close(descriptor)

    def read(self, name: str) -> list[str]:
        """Return the lines of a file, without one that was torn."""
        path = self.root / name
        return path.read_text().split("\n")[:-1] if path.exists() else []


class KillPoint:
    """Counts the steps of this process and kills it at one of them.

    Args:
        at: The number of the step, from 1; 0 for none.
        tears: Whether half of it is done, where it is a write.
    """

    def __init__(self, world: World, at: int, tears: bool) -> None:
        self.world, self.at, self.tears, self.steps = world, at, tears, 0
        self.door = threading.Lock()

    def mount(self) -> None:
        """Put itself before everything that changes files."""
        for name in ("write", "fdatasync", "fsync", "ftruncate", "replace", "mkdir", "unlink"):
            setattr(os, name, self._guard(name, getattr(os, name)))

    def _guard(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            with self.door:
                self.steps += 1
                if self.steps == self.at:
                    if name == "write" and self.tears and len(arguments[1]) > 80:
                        descriptor, data = arguments
                        original(descriptor, data[: len(data) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
                if name not in ("fdatasync", "fsync"):
                    return original(*arguments)
                # Only the loss of power, which is played below, makes a difference.
                path = Path(f"/proc/self/fd/{arguments[0]}").readlink()
                size = real_fstat(arguments[0]).st_size
                return self.world.note("synchronized", f"{size} {path}".encode())

        return step


def run_child(
    world: World, at: int, act: Callable[[], Awaitable[None]], *, tears: bool
) -> int | None:
    """Lets a child act; returns the number of its steps, or ``None`` where it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            guillotine = KillPoint(world, at, tears)
            guillotine.mount()
            asyncio.run(_await(act))
            real_write(writing, str(guillotine.steps).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as report:
        said = report.read()
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    assert status == 0, f"the run failed by itself: {status}"
    return int(said)


async def _await(act: Callable[[], Awaitable[None]]) -> None:
    await act()


def read_synchronized(world: World) -> dict[str, int]:
    """Return how many bytes of each file have reached the disk for certain."""
    known: dict[str, int] = {}
    for line in world.read("synchronized"):
        size, path = line.split(" ", 1)
        known[path] = int(size)
    return known


def cut_power(world: World, dice: random.Random | None = None) -> None:
    """Take away bytes that were never synchronized: all; with dice all, some or none of them."""
    known = read_synchronized(world)
    for path in (world.root / "store").rglob("*.jsonl"):
        there = path.stat().st_size
        kept = min(known.get(str(path), 0), there)
        if dice is not None:
            kept = dice.choice([kept, dice.randint(kept, there), there])
        os.truncate(path, kept)
        world.note("synchronized", f"{path.stat().st_size} {path}".encode())


def run_victims(victims: Path, path: Path, kind: str, *more: object) -> Counter[str]:
    """Play in a process of its own; return how often what was seen.

    Args:
        victims: The program that plays.
        path: A folder for it.
        kind: How they are killed.
        more: What else it takes.
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
