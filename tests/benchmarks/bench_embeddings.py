"""Embedding 10,000 short texts, against bare aiohttp and msgspec that do the same.

    python tests/benchmarks/bench_embeddings.py

A server in a process of its own answers each request with 2,048 vectors of 256 numbers, as base64
and as decimal numbers. Both clients send the same requests, eight at once, and end with the same
bytes. The aim is 0.8 of the bare client's throughput: its processor time, divided by ours.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import multiprocessing
import resource
import socket
import statistics
import struct
from array import array
from collections.abc import Iterator

import aiohttp
import msgspec

from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.instruments.embedders import Embedder

COUNT, BATCH, WIDTH, ROUNDS, AIM = 10_000, 2_048, 256, 7, 0.8
TEXTS = [f"Short text number {number}, about bridges." for number in range(COUNT)]


class _Row(msgspec.Struct):
    embedding: str | list[float]
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Row]


def compose_answer(count: int, form: str) -> bytes:
    """Composes the answer of a vendor to so many texts."""
    row = [number / WIDTH for number in range(WIDTH)]
    packed = base64.b64encode(struct.pack(f"<{WIDTH}f", *row)).decode()
    rows = [
        {"index": place, "embedding": packed if form == "base64" else row} for place in range(count)
    ]
    usage = {"prompt_tokens": count, "total_tokens": count}
    return msgspec.json.encode({"data": rows, "model": "m", "usage": usage})


def serve(port: int, form: str) -> None:
    """Answers requests with vectors, as long as it lives."""
    answers: dict[int, bytes] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                count = (await reader.readexactly(size)).count(b"Short text")
                body = answers.setdefault(count, b"") or compose_answer(count, form)
                answers[count] = body
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
                    + str(len(body)).encode()
                    + b"\r\n\r\n"
                    + body
                )
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", port, limit=1 << 24)
        await server.serve_forever()

    asyncio.run(run())


@contextlib.contextmanager
def run_server(form: str) -> Iterator[str]:
    """Runs the server in a process; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(port, form))
    process.start()
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.join()


async def embed_bare(address: str) -> bytes:
    """Embeds all texts with aiohttp and msgspec alone."""
    parts = [TEXTS[place : place + BATCH] for place in range(0, COUNT, BATCH)]
    decoder = msgspec.json.Decoder(_Answer)
    async with aiohttp.ClientSession() as session:

        async def ask(texts: list[str]) -> bytes:
            body = msgspec.json.encode({"model": "m", "input": texts, "encoding_format": "base64"})
            headers = {"content-type": "application/json", "authorization": "Bearer k"}
            async with session.post(f"{address}/embeddings", data=body, headers=headers) as told:
                rows = decoder.decode(await told.read()).data
            return b"".join(
                base64.b64decode(row.embedding)
                if isinstance(row.embedding, str)
                else array("f", row.embedding).tobytes()
                for row in rows
            )

        return b"".join(await asyncio.gather(*map(ask, parts)))


async def embed_ours(address: str) -> bytes:
    """Embeds all texts with an embedder."""
    settings = {"base_url": address, "api_key": "k"}
    named = {f"providers.openai_responses.{name}": value for name, value in settings.items()}
    application = Application(load_configuration(command_line=named))
    async with application, Embedder("openai:m", application=application) as embedder:
        return (await embedder.embed(TEXTS)).data


def measure(address: str) -> tuple[float, float]:
    """Returns the processor seconds of both, each the median of several rounds in turn."""
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS):
        results = []
        for is_bare in (True, False):
            before = resource.getrusage(resource.RUSAGE_SELF)
            results.append(asyncio.run((embed_bare if is_bare else embed_ours)(address)))
            after = resource.getrusage(resource.RUSAGE_SELF)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            times[is_bare].append(used)
        assert results[0] == results[1]
    return statistics.median(times[True]), statistics.median(times[False])


def main() -> None:
    """Prints the table."""
    print(f"{'10,000 short texts':24}{'bare, ms':>10}{'ours, ms':>10}{'share':>8}{'aim':>6}")
    for form in ("base64", "decimal"):
        with run_server(form) as address:
            bare, ours = measure(address)
        share = bare / ours
        met = "met" if share >= AIM else "MISSED"
        print(f"{form:24}{bare * 1e3:10.0f}{ours * 1e3:10.0f}{share:8.2f}{AIM:6} {met}")


if __name__ == "__main__":
    main()
