"""Places where a person has to have been before a server begins with a call."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from mcp.client import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types import ElicitRequestURLParams, Tool

from vibe_llms.invocables import InvocationContext, perform
from vibe_llms.invocables.mcp import Answers, ElicitationAnswer, McpServer
from vibe_llms.invocables.mcp.connections import ServerConnection
from vibe_llms.invocables.mcp.elicitation import Action, Question
from vibe_llms.invocables.mcp.tools import produce_tool
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.invocables.owners import Disconnection


@attrs.define(eq=False)
class Traveller:
    """Goes where it is sent, or not."""

    action: Action = Action.ACCEPT
    been: list[str] = attrs.field(factory=list)

    async def elicit(self, question: Question) -> ElicitationAnswer:
        if self.action is Action.ACCEPT:
            self.been.append(question.address)
        return ElicitationAnswer(action=self.action)


@attrs.define(eq=False)
class Bank:
    """A server whose tool wants a person to have been at its pages."""

    wanted: list[str]
    content: bool = True
    calls: int = 0

    def produce_server(self, traveller: Traveller) -> Any:
        server = MCPServer("bank")

        @server.tool()
        def pay() -> str:
            """Pays."""
            self.calls += 1
            if not self.content or len(traveller.been) < len(self.wanted):
                raise UrlElicitationRequiredError(
                    [
                        ElicitRequestURLParams(message="Agree.", url=url, elicitation_id=url)
                        for url in self.wanted
                    ]
                )
            return "paid"

        return server


async def pay(bank: Bank, traveller: Traveller | None) -> Outcome:
    answers = Answers(server="bank", elicitor=traveller)
    server = bank.produce_server(traveller or Traveller())
    async with Client(server, mode="legacy", cache=None, **answers.produce_callbacks()) as client:

        class Owner:
            async def acquire(self) -> ServerConnection:
                return ServerConnection(client=client, ending=Disconnection())

        owner: Any = Owner()
        tool = Tool(name="pay", description="Pays.", input_schema={"type": "object"})
        settings = McpServer(name="bank", command="none")
        invoker = produce_tool(tool, settings, owner)
        assert invoker is not None
        return await perform(invoker, {}, InvocationContext())


async def test_a_call_is_made_again_when_the_person_has_been_everywhere() -> None:
    """The model need not know of it."""
    bank, traveller = Bank(["https://a.example.org/", "https://b.example.org/"]), Traveller()

    outcome = await pay(bank, traveller)

    assert outcome.text == "paid"
    assert traveller.been == bank.wanted
    assert bank.calls == 2


@pytest.mark.parametrize("traveller", [Traveller(Action.DECLINE), None])
async def test_a_call_is_not_begun_where_nobody_goes(traveller: Traveller | None) -> None:
    """It is not made again either."""
    bank = Bank(["https://a.example.org/"])

    outcome = await pay(bank, traveller)

    assert outcome.is_error
    assert "not started" in outcome.text
    assert bank.calls == 1


async def test_a_server_that_is_not_content_is_asked_twice_and_no_more() -> None:
    """It could send a person around for ever."""
    bank, traveller = Bank(["https://a.example.org/"], content=False), Traveller()

    outcome = await pay(bank, traveller)

    assert outcome.is_error
    assert bank.calls == 2
    assert len(traveller.been) == 1


async def test_nobody_is_sent_to_many_places_or_unsafe_ones() -> None:
    """Such a call fails."""
    many = Bank([f"https://a{n}.example.org/" for n in range(6)])
    unsafe = Bank(["http://a.example.org/"])
    for bank in (many, unsafe):
        traveller = Traveller()

        outcome = await pay(bank, traveller)

        assert outcome.is_error
        assert traveller.been == []
