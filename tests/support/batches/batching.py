"""Batches on runners: databases, worker processes, and a vendor that counts its requests."""

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
    """Return the URL of an empty database."""
    if base == "sqlite":
        return f"sqlite:///{directory}/runner.db"
    return produce_url(directory)


def spec(**more: Any) -> BatchSpec:
    """Return a specification without a runnable request."""
    import msgspec

    return BatchSpec(model="scripted:echo", request=msgspec.Raw(b"{}"), **more)


async def ask(*texts: str) -> AsyncIterator[StoredInput]:
    """Yield inputs to submit; the text before a colon is the name."""
    for text in texts:
        name, _, content = text.rpartition(":")
        yield StoredInput(name or None, digest(content), write_input(content))


@attrs.define
class FakeQueue:
    """Queue of chunks in memory, without workers."""

    due: list[DueChunk] = attrs.field(factory=list)

    def enqueue(self, batch: str, chunks: Sequence[DueChunk]) -> None:
        """Enqueue those chunks that are not in the queue."""
        self.due += [each for each in chunks if each not in self.due]

    def cancel(self, batch: str) -> None:
        """Remove the chunks of a batch."""
        self.due = [each for each in self.due if each.batch != batch]

    def list_active(self) -> set[tuple[str, int]]:
        """Return batch and number of each chunk in the queue."""
        return {(each.batch, each.number) for each in self.due}

    def close(self) -> None:
        """Do nothing."""


def look(database: BatchDatabase) -> Batches:
    """Return the batches of a database, without workers."""
    return Batches(database, FakeQueue())


async def submit(database: BatchDatabase, batch: str, *texts: str, chunk: int = 4) -> None:
    """Submit a batch, without workers."""
    await BatchHandover(database, FakeQueue(), batch, spec(), chunk).perform(ask(*texts))


@attrs.define
class Vendor:
    """Vendor of Chat Completions that echoes each prompt.

    Attributes:
        url: Its address.
        request_counts: How many requests each prompt has had.
        delay_seconds: The time before each answer.
        min_open: The first answer waits until this many requests are open at once.
        status: The HTTP status of its answers.
        code: The error code of answers with another status than 200.
        open: How many requests are open.
        max_open: How many requests were open at once.
        request_times: When each request came.
    """

    url: str
    request_counts: Counter[str]
    delay_seconds: float = 0.0
    min_open: int = 1
    status: int = 200
    code: str = "server_error"
    open: int = 0
    max_open: int = 0
    request_times: list[float] = attrs.field(factory=list)

    def compose(self, text: str) -> bytes:
        """Return the HTTP answer to a prompt."""
        message = {"role": "assistant", "refusal": None, "content": f"Echo: {text}"}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        body = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini"}
        content = json.dumps({**body, "choices": [choice], "usage": usage}).encode()
        if self.status != 200:
            content = json.dumps({"error": {"message": "not now", "code": self.code}}).encode()
        head = f"HTTP/1.1 {self.status} X\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                start = head.find(b"content-length:") + 15
                body = await reader.readexactly(int(head[start : head.index(b"\r\n", start)]))
                text = json.loads(body)["messages"][-1]["content"]
                self.request_counts[text] += 1
                self.request_times.append(time.monotonic())
                self.open += 1
                self.max_open = max(self.max_open, self.open)
                while self.max_open < self.min_open:  # noqa: ASYNC110  # other connections raise it
                    await asyncio.sleep(0.001)
                await asyncio.sleep(self.delay_seconds)
                self.open -= 1
                writer.write(self.compose(text))

    def write_configuration(self, folder: Path, attempts: int = 1, **settings: Any) -> Path:
        """Write a configuration in which `openai_conversations` has this address."""
        path = folder / "config.toml"
        lines = {"base_url": f"{self.url}/v1", "api_key": "x", **settings}
        table = "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())
        limits = f"[limits]\nattempts = {attempts}\n"
        path.write_text(f"[providers.openai_conversations]\n{table}{limits}")
        return path


@contextmanager
def run_vendor(delay_seconds: float = 0.0) -> Iterator[Vendor]:
    """Run a vendor in another thread."""
    vendor = Vendor("", Counter(), delay_seconds)
    started: queue.Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        ended = asyncio.Event()
        server = await asyncio.start_server(vendor.serve, "127.0.0.1", 0, backlog=1024)
        vendor.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.put((asyncio.get_running_loop(), ended))
        await ended.wait()
        server.close()  # the end of the loop cancels open connections

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    loop, ended = started.get(timeout=60)
    try:
        yield vendor
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


def start_worker(
    folder: Path, url: str, *more: str, within: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start ``vibe worker`` for batches with the configuration in a folder.

    Args:
        folder: It holds the configuration.
        url: The runner's database.
        more: More arguments of the command.
        within: A prefix of the command, such as one that enters a network namespace.
    """
    with (folder / "workers.log").open("a") as log:  # a pipe without a reader would fill up
        return subprocess.Popen(
            [*within, *VIBE, "worker", "--runner", url, "--queues", "batches", *more],
            env=produce_environment(folder, VIBE_LLMS_CONFIG=str(folder / "config.toml")),
            stdin=subprocess.DEVNULL,
            stderr=log,
            text=True,
        )


def start_program(folder: Path, program: str, *more: object) -> subprocess.Popen[str]:
    """Start a Python program that uses the package."""
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
