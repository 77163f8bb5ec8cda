"""Batches on runners, for tests: databases, workers as processes, and a vendor that counts."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.screens.command_line import VIBE, produce_environment
from support.stores.postgresql_server import produce_url
from vibe_llms.batches.batch_specs import BatchSpec, StoredInput
from vibe_llms.batches.batches import Batches
from vibe_llms.batches.databases import BatchDatabase
from vibe_llms.batches.handovers import BatchHandover
from vibe_llms.batches.item_lines import digest
from vibe_llms.batches.row_chunks import DueChunk
from vibe_llms.instruments.estimates import write_input

NEEDS_DBOS = pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")
BASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


def choose_url(base: str, directory: Path) -> str:
    """Returns the URL of an empty database."""
    if base == "sqlite":
        return f"sqlite:///{directory}/runner.db"
    return produce_url(directory)


def spec(**more: Any) -> BatchSpec:
    """An order that nobody performs."""
    import msgspec

    return BatchSpec(model="scripted:echo", request=msgspec.Raw(b"{}"), **more)


async def ask(*texts: str) -> AsyncIterator[StoredInput]:
    """Inputs as they are handed over; one with a colon has a name."""
    for text in texts:
        name, _, said = text.rpartition(":")
        yield StoredInput(name or None, digest(said), write_input(said))


@attrs.define
class FakeQueue:
    """Queue of chunks in memory; the test takes them."""

    due: list[DueChunk] = attrs.field(factory=list)

    def enqueue(self, batch: str, chunks: Sequence[DueChunk]) -> None:
        """Enqueue chunks that are not there."""
        self.due += [each for each in chunks if each not in self.due]

    def cancel(self, batch: str) -> None:
        """Remove the chunks of a batch."""
        self.due = [each for each in self.due if each.batch != batch]

    def list_active(self) -> set[tuple[str, int]]:
        """Return what is there."""
        return {(each.batch, each.number) for each in self.due}

    def close(self) -> None:
        """Do nothing."""


def look(database: BatchDatabase) -> Batches:
    """Batches of a database that nobody performs."""
    return Batches(database, FakeQueue())


async def submit(database: BatchDatabase, batch: str, *texts: str, chunk: int = 4) -> None:
    """Hands a batch over that nobody performs."""
    await BatchHandover(database, FakeQueue(), batch, spec(), chunk).perform(ask(*texts))


@attrs.define
class Vendor:
    """Answers Chat Completions by what was asked, and counts it.

    Attributes:
        at_once: Nobody is answered before so many have waited for it at once.
    """

    url: str
    asked: Counter[str]
    delay_seconds: float = 0.0
    at_once: int = 1
    status: int = 200
    code: str = "server_error"
    open: int = 0
    most: int = 0
    times: list[float] = attrs.field(factory=list)

    def compose(self, text: str) -> bytes:
        """Composes the answer to a prompt."""
        message = {"role": "assistant", "refusal": None, "content": f"Echo: {text}"}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        body = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini"}
        said = json.dumps({**body, "choices": [choice], "usage": usage}).encode()
        if self.status != 200:
            said = json.dumps({"error": {"message": "not now", "code": self.code}}).encode()
        head = f"HTTP/1.1 {self.status} X\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(said)}\r\n\r\n".encode() + said

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection."""
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                start = head.find(b"content-length:") + 15
                body = await reader.readexactly(int(head[start : head.index(b"\r\n", start)]))
                text = json.loads(body)["messages"][-1]["content"]
                self.asked[text] += 1
                self.times.append(time.monotonic())
                self.open += 1
                self.most = max(self.most, self.open)
                while self.most < self.at_once:  # noqa: ASYNC110  # other connections say so
                    await asyncio.sleep(0.001)
                await asyncio.sleep(self.delay_seconds)
                self.open -= 1
                writer.write(self.compose(text))

    def write_configuration(self, folder: Path, attempts: int = 1, **settings: Any) -> Path:
        """Writes a configuration in which this is the vendor of `openai_conversations:…`."""
        path = folder / "config.toml"
        lines = {"base_url": f"{self.url}/v1", "api_key": "x", **settings}
        table = "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())
        limits = f"[limits]\nattempts = {attempts}\n"
        path.write_text(f"[providers.openai_conversations]\n{table}{limits}")
        return path


@contextmanager
def run_vendor(delay_seconds: float = 0.0) -> Iterator[Vendor]:
    """Runs a vendor in a thread of its own."""
    vendor = Vendor("", Counter(), delay_seconds)
    told: queue.Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        ended = asyncio.Event()
        server = await asyncio.start_server(vendor.serve, "127.0.0.1", 0, backlog=1024)
        vendor.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        told.put((asyncio.get_running_loop(), ended))
        await ended.wait()
        server.close()  # what is still served is cancelled with the loop

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    loop, ended = told.get(timeout=60)
    try:
        yield vendor
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


def start_worker(
    folder: Path, url: str, *more: str, within: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Starts ``vibe worker`` for batches; its configuration is in the folder.

    Args:
        within: What its command begins with, as where it runs in a network namespace.
    """
    with (folder / "workers.log").open("a") as log:  # a pipe that nobody reads would fill up
        return subprocess.Popen(
            [*within, *VIBE, "worker", "--runner", url, "--queues", "batches", *more],
            env=produce_environment(folder, VIBE_LLMS_CONFIG=str(folder / "config.toml")),
            stdin=subprocess.DEVNULL,
            stderr=log,
            text=True,
        )


def start_program(folder: Path, program: str, *more: object) -> subprocess.Popen[str]:
    """Starts a program that uses the package."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, more)],
        env={
            **produce_environment(folder, VIBE_LLMS_CONFIG=str(folder / "config.toml")),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
