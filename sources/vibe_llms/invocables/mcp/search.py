"""Search for tools by words, for servers with too many tools to describe all to a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.outcomes import Outcome

FOUND_AT_ONCE: Final = 10
"""Maximum number of tools that one search finds."""

_WORD: Final = re.compile(r"[a-z]+|[0-9]+|[^\W\d_a-z]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHOWN_CHARACTERS: Final = 200
_NAME_WEIGHT, _TEXT_WEIGHT, _BEGINNING_WEIGHT = 4, 2, 1

_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "Words for what the tool should do, or a part of its name.",
        }
    },
    "required": ["query"],
    "additionalProperties": False,
}


def find_tools(query: str, tools: Sequence[Invoker], limit: int = FOUND_AT_ONCE) -> list[Invoker]:
    """Return the tools that match the words best, best first; of equals the earlier ones.

    A word counts most in a tool's name, less in its description, and least as a prefix of a word
    there.
    """
    wanted = _split(query)
    scores = [(_score(wanted, tool), tool) for tool in tools]
    found = sorted((each for each in scores if each[0] > 0), key=lambda each: -each[0])
    return [tool for _, tool in found[:limit]]


def _score(wanted: Sequence[str], tool: Invoker) -> int:
    name, text = set(_split(tool.name)), set(_split(tool.description))
    total = 0
    for word in dict.fromkeys(wanted):
        if word in name:
            total += _NAME_WEIGHT
        elif word in text:
            total += _TEXT_WEIGHT
        # One or two letters are a prefix of nearly every word.
        elif len(word) > 2 and any(each.startswith(word) for each in (*name, *text)):
            total += _BEGINNING_WEIGHT
    return total


def _split(text: str) -> list[str]:
    # Split camelCase before lowercasing, which hides the boundaries.
    return _WORD.findall(_HUMP.sub(" ", text).lower())


class LazyList:
    """A server's tools, of which a model gets only those that it has found.

    Found tools are listed in the order in which they were found: a described tool keeps its
    position. Any addition changes the list, and invalidates the vendor's prompt cache, since tools
    stand at its beginning.

    Args:
        name: Of the server.
        changed: Called when a new tool was found.
    """

    def __init__(self, name: str, changed: Callable[[], None]) -> None:
        self._name = name
        self._changed = changed
        self._found: dict[str, None] = {}
        self._tools: Sequence[Invoker] = ()

    def offer(self, tools: Sequence[Invoker]) -> list[Invoker]:
        """Return the tools for a model: the search, and the found ones."""
        self._tools = tools
        by_name = {tool.name: tool for tool in tools}
        found = [by_name[name] for name in self._found if name in by_name]
        return [self._produce_search(), *found]

    def _produce_search(self) -> Invoker:
        return Invoker(
            name="search_tools",
            description=f"Finds tools of {self._name!r}, which has {len(self._tools)} of "
            "them, by words for what they should do. The tools found can be "
            "called from the next answer on.",
            schema=_SCHEMA,
            function=self._search,
            effect=Effect.IDEMPOTENT,
        )

    async def _search(self, arguments: JsonObject, context: InvocationContext) -> Outcome:
        found = find_tools(str(arguments["query"]), self._tools)
        if not found:
            names = ", ".join(tool.name for tool in self._tools[:50])
            more = "" if len(self._tools) <= 50 else " …"
            return Outcome(contents=f"No tool matches these words. The tools are: {names}{more}")
        fresh = [tool.name for tool in found if tool.name not in self._found]
        self._found.update(dict.fromkeys(fresh))
        if fresh:
            self._changed()
        return Outcome(contents="\n".join(map(_tell, found)))


def _tell(tool: Invoker) -> str:
    text = " ".join(tool.description.split())
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} …"
    return f"{tool.name}: {shown}"
