"""Making an ensemble of a server, with all who answer what it asks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from mcp.client import Client

from support.mcp.asking_server import produce_server
from support.mcp.oauth_servers import AgreeingPerson, run_oauth_servers
from vibe_llms.exceptions import EnsembleError
from vibe_llms.invocables import FunctionsEnsemble, Registry
from vibe_llms.invocables.mcp import McpServer, produce_mcp_ensemble
from vibe_llms.invocables.mcp.oauth.settings import OAuthSettings


async def test_an_error_says_that_a_server_wants_a_person_and_nobody_can_be_asked() -> None:
    """Not only that it answered with some status."""
    async with run_oauth_servers() as servers:
        server = McpServer(name="notes", url=servers.url, oauth=OAuthSettings(), restarts=0)
        with pytest.raises(EnsembleError, match="must agree"):
            async with Registry([produce_mcp_ensemble(server)]):
                pass


async def test_a_token_of_the_users_own_is_not_replaced(tmp_path: Path) -> None:
    """What stands in the headers is what they want to be sent."""
    async with run_oauth_servers() as servers:
        person = AgreeingPerson()
        server = McpServer(
            name="notes", url=servers.url, headers={"authorization": "Bearer mine"}, restarts=0
        )
        ensemble = produce_mcp_ensemble(server, authorizer=person, grants=tmp_path)
        with pytest.raises(EnsembleError, match="401"):
            async with Registry([ensemble]):
                pass

    assert person.seen == []


async def test_only_what_is_given_may_be_asked_for(tmp_path: Path) -> None:
    """And knows of the directories that are granted."""
    ensemble = produce_mcp_ensemble(McpServer(name="a", command="none"), roots=[tmp_path])

    callbacks = ensemble._wiring.produce_callbacks()

    assert set(callbacks) == {"list_roots_callback"}
    async with Client(produce_server(), mode="legacy", cache=None, **callbacks) as client:
        result = await client.call_tool("ask_roots", {})
    assert tmp_path.as_uri() in result.content[0].text


def test_time_for_a_person_is_added_where_one_may_be_waited_for() -> None:
    """A registry waits so long, and no longer."""
    server = McpServer(name="a", url="https://example.org/mcp", connect_seconds=5)

    alone = produce_mcp_ensemble(server)
    attended = produce_mcp_ensemble(server, authorizer=AgreeingPerson())

    assert (alone.connect_seconds, attended.connect_seconds) == (5, 305)


async def test_a_registry_waits_as_long_as_an_ensemble_says_that_it_may_take() -> None:
    """Where that is longer than it waits for others."""

    class Slow(FunctionsEnsemble):
        connect_seconds = 60.0

        async def connect(self) -> None:
            await asyncio.sleep(0.05)

    async with Registry([Slow("slow", ())], connect_seconds=0.01) as registry:
        assert registry.failures == {}
