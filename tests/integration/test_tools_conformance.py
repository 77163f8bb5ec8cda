"""The official conformance suite judges our MCP server, in the words of both revisions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.daemons.tool_servers import PLUGINS, produce_application, serve_tools
from support.quality.node_programs import CONFORMANCE, compose_command, read_required, read_verdicts

pytestmark = pytest.mark.node

SUITE_SECONDS = 120
CONFIGURATION = '[ensembles.conformance]\nmodule = "conformance_ensemble"\n'

ASIDE = {
    "server-session-lifecycle",
    "json-schema-2020-12",
    "server-sse-polling",
    "http-header-validation",
    "http-custom-header-server-validation",
}
"""What the suite runs besides what a revision requires, and does not score; and we do."""

OUT_OF_SCOPE = "tasks-"
"""An extension: a call that outlives its client is a run, for which there are agents."""


async def run(*arguments: str) -> str:
    """Runs the suite to its end; returns what it says."""
    suite = await asyncio.create_subprocess_exec(
        *compose_command(CONFORMANCE, *arguments),
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
    return said.decode()


@pytest.mark.parametrize(("revision", "count"), [("2025-11-25", 30), ("2026-07-28", 37)])
async def test_our_server_passes_all_that_a_revision_requires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str, count: int
) -> None:
    """Without a failure and without a warning; what is offered is a stranger's plugin."""
    monkeypatch.syspath_prepend(str(PLUGINS))
    required = read_required(await run("list", "--requirements", revision), "Server scenarios")
    assert len(required) == count

    application = produce_application(tmp_path, CONFIGURATION)
    async with serve_tools(application, ensembles=("conformance",)) as address:
        said = await run("server", "--url", address, "--requirements", revision, "--verbose")

    verdicts = read_verdicts(said, "=== SUMMARY ===")
    further = set(verdicts) - required
    assert required <= set(verdicts)
    assert {each for each in further if not each.startswith(OUT_OF_SCOPE)} <= ASIDE
    wanted = required | (further & ASIDE)
    assert not sorted(each for each in wanted if not verdicts[each]), said
