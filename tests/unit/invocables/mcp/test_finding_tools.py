"""Finding tools by words, in an order that stays."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.invocables import InvocationContext, measure_schemas, perform, produce_invoker
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.mcp.search import RESULTS_LIMIT, LazyList, find_tools


def make(name: str, description: str = "Does a thing.") -> Invoker:
    """Returns a tool."""
    return produce_invoker(
        lambda arguments: None, name=name, description=description, schema={"type": "object"}
    )


TOOLS = (
    make("readFile", "Reads a file."),
    make("write_file", "Writes a file, with paint."),
    make("paint-wall", "Covers a wall."),
    make("list", "Shows the folder."),
)


def test_a_name_counts_more_than_a_description() -> None:
    """Words are found in names whatever way they are joined, then in descriptions."""
    assert [tool.name for tool in find_tools("paint", TOOLS)] == ["paint-wall", "write_file"]
    assert [tool.name for tool in find_tools("READ", TOOLS)] == ["readFile"]
    assert [tool.name for tool in find_tools("fold", TOOLS)] == ["list"]
    assert find_tools("nothing-like-it", TOOLS) == []


@given(st.text(max_size=30), st.lists(st.text(max_size=10), max_size=30))
def test_whatever_is_asked_the_answer_is_the_same_each_time(query: str, names: list[str]) -> None:
    """No words and no names are too strange, and no more than so many are found."""
    tools = [make(name) for name in names if name.strip()]

    found = find_tools(query, tools)

    assert [id(each) for each in found] == [id(each) for each in find_tools(query, tools)]
    assert len(found) <= RESULTS_LIMIT


async def test_what_was_found_is_told_in_the_order_of_the_finding() -> None:
    """A tool keeps its place when others are found, and when the server lists it elsewhere."""
    changes: list[None] = []
    lazy = LazyList("workshop", lambda: changes.append(None))

    (search,) = lazy.offer(TOOLS)
    outcome = await perform(search, {"query": "list"}, InvocationContext())
    assert outcome.text == "list: Shows the folder."
    await perform(search, {"query": "paint"}, InvocationContext())
    await perform(search, {"query": "paint"}, InvocationContext())

    names = [tool.name for tool in lazy.offer(tuple(reversed(TOOLS)))]
    assert names == ["search_tools", "list", "paint-wall", "write_file"]
    assert len(changes) == 2
    assert [tool.name for tool in lazy.offer(TOOLS[:1])] == ["search_tools"]


async def test_a_search_that_finds_nothing_shows_what_there_is() -> None:
    """So the next one can use the right words."""
    (search,) = LazyList("workshop", lambda: None).offer(TOOLS)

    outcome = await perform(search, {"query": "nothing-like-it"}, InvocationContext())

    assert "readFile, write_file, paint-wall, list" in outcome.text


def test_schemas_cost_what_their_text_costs() -> None:
    """More tools cost more, and a long schema costs about what its text does."""
    long = produce_invoker(
        lambda arguments: None,
        name="long",
        description="Does it.",
        schema={
            "type": "object",
            "properties": {f"word{i}": {"type": "string"} for i in range(100)},
        },
    )

    none, small, large = measure_schemas(()), measure_schemas(TOOLS), measure_schemas((long,))

    assert none.tokens == 0
    assert small.tokens > 4 * 12
    characters = len(json.dumps(long.schema))
    assert characters / 8 < large.tokens < characters / 2
    assert measure_schemas((*TOOLS, long)).tokens == small.tokens + large.tokens
