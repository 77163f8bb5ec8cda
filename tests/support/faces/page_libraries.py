"""The process in which libraries of web pages talk with a daemon's faces."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from support.quality.node_programs import FOLDER_VARIABLE, NODE

DRIVER = Path(__file__).with_name("page_clients.mjs")


@attrs.define
class Libraries:
    """The libraries, in a process of Node."""

    process: subprocess.Popen[str]

    async def ask(self, client: str, url: str, thread: str, **job: Any) -> Any:
        """Have a library send a request; return what it made of the answer."""

        def ask() -> Any:
            process = self.process
            assert process.stdin is not None
            assert process.stdout is not None
            line = {"client": client, "url": url, "thread": thread, **job}
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        heard = await asyncio.to_thread(ask)
        assert "error" not in heard, heard["error"]
        return heard


@contextmanager
def starting_libraries() -> Iterator[Libraries]:
    """Start the process, until the block ends."""
    folder = Path(os.environ[FOLDER_VARIABLE]).resolve()
    command = [str(folder / NODE), "--no-deprecation", str(DRIVER), str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        yield Libraries(process)
        process.kill()
