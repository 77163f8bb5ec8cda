"""Catalogue of the offered tools, resources, templates and prompts, as of the last survey."""

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

PAGE_ENTRIES: Final = 250
"""Number of entries on a page of a list; many clients only request the first page."""

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
    """Surveys a registry's ensembles, and finds their content by clients' names.

    Attributes:
        registry: The registry, which is connected.
        lists: The lists for clients.
    """

    registry: Registry
    lists: Lists = attrs.field(factory=Lists, init=False)
    _resources: dict[str, Sequence[Resource]] = attrs.field(factory=dict, init=False)
    _prompts: dict[str, Sequence[LibraryPrompt]] = attrs.field(factory=dict, init=False)
    _resources_by_uri: dict[str, Resource] = attrs.field(factory=dict, init=False)
    _prompts_by_name: dict[str, LibraryPrompt] = attrs.field(factory=dict, init=False)
    _is_outdated: bool = attrs.field(default=True, init=False)
    _lock: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    def mark_outdated(self) -> None:
        """Mark the lists as outdated."""
        self._is_outdated = True

    async def refresh(self) -> Lists:
        """Survey all ensembles, if they may have changed; return the lists.

        An ensemble whose survey fails keeps its entries, and the failure is logged.
        """
        async with self._lock:
            if not self._is_outdated:
                return self.lists
            # Reset before the survey, because a change announced meanwhile needs another survey.
            self._is_outdated = False
            try:
                await self._survey_all()
            except BaseException:  # usually the caller was cancelled
                self._is_outdated = True
                raise
            self._describe()
            return self.lists

    async def _survey_all(self) -> None:
        await self.registry.refresh()
        failed = self.registry.failures
        libraries = [
            each
            for each in self.registry.ensembles
            if isinstance(each, Library) and each.name not in failed
        ]
        await asyncio.gather(*map(self._survey, libraries))

    async def _survey(self, library: Library) -> None:
        resources = await _survey_safely(library.name, library.survey_resources)
        if resources is not None:
            self._resources[library.name] = resources
        prompts = await _survey_safely(library.name, library.survey_prompts)
        if prompts is not None:
            self._prompts[library.name] = prompts

    def _describe(self) -> None:
        described: dict[str, Any] = {}
        self._resources_by_uri.clear()
        for resource in self._list_resources():
            if not resource.is_listed:
                continue
            if resource.uri in described:
                _LOGGER.warning("Of two resources at %s the first is offered", resource.uri)
            described.setdefault(resource.uri, describe_resource(resource))
            if not resource.is_template:
                self._resources_by_uri.setdefault(resource.uri, resource)
        self._prompts_by_name = {}
        for ensemble in self.registry.ensembles:
            for prompt in self._prompts.get(ensemble.name, ()):
                name = prompt.writer.name
                if name in self._prompts_by_name:
                    name = f"{ensemble.name}__{name}"
                if name in self._prompts_by_name:
                    _LOGGER.warning("Of two prompts named %s the first is offered", name)
                self._prompts_by_name.setdefault(name, prompt)
        self.lists = Lists(
            tools=tuple(map(describe_tool, self.registry.survey())),
            resources=tuple(e for e in described.values() if isinstance(e, types.Resource)),
            templates=tuple(e for e in described.values() if isinstance(e, types.ResourceTemplate)),
            prompts=tuple(describe_prompt(*each) for each in self._prompts_by_name.items()),
        )

    def _list_resources(self) -> list[Resource]:
        return [
            resource
            for ensemble in self.registry.ensembles
            for resource in self._resources.get(ensemble.name, ())
        ]

    def compose_instructions(self) -> str | None:
        """Return the ensembles' instructions; with their names if there are several."""
        texts = {
            each.name: str(getattr(each, "instructions", "") or "").strip()
            for each in self.registry.ensembles
        }
        texts = {name: text for name, text in texts.items() if text}
        if len(texts) == 1:
            return next(iter(texts.values()))
        return "\n\n".join(f"{name}:\n{text}" for name, text in texts.items()) or None

    def find_resource(self, uri: str) -> Resource | None:
        """Return the resource at an address: a listed resource, or else the resource of a template.

        For an unlisted address, only a single possible ensemble is asked: an address may contain
        data of one ensemble that others must not receive.
        """
        if uri in self._resources_by_uri:
            return self._resources_by_uri[uri]
        templates = [each for each in self._list_resources() if each.is_template]
        matches = [each for each in templates if each.match(uri) is not None]
        for resource in matches:
            if resource.is_listed:
                return resource
        return matches[0] if len(matches) == 1 else None

    def access_template(self, uri: str) -> Resource:
        """Return a resource or template by its listed address.

        Raises:
            MCPError: The address is unknown.
        """
        for resource in self._list_resources():
            if resource.uri == uri and resource.is_listed:
                return resource
        raise MCPError(INVALID_PARAMS, f"Unknown template {uri!r}.", {"uri": uri})

    def access_prompt(self, name: str) -> LibraryPrompt:
        """Return a prompt by its name.

        Raises:
            MCPError: The name is unknown; the message suggests a similar one.
        """
        if name in self._prompts_by_name:
            return self._prompts_by_name[name]
        near = find_near(name, self._prompts_by_name)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise MCPError(INVALID_PARAMS, f"Unknown prompt {name!r}.{hint}")


async def _survey_safely(
    name: str, survey: Callable[[], Awaitable[Sequence[_T]]]
) -> Sequence[_T] | None:
    """Survey an ensemble; log a failure."""
    try:
        async with asyncio.timeout(_SURVEY_SECONDS):
            entries = tuple(await survey())
    except Exception as error:
        _LOGGER.warning("cannot list what %s has: %s", name, error or type(error).__name__)
        return None
    if len(entries) > ENTRIES_LIMIT:
        _LOGGER.warning("%s has more than %d entries; the rest is left out", name, ENTRIES_LIMIT)
    return entries[:ENTRIES_LIMIT]


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
    page = list(entries[start : start + PAGE_ENTRIES])
    is_last = start + PAGE_ENTRIES >= len(entries)
    return page, None if is_last else identify(page[-1])
