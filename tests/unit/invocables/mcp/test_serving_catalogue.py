"""What a server of tools finds of what its ensembles have."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PaginatedRequestParams

from vibe_llms.invocables import FunctionsEnsemble, Registry, produce_prompt, produce_resource
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.libraries import Resource
from vibe_llms.invocables.mcp.relaying import strip_meta
from vibe_llms.invocables.mcp.serving.catalogue import PAGE_ENTRIES, EnsembleCatalogue, turn_page
from vibe_llms.invocables.mcp.serving.describing import describe_tool
from vibe_llms.invocables.registry import Registration
from vibe_llms.messages.descriptions import InvocableDescription


def read() -> str:
    """Something to read."""
    return ""


def read_named(name: str) -> str:
    """Something with a name."""
    return name


def produce_elsewhere() -> Resource:
    """Makes what a server has that stands in no list."""
    made = produce_resource("{+name}", read_named)
    return Resource(uri="{+name}", reader=made.reader, is_listed=False)


async def survey(*ensembles: Any) -> EnsembleCatalogue:
    async with Registry(ensembles) as registry:
        catalogue = EnsembleCatalogue(registry)
        await catalogue.refresh()
        return catalogue


async def test_an_address_is_looked_for_where_it_is_listed_then_where_it_can_be() -> None:
    """Exactly, then by templates; what stands in no list with one ensemble, or nowhere."""
    exact = produce_resource("a:b", read)
    template = produce_resource("a:{name}", read_named)
    one = FunctionsEnsemble("one", resources=[template, exact, produce_elsewhere()])
    catalogue = await survey(one)
    assert catalogue.find_resource("a:b") is exact
    assert catalogue.find_resource("a:c") is template
    elsewhere = catalogue.find_resource("z:z")
    assert elsewhere is not None
    assert not elsewhere.is_listed

    both = await survey(one, FunctionsEnsemble("two", resources=[produce_elsewhere()]))
    assert both.find_resource("a:b") is exact
    assert both.find_resource("z:z") is None  # one of them would be told of the other's
    assert [each.uri for each in both.lists.resources] == ["a:b"]
    assert [each.uri_template for each in both.lists.templates] == ["a:{name}"]
    with pytest.raises(MCPError, match="Unknown template"):
        both.access_template("{+name}")


async def test_names_and_addresses_are_each_once(caplog: pytest.LogCaptureFixture) -> None:
    """Of two prompts the second has its ensemble's name; of two resources the first counts."""
    prompt, resource = produce_prompt(read), produce_resource("a:", read)
    pair = [FunctionsEnsemble(name, resources=[resource], prompts=[prompt]) for name in ("a", "b")]
    with caplog.at_level(logging.WARNING):
        catalogue = await survey(*pair)
    assert [each.name for each in catalogue.lists.prompts] == ["read", "b__read"]
    assert [each.uri for each in catalogue.lists.resources] == ["a:"]
    assert "the first is offered" in caplog.text
    other = produce_prompt(read, name="b__read")
    pair.append(FunctionsEnsemble("c", prompts=[other, produce_prompt(read_named, name="c__read")]))
    pair[1:1] = [FunctionsEnsemble("z", prompts=[other])]
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        catalogue = await survey(*pair)
    named = [each.name for each in catalogue.lists.prompts]
    assert named == ["read", "b__read", "c__b__read", "c__read"]
    assert "Of two prompts named b__read the first is offered" in caplog.text


async def test_an_ensemble_that_cannot_be_asked_keeps_what_it_had(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And the others are not kept from their news."""

    class Moody(FunctionsEnsemble):
        async def survey_resources(self) -> Any:
            if self.prompts:
                raise OSError("not now")
            return self.resources

    moody = Moody("moody", resources=[produce_resource("a:", read)])
    good = FunctionsEnsemble("good")
    async with Registry([moody, good]) as registry:
        catalogue = EnsembleCatalogue(registry)
        await catalogue.refresh()
        moody.prompts = (produce_prompt(read),)
        good.resources = (produce_resource("b:", read),)
        assert [each.uri for each in (await catalogue.refresh()).resources] == ["a:"]
        catalogue.mark_outdated()
        with caplog.at_level(logging.WARNING):
            lists = await catalogue.refresh()
    assert [each.uri for each in lists.resources] == ["a:", "b:"]
    assert [each.name for each in lists.prompts] == ["read"]
    assert "cannot list what moody has: not now" in caplog.text


async def test_what_ensembles_say_of_themselves_is_told_with_whose_it_is() -> None:
    """Of one as it is."""

    class Speaking(FunctionsEnsemble):
        instructions = " Read first. "

    class Silent(FunctionsEnsemble):
        instructions = ""

    assert (await survey(Speaking("a"), Silent("b"))).compose_instructions() == "Read first."
    assert (await survey(Silent("b"))).compose_instructions() is None
    both = (await survey(Speaking("a"), Speaking("b"))).compose_instructions()
    assert both == "a:\nRead first.\n\nb:\nRead first."


def test_pages_of_a_list_are_all_of_it() -> None:
    """Each entry once, whatever their number; a cursor that is none is an error."""
    for count in (0, 1, PAGE_ENTRIES, PAGE_ENTRIES + 1, 3 * PAGE_ENTRIES):
        entries = [str(number) for number in range(count)]
        found: list[str] = []
        cursor = None
        while True:
            params = PaginatedRequestParams(cursor=cursor) if cursor else None
            page, cursor = turn_page(entries, params, str)
            found += page
            if cursor is None:
                break
        assert found == entries
    with pytest.raises(MCPError, match="Unknown cursor"):
        turn_page(["a"], PaginatedRequestParams(cursor="b"), str)


def test_what_is_between_two_neighbours_goes_no_further() -> None:
    """What the protocol has for itself, and a token of progress."""
    said = {"io.modelcontextprotocol/protocolVersion": "x", "progressToken": 1, "a/b": {"c": 1}}
    assert strip_meta(said) == {"a/b": {"c": 1}}
    assert strip_meta(None) == {}


async def test_whoever_leaves_while_it_is_asked_keeps_no_news_from_the_others() -> None:
    """A client that gives up its list is no reason to go on with the old one."""
    asked = asyncio.Event()

    class Slow(FunctionsEnsemble):
        is_slow = False

        async def survey_resources(self) -> Any:
            if self.is_slow:
                asked.set()
                await asyncio.Event().wait()
            return await super().survey_resources()

    ensemble = Slow("slow", resources=[produce_resource("a:b", read)])
    async with Registry([ensemble]) as registry:
        catalogue = EnsembleCatalogue(registry)
        ensemble.is_slow = True
        leaving = asyncio.create_task(catalogue.refresh())
        await asked.wait()
        leaving.cancel()
        await asyncio.wait((leaving,))
        ensemble.is_slow = False
        assert [each.uri for each in (await catalogue.refresh()).resources] == ["a:b"]


@pytest.mark.parametrize("schema", [{}, {"type": ["object", "null"]}, {"type": "string"}])
def test_arguments_are_described_as_an_object(schema: dict[str, Any]) -> None:
    """Clients refuse a whole list of tools if the schema of one has another type."""
    invoker = Invoker(name="a", description="Does it.", schema=schema, function=read)
    description = InvocableDescription(name="a", description="Does it.", schema=schema)
    described = describe_tool(
        Registration(ensemble="one", invoker=invoker, description=description)
    )
    assert described.input_schema == {"type": "object"}
