"""The official conformance suite judges our MCP client, in the words of both revisions."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest

from support.mcp.mcp_conformance_client import converse, read_task
from support.quality.node_programs import CONFORMANCE, compose_command, read_required, read_verdicts

pytestmark = pytest.mark.node

FORWARDER = Path(__file__).parents[1] / "support" / "mcp" / "mcp_conformance_forwarder.py"
SUITE_SECONDS = 120

OUT_OF_SCOPE = {
    "auth/client-credentials-jwt": "extension: no keys are signed with",
    "auth/enterprise-managed-authorization": "extension: no company's identity provider is known",
    "auth/dpop": "extension: tokens are not bound to keys",
    "auth/dpop-nonce": "extension: tokens are not bound to keys",
    "auth/wif-jwt-bearer": "extension: no workload has an identity",
}
"""What the suite runs besides what a revision requires, and does not score; and why we do not."""

NOT_SCORED_BUT_OURS = {"auth/client-credentials-basic", "json-schema-2020-12-preservation"}
"""What it runs besides, and we do."""


@attrs.frozen
class Host:
    """Answers the forwarders: each scenario is one task in the loop of the test."""

    failures: dict[str, str]

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Meets the server that a forwarder was started for, and says what went wrong."""
        said = json.loads(await reader.readline())
        task = read_task(said["url"], said["environment"])
        error = ""
        if task.scenario not in OUT_OF_SCOPE:
            try:
                await converse(task)
            except Exception:
                error = traceback.format_exc()
                self.failures[task.scenario] = error
        writer.write(json.dumps({"error": error}).encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def run_host() -> AsyncIterator[tuple[Host, str]]:
    """Runs a host, and gives the command that reaches it."""
    host = Host({})
    with tempfile.TemporaryDirectory() as folder:
        door = f"{folder}/door"
        server = await asyncio.start_unix_server(host.receive, door)
        async with server:
            yield host, shlex.join([sys.executable, "-I", "-S", str(FORWARDER), door])


async def run_suite(*arguments: str) -> tuple[str, Host]:
    """Runs the suite to its end; returns what it says."""
    async with run_host() as (host, command):
        suite = await asyncio.create_subprocess_exec(
            *compose_command(CONFORMANCE, "client", "--command", command, *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(SUITE_SECONDS):
                said, _ = await suite.communicate()
        finally:
            if suite.returncode is None:
                suite.kill()
                await suite.wait()
    return said.decode(), host


async def list_required(revision: str) -> set[str]:
    """Asks the suite which scenarios of a client a revision requires."""
    process = await asyncio.create_subprocess_exec(
        *compose_command(CONFORMANCE, "list", "--requirements", revision),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    return read_required(said.decode(), "Client scenarios")


@pytest.mark.parametrize(("revision", "count"), [("2025-11-25", 18), ("2026-07-28", 32)])
async def test_our_client_passes_all_that_a_revision_requires(revision: str, count: int) -> None:
    """Without a failure and without a warning; and of the rest, what is within our scope."""
    required = await list_required(revision)
    assert len(required) == count

    said, host = await run_suite("--requirements", revision, "--verbose", "--timeout", "100000")

    verdicts = read_verdicts(said, "=== SUITE SUMMARY ===")
    assert set(verdicts) == required | (set(verdicts) & (NOT_SCORED_BUT_OURS | set(OUT_OF_SCOPE)))
    wanted = required | (set(verdicts) & NOT_SCORED_BUT_OURS)
    failed = sorted(name for name in wanted if not verdicts[name])
    assert not failed, "\n".join([said, *(host.failures.get(name, "") for name in failed)])
