"""Search for tools, for servers with too many tools to describe them all to a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.outcomes import Outcome

RESULTS_LIMIT: Final = 10
"""Maximum number of tools that one search finds."""

_WORD: Final = re.compile(r"[a-z]+|[0-9]+|[^\W\d_a-z]+")
_CAMEL_CASE_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHOWN_CHARACTERS: Final = 200
_NAME_WEIGHT, _TEXT_WEIGHT, _PREFIX_WEIGHT = 4, 2, 1

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


def find_tools(query: str, tools: Sequence[Invoker], limit: int = RESULTS_LIMIT) -> list[Invoker]:
    """Return the tools that match the words best, best first; ties keep their original order.

    A word counts most in a tool's name, less in its description, and least as the prefix of a word
    in either.
    """
    words = _split(query)
    scores = [(_score(words, tool), tool) for tool in tools]
    matches = [(score, tool) for score, tool in scores if score > 0]
    matches.sort(key=lambda match: -match[0])
    return [tool for _, tool in matches[:limit]]


def _score(words: Sequence[str], tool: Invoker) -> int:
    name, text = set(_split(tool.name)), set(_split(tool.description))
    total = 0
    for word in dict.fromkeys(words):
        if word in name:
            total += _NAME_WEIGHT
        elif word in text:
            total += _TEXT_WEIGHT
        # Not for one or two letters, which are the prefix of many words.
        elif len(word) > 2 and any(each.startswith(word) for each in (*name, *text)):
            total += _PREFIX_WEIGHT
    return total


def _split(text: str) -> list[str]:
    # Split camelCase first, because lower case hides its boundaries.
    return _WORD.findall(_CAMEL_CASE_BOUNDARY.sub(" ", text).lower())


class LazyList:
    """A server's tools, of which a model gets only the tools that it has found.

    Found tools are listed in the order in which they were found, so that a described tool keeps its
    position. Each addition invalidates the vendor's prompt cache, which starts with the tools.

    Args:
        name: The name of the server.
        changed: Called when a new tool was found.
    """

    def __init__(self, name: str, changed: Callable[[], None]) -> None:
        self._name = name
        self._changed = changed
        self._found: dict[str, None] = {}
        self._tools: Sequence[Invoker] = ()

    def offer(self, tools: Sequence[Invoker]) -> list[Invoker]:
        """Return the tools for a model: the search, and the tools found so far."""
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
        new_names = [tool.name for tool in found if tool.name not in self._found]
        self._found.update(dict.fromkeys(new_names))
        if new_names:
            self._changed()
        return Outcome(contents="\n".join(map(_describe, found)))


def _describe(tool: Invoker) -> str:
    text = " ".join(tool.description.split())
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} …"
    return f"{tool.name}: {shown}"
