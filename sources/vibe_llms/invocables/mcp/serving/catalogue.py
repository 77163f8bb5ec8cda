"""Catalogue of everything offered, as last found: tools, resources, templates and prompts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import attrs
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.suggestions import find_near
from vibe_llms.invocables.ensembles import Library
from vibe_llms.invocables.libraries import LibraryPrompt, Resource
from vibe_llms.invocables.mcp.resources import ENTRIES_LIMIT
from vibe_llms.invocables.mcp.serving.describing import (
    describe_prompt,
    describe_resource,
    describe_tool,
)
from vibe_llms.invocables.registry import Registry

_LOGGER: Final = logging.getLogger(__name__)
_T = TypeVar("_T")

Page: TypeAlias = types.PaginatedRequestParams | None
"""The page of a list that a client requests."""

PAGE: Final = 250
"""Number of entries on one page of a list; many clients never ask for a second."""

_SURVEY_SECONDS: Final = 60.0


@frozen
class Lists:
    """The lists for clients, in a stable order."""

    tools: tuple[types.Tool, ...] = ()
    resources: tuple[types.Resource, ...] = ()
    templates: tuple[types.ResourceTemplate, ...] = ()
    prompts: tuple[types.Prompt, ...] = ()


@define(eq=False)
class EnsembleCatalogue:
    """Finds the content of a registry's ensembles, and resolves clients' names.

    Attributes:
        registry: The offered ensembles; connected.
        lists: The lists for clients.
    """

    registry: Registry
    lists: Lists = attrs.field(factory=Lists, init=False)
    _resources: dict[str, Sequence[Resource]] = attrs.field(factory=dict, init=False)
    _prompts: dict[str, Sequence[LibraryPrompt]] = attrs.field(factory=dict, init=False)
    _at: dict[str, Resource] = attrs.field(factory=dict, init=False)
    _named: dict[str, LibraryPrompt] = attrs.field(factory=dict, init=False)
    _is_stale: bool = attrs.field(default=True, init=False)
    _lock: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    def outdate(self) -> None:
        """Mark the lists as outdated."""
        self._is_stale = True

    async def refresh(self) -> Lists:
        """Survey all ensembles, if they may have changed; return the lists.

        An ensemble that cannot be asked keeps its entries, and the log reports it.
        """
        async with self._lock:
            if not self._is_stale:
                return self.lists
            # Before they are asked: an announcement during their answers makes the lists outdated
            # again.
            self._is_stale = False
            try:
                await self._survey_all()
            except BaseException:  # usually the caller was cancelled
                self._is_stale = True
                raise
            self._describe()
            return self.lists

    async def _survey_all(self) -> None:
        await self.registry.refresh()
        gone = self.registry.failures
        libraries = [
            each
            for each in self.registry.ensembles
            if isinstance(each, Library) and each.name not in gone
        ]
        await asyncio.gather(*map(self._survey, libraries))

    async def _survey(self, library: Library) -> None:
        resources = await _try(library.name, library.survey_resources)
        if resources is not None:
            self._resources[library.name] = resources
        prompts = await _try(library.name, library.survey_prompts)
        if prompts is not None:
            self._prompts[library.name] = prompts

    def _describe(self) -> None:
        described: dict[str, Any] = {}
        self._at.clear()
        for resource in self._list_resources():
            if not resource.is_listed:
                continue
            if resource.uri in described:
                _LOGGER.warning("Of two resources at %s the first is offered", resource.uri)
            described.setdefault(resource.uri, describe_resource(resource))
            if not resource.is_template:
                self._at.setdefault(resource.uri, resource)
        self._named = {}
        for ensemble in self.registry.ensembles:
            for prompt in self._prompts.get(ensemble.name, ()):
                name = prompt.writer.name
                if name in self._named:
                    name = f"{ensemble.name}__{name}"
                if name in self._named:
                    _LOGGER.warning("Of two prompts named %s the first is offered", name)
                self._named.setdefault(name, prompt)
        self.lists = Lists(
            tools=tuple(map(describe_tool, self.registry.survey())),
            resources=tuple(e for e in described.values() if isinstance(e, types.Resource)),
            templates=tuple(e for e in described.values() if isinstance(e, types.ResourceTemplate)),
            prompts=tuple(describe_prompt(*each) for each in self._named.items()),
        )

    def _list_resources(self) -> list[Resource]:
        return [
            resource
            for ensemble in self.registry.ensembles
            for resource in self._resources.get(ensemble.name, ())
        ]

    def compose_instructions(self) -> str | None:
        """Return the ensembles' instructions; with their names if there are several."""
        found = {
            each.name: str(getattr(each, "instructions", "") or "").strip()
            for each in self.registry.ensembles
        }
        said = [(name, text) for name, text in found.items() if text]
        if len(said) == 1:
            return said[0][1]
        return "\n\n".join(f"{name}:\n{text}" for name, text in said) or None

    def find_resource(self, uri: str) -> Resource | None:
        """Return the resource at an address: a listed one, then one of a template.

        An unlisted address is looked up if only one ensemble may have it; several are not asked in
        turn, because an address may disclose data of one to another.
        """
        if uri in self._at:
            return self._at[uri]
        others = [each for each in self._list_resources() if each.is_template]
        found = [each for each in others if each.match(uri) is not None]
        for resource in found:
            if resource.is_listed:
                return resource
        return found[0] if len(found) == 1 else None

    def access_template(self, uri: str) -> Resource:
        """Return a resource or template by its listed address.

        Raises:
            MCPError: It is unknown.
        """
        for resource in self._list_resources():
            if resource.uri == uri and resource.is_listed:
                return resource
        raise MCPError(INVALID_PARAMS, f"Unknown template {uri!r}.", {"uri": uri})

    def access_prompt(self, name: str) -> LibraryPrompt:
        """Return a prompt by its name.

        Raises:
            MCPError: It is unknown; names the nearest.
        """
        if name in self._named:
            return self._named[name]
        near = find_near(name, self._named)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise MCPError(INVALID_PARAMS, f"Unknown prompt {name!r}.{hint}")


async def _try(name: str, survey: Callable[[], Awaitable[Sequence[_T]]]) -> Sequence[_T] | None:
    """Survey an ensemble; log a failure."""
    try:
        async with asyncio.timeout(_SURVEY_SECONDS):
            found = tuple(await survey())
    except Exception as error:
        _LOGGER.warning("cannot list what %s has: %s", name, error or type(error).__name__)
        return None
    if len(found) > ENTRIES_LIMIT:
        _LOGGER.warning("%s has more than %d entries; the rest is left out", name, ENTRIES_LIMIT)
    return found[:ENTRIES_LIMIT]


def turn_page(
    entries: Sequence[_T], params: Page, identify: Callable[[_T], str]
) -> tuple[list[_T], str | None]:
    """Return the requested page of the list, and the cursor of the next.

    A cursor is the identifier of the previous page's last entry.

    Raises:
        MCPError: The cursor matches no entry of the list.
    """
    start = 0
    cursor = params.cursor if params else None
    if cursor is not None:
        start = next((n for n, each in enumerate(entries, 1) if identify(each) == cursor), -1)
    if start < 0:
        raise MCPError(INVALID_PARAMS, "Unknown cursor; start at the beginning")
    page = list(entries[start : start + PAGE])
    is_last = start + PAGE >= len(entries)
    return page, None if is_last else identify(page[-1])
