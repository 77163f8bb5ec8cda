"""The official conformance suite judges our MCP server, in the words of both revisions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from node_programs import CONFORMANCE, compose_command
from tool_servers import produce_application, serve_tools
from vibe_llms.application import Application
from vibe_llms.invocables import FunctionsEnsemble, InvocationContext
from vibe_llms.invocables.ensembles import Ensemble
from vibe_llms.messages.contents import AudioContent, FileContent, ImageContent, TextualContent

pytestmark = pytest.mark.node

SUITE_SECONDS = 120
NOT_OFFERED = {
    "completion-complete": "there are no prompts to be completed",
    "elicitation-sep1034-defaults": "a function of ours asks nobody; approvals alone are asked",
    "elicitation-sep1330-enums": "a function of ours asks nobody",
    "tools-call-elicitation": "a function of ours asks nobody",
    "tools-call-sampling": "tools know no model, the client's neither",
}
"""What a revision requires of servers that have it, and a server of tools has not; and why."""

NOT_OFFERED_KINDS = ("resources-", "prompts-", "sep-2164-", "input-required-result-")
"""Resources and prompts are not offered, and no function asks; how approvals are asked for in the
era without sessions is judged by the official client (``test_tool_servers``)."""


PARTLY: dict[str, tuple[str, ...]] = {
    "server-stateless": ("Not testable: server does not list the diagnostic tool",),
    "caching": ("prompts/list returned", "resources/list returned", "resources/templates/list"),
}
"""Where the suite wants more within one scenario: how its complaints about that begin."""


def find_complaints(scenario: str, said: str) -> list[str]:
    """Returns what the suite complains of that is not about what is not offered."""
    complaints = [
        line.strip().removeprefix("Error: ")
        for line in said.splitlines()
        if line.strip().startswith("Error: ")
    ]
    return [each for each in complaints if not each.startswith(PARTLY.get(scenario, ("\0",)))]


def is_offered(scenario: str) -> bool:
    """Tells whether a scenario is about what a server of tools has."""
    return scenario not in NOT_OFFERED and not scenario.startswith(NOT_OFFERED_KINDS)


PIXEL = ImageContent(mime_type="image/png", data=b"\x89PNG\r\n\x1a\n" + b"0" * 16)


def test_simple_text() -> str:
    """Returns a text."""
    return "This is a simple text response for testing."


def test_image_content() -> ImageContent:
    """Returns an image."""
    return PIXEL


def test_audio_content() -> AudioContent:
    """Returns a sound."""
    return AudioContent(mime_type="audio/wav", data=b"RIFF0000WAVE")


def test_embedded_resource() -> FileContent:
    """Returns a file."""
    return FileContent(mime_type="text/plain", data=b"This is an embedded resource.")


def test_multiple_content_types() -> list[TextualContent | ImageContent | FileContent]:
    """Returns several contents."""
    return [TextualContent("Several:"), PIXEL, test_embedded_resource()]


def test_error_handling() -> str:
    """Fails."""
    raise ValueError("This tool intentionally returns an error for testing")


async def test_tool_with_progress(context: InvocationContext) -> str:
    """Says three times how far it is."""
    for share in (0, 50, 100):
        context.progress(f"{share} of 100")
        await asyncio.sleep(0)
    return "done"


async def test_tool_with_logging(context: InvocationContext) -> str:
    """Says three times what it does, as it would say how far it is."""
    for doing in ("started", "processing data", "completed"):
        context.progress(f"Tool execution {doing}")
        await asyncio.sleep(0)
    return "done"


FUNCTIONS = (
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_tool_with_progress,
    test_tool_with_logging,
)
for function in FUNCTIONS:
    function.__test__ = False  # type: ignore[attr-defined]  # the suite's names, not pytest's


class Fixtures(Application):
    """An application whose only ensemble is what the suite calls."""

    async def produce_ensembles(self, names: Sequence[str]) -> tuple[Ensemble, ...]:
        """Makes it."""
        return (FunctionsEnsemble("fixtures", FUNCTIONS),)


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


async def list_required(revision: str) -> list[str]:
    """Asks the suite which scenarios of a server a revision requires."""
    said = await run("list", "--requirements", revision)
    section = said.partition("Server scenarios")[2].partition("Client scenarios")[0]
    return [line.strip()[2:] for line in section.splitlines() if line.strip().startswith("- ")]


@pytest.mark.parametrize(
    ("revision", "required", "offered"), [("2025-11-25", 30, 14), ("2026-07-28", 37, 12)]
)
async def test_our_server_passes_what_a_revision_requires_of_tools(
    tmp_path: Path, revision: str, required: int, offered: int
) -> None:
    """Each scenario that is about tools, without a failure."""
    listed = await list_required(revision)
    assert len(listed) == required
    wanted = [each for each in listed if is_offered(each)]
    assert len(wanted) == offered

    application = Fixtures(produce_application(tmp_path).configuration)
    failed: dict[str, str] = {}
    async with serve_tools(application, ensembles=("fixtures",)) as address:
        for scenario in wanted:
            said = await run(
                *("server", "--url", address, "--scenario", scenario),
                *("--spec-version", revision, "--verbose"),
            )
            passes = "Passed: " in said and "Passed: 0/" not in said
            is_clean = "0 failed" in said or scenario in PARTLY
            if not passes or not is_clean or find_complaints(scenario, said):
                failed[scenario] = said
    assert not failed, "\n".join(failed.values())
