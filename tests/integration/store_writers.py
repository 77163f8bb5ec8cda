"""Plays with writers that are killed: run by the test beside it, in a process of its own.

Two writers append to one conversation as fast as they can and note each acknowledgement in a
pipe, which survives them. At a random moment both are killed. Prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.codec.canister_lines import encode_canister

ROUNDS_A_CONVERSATION = 20
LONGEST_SECONDS = 0.02


def write_until_killed(store: DirectoryStore, identity: str, label: str, report: int) -> None:
    """Appends one canister after another; tells their labels after the acknowledgement."""
    dice = random.Random(label)
    number = 0
    while True:
        number += 1
        # Long lines from time to time, so that some are torn.
        size = dice.choice([10, 100, 1000, 10_000, 300_000])
        text = f"{label}.{number} {'x' * size} end"
        store.append(identity, [UserCanister(text)])
        os.write(report, f"{label}.{number}\n".encode())


def start_writer(store: DirectoryStore, identity: str, label: str) -> tuple[int, int]:
    """Forks a writer off; returns its process and where it reports."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(reading)
            write_until_killed(store, identity, label, writing)
        finally:
            os._exit(1)
    os.close(writing)
    return process, reading


def play_round(store: DirectoryStore, identity: str, name: str, dice: random.Random) -> list[str]:
    """Lets two writers live for a moment; returns what was acknowledged to them."""
    writers = [start_writer(store, identity, f"{name}{message}") for message in "ab"]
    if dice.random() < 0.75:  # else it may hit their first append, too
        select.select([reading for _, reading in writers], [], [], 60)
    time.sleep(dice.uniform(0, LONGEST_SECONDS))
    for process, _ in dice.sample(writers, 2):
        os.kill(process, signal.SIGKILL)
    acknowledged: list[str] = []
    for process, reading in writers:
        _, status = os.waitpid(process, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, f"a writer failed by itself: {status}"
        with os.fdopen(reading) as report:
            acknowledged += report.read().split()
    return acknowledged


def main(path: str, rounds: int) -> None:
    encode_canister(UserCanister("x"))  # built before forking, so that rounds are short
    dice = random.Random()
    store = DirectoryStore(path)
    acknowledged: dict[str, list[str]] = {}
    for number in range(rounds):
        identity = f"c{number // ROUNDS_A_CONVERSATION}"
        if identity not in acknowledged:
            store.create(identity, ConversationMetadata())
            acknowledged[identity] = []
        acknowledged[identity] += play_round(store, identity, f"r{number}", dice)
    Path(path, "acknowledged.json").write_text(json.dumps(acknowledged))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
