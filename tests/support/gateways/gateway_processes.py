"""Gateways in processes of their own, which tests kill."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.screens.command_line import produce_environment


@asynccontextmanager
async def run_gateway(
    folder: Path, *program: str | Path
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run a gateway in a process of its own; yield the process and its address.

    It is killed in the end, and its output is printed, so that it is shown if the test fails.

    Args:
        folder: Has the configuration ``vibe.toml``, and receives all data.
        program: A program of Python that serves it, with arguments; by default the command.
    """
    environment = produce_environment(
        folder, VIBE_LLMS_CONFIG=str(folder / "vibe.toml"), PYTHONUNBUFFERED="1"
    )
    output = folder / "output.txt"  # a file, as an unread pipe would stop the gateway
    with output.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *(program or ("-m", "vibe_llms", "serve", "gateway", "--port", "0", "--yes")),
            stderr=errors,
            env=environment,
            cwd=folder,
        )
    try:
        while "Gateway on " not in (text := output.read_text()):
            assert process.returncode is None, "The gateway has not started."
            await asyncio.sleep(0.02)
        yield process, text.split("Gateway on ")[1].split()[0]
    finally:
        ended = process.returncode
        if ended is None:
            process.kill()
            await process.wait()
        print(f"--- ended with {ended}\n{output.read_text()[-4000:]}")
