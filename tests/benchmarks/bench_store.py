"""Cost of an append and of a fork, which must not depend on the length of the conversation.

    python tests/benchmarks/bench_store.py [directory]

Prints medians of CPU time (user and system) in microseconds, and ratios. The directory decides
the file system; a temporary one by default. The floor is to open, lock, write and close, with
``fdatasync`` where the store waits for the disk. Targets: an append to a conversation whose files
are still open at most 3 times the floor, 1.7 times with ``fdatasync``; an append to, and a fork of,
100,000 canisters within 1.5 times the same on an empty conversation.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores import open_files
from vibe_llms.logs.disk import Disk
from vibe_llms.messages.canisters import UserCanister

CANISTERS = 100_000
ROUNDS = 400
TEXT = "The quick brown fox jumps over the lazy dog. " * 4


class HastyDisk(Disk):
    """Does not wait for the disk."""

    def synchronize(self, descriptor: int) -> None:
        pass

    def synchronize_folder(self, path: str) -> None:
        pass


def measure(*functions: Callable[[], object]) -> list[float]:
    """Returns the median cost of each function; they take turns, so that noise hits all alike.

    Each round is in another order: after one of the store's own functions, its code is still in the
    caches, and after the floor it is not.
    """
    costs: list[list[float]] = [[] for _ in functions]
    turns = list(zip(functions, costs, strict=True))
    chance = random.Random(1)
    for _ in range(ROUNDS):
        for function, own in chance.sample(turns, len(turns)):
            began = time.process_time_ns()
            function()
            own.append((time.process_time_ns() - began) / 1000)
    return [statistics.median(own) for own in costs]


def produce_floor(path: Path, *, synchronize: bool) -> Callable[[], None]:
    """Produces the least an append can be: open, lock, write, synchronize, close."""
    import fcntl

    line = TEXT.encode() + b"\n"

    def append() -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, line)
        if synchronize:
            os.fdatasync(descriptor)
        os.close(descriptor)

    return append


def fill(store: DirectoryStore) -> None:
    """Makes a conversation without, and one with a long history."""
    for identity in ("empty", "long"):
        store.create(identity, ConversationMetadata(name="A name", tags=("tag",)))
    for _ in range(CANISTERS // 1000):
        store.append("long", [UserCanister(TEXT) for _ in range(1000)])


def print_row(word: str, empty: float, long: float, floor: float | None, limit: float) -> None:
    """Prints one line of the table."""
    if floor is None:
        lowest, judged = "", judge(long / empty, 1.5)
    else:
        lowest, judged = f"{floor:8.1f}{empty / floor:7.2f} x", judge(empty / floor, limit)
    print(f"{word:<28}{empty:9.1f}{long:9.1f}{long / empty:9.2f}{lowest:>18}   {judged}")


def judge(value: float, limit: float) -> str:
    return f"at most {limit}: {'met' if value <= limit else 'MISSED'}" if limit else ""


def measure_store(path: Path, disk: Disk, word: str, limit: float) -> None:
    """Prints what appends and forks cost with one kind of disk."""
    canister = UserCanister(TEXT)
    fill(DirectoryStore(path, disk=HastyDisk()))
    store = DirectoryStore(path, disk=disk)
    position = {name: store.read(name).position for name in ("empty", "long")}
    # Files stay open once the times of their folders are final.
    time.sleep(open_files.SETTLED_NS / 1e9 + 1)

    def append(name: str, *, opened: bool = True) -> None:
        if not opened:
            store.guards.logs.drop(name)
        position[name] = store.append(name, [canister], after=position[name]).position

    floor = produce_floor(path / "floor", synchronize=not isinstance(disk, HastyDisk))
    empty, long, first, second, lowest = measure(
        lambda: append("empty"),
        lambda: append("long"),
        lambda: append("empty", opened=False),
        lambda: append("long", opened=False),
        floor,
    )
    print_row(f"append, {word}", empty, long, lowest, limit)
    print_row("  files not open yet", first, second, lowest, 0)
    empty, long, middle = measure(
        lambda: store.fork("empty"),
        lambda: store.fork("long"),
        lambda: store.fork("long", from_index=CANISTERS // 2),
    )
    print_row(f"fork, {word}", empty, long, None, 1.5)
    print_row("  in the middle", empty, middle, None, 1.5)


def main(root: str) -> None:
    """Prints the table."""
    print(f"{'µs of CPU, medians':<28}{'empty':>9}{'100,000':>9}{'ratio':>9}{'floor':>18}   target")
    measure_store(Path(root, "safe"), Disk(), "synchronized", 1.7)
    measure_store(Path(root, "hasty"), HastyDisk(), "not synchronized", 3.0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        directory = tempfile.mkdtemp()
        try:
            main(directory)
        finally:
            shutil.rmtree(directory)
