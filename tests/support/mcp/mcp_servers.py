"""The MCP servers of the tests: a correct one, and one with faults."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.network.ports import find_port
from vibe_llms.invocables import InvocationContext, Registry, perform
from vibe_llms.invocables.mcp import McpServer
from vibe_llms.invocables.outcomes import Outcome

FIXTURES = Path(__file__).parents[2] / "fixtures" / "mcp"


def describe_server(manner: str = "plain", *, file: str = "server.py", **fields: Any) -> McpServer:
    """Return the settings of a server in the fixtures that uses stdio."""
    defaults = {
        "name": "workshop",
        "command": sys.executable,
        "arguments": (str(FIXTURES / file), manner),
        "connect_seconds": 55,
    }
    return McpServer(**{**defaults, **fields})


@contextlib.contextmanager
def run_http_server(manner: str = "plain") -> Iterator[str]:
    """Run the correct server over HTTP; yield its address."""
    port = find_port()
    command = [sys.executable, str(FIXTURES / "server.py"), manner, "http", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert process.poll() is None, "it has ended"
            assert time.monotonic() < deadline, "it did not start"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


async def call(registry: Registry, name: str, /, **arguments: Any) -> Outcome:
    """Call a tool as an engine does."""
    return await perform(registry.access(name), arguments, InvocationContext())
