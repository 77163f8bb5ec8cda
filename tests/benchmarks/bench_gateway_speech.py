"""The first byte of a stream of speech through the gateway, beside the vendor's own.

The vendor is a small server that sends 20 pieces of audio, 2 ms apart. Each request is timed until
its first byte of audio, in turn at the vendor, passed through, and translated (the same body in
OpenAI's format, for Deepgram). The aim: 1 ms between the medians.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench_gateway import running
from gateway_parts import find_port

ROUNDS, AIM = 300, 1.0
PIECES, PIECE, PAUSE = 20, b"\0" * 960, 0.002
_CONFIGURATION = """
[limits]
attempts = 1
[providers.openai_responses]
base_url = "http://127.0.0.1:{port}/v1"
api_key = "sk-x"
[providers.deepgram]
base_url = "http://127.0.0.1:{port}"
api_key = "sk-x"
"""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each request of a connection with a stream of audio."""
    while head := await reader.readuntil(b"\r\n\r\n"):
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length or 0))
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: audio/pcm\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for _ in range(PIECES):
            writer.write(b"%x\r\n%s\r\n" % (len(PIECE), PIECE))
            await asyncio.sleep(PAUSE)
        writer.write(b"0\r\n\r\n")


async def serve(port: int) -> None:
    """Runs the vendor."""
    server = await asyncio.start_server(answer, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


def measure_first_byte(connection: http.client.HTTPConnection, model: str) -> tuple[float, float]:
    """Returns the milliseconds until the first byte of audio, and until the last."""
    body = {"model": model, "input": "Good morning.", "voice": "v", "response_format": "pcm"}
    start = time.perf_counter()
    headers = {"content-type": "application/json"}
    connection.request("POST", "/v1/audio/speech", json.dumps(body), headers)
    response = connection.getresponse()
    first = response.read(1)
    middle = time.perf_counter()
    rest = response.read()
    if response.status != 200 or len(first + rest) < PIECES * len(PIECE):
        raise SystemExit(f"The answer to {model} is {response.status}: {(first + rest)[:300]!r}")
    return (middle - start) * 1000, (time.perf_counter() - start) * 1000


def main() -> None:
    """Prints the table."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream, port = find_port(), find_port()
        (folder / "vibe.toml").write_text(_CONFIGURATION.format(port=upstream))
        vendor = (sys.executable, __file__, str(upstream))
        stack.enter_context(running(*vendor, port=upstream, home=folder))
        gateway = (sys.executable, "-m", "vibe_llms", "serve", "gateway", "--port", str(port))
        stack.enter_context(running(*gateway, port=port, home=folder))
        ways = {
            "the vendor": (upstream, "m"),
            "passed through": (port, "openai_responses:m"),
            "translated": (port, "deepgram:m"),
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        connections = {
            name: http.client.HTTPConnection("127.0.0.1", number)
            for name, (number, _) in ways.items()
        }
        for _ in range(ROUNDS):
            for name, (_, model) in ways.items():
                times[name].append(measure_first_byte(connections[name], model))
        print(f"{'':16}{'first, ms':>10}{'last, ms':>10}{'added, ms':>10}{'aim':>6}")
        base = statistics.median(first for first, _ in times["the vendor"])
        for name, pairs in times.items():
            first = statistics.median(each for each, _ in pairs)
            last = statistics.median(each for _, each in pairs)
            met = "" if name == "the vendor" else "met" if first - base <= AIM else "MISSED"
            print(f"{name:16}{first:10.3f}{last:10.3f}{first - base:10.3f}{AIM:6} {met}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(serve(int(sys.argv[1])))
    else:
        main()
