"""Ensembles: related invokers that are connected and disconnected together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import FunctionType, MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Protocol,
    TypeAlias,
    runtime_checkable,
)

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.invocables.invokers import Invoker, produce_invoker
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.descriptions import InvocableDescription, describe_server_tool
from vibe_llms.messages.server_tools import ServerTool

if TYPE_CHECKING:
    from vibe_llms.invocables.libraries import LibraryPrompt, Resource


@runtime_checkable
class Ensemble(Protocol):
    """Several invokers with one life cycle, one configuration and one namespace.

    A registry calls ``listen`` once, then ``connect`` once, then ``survey`` whenever the invokers
    may have changed, and ``disconnect`` once if ``connect`` had returned. It calls ``connect`` and
    ``disconnect`` in the same task. If ``connect`` raises or is cancelled, it must close everything
    that it has opened.

    Optional attributes: ``connect_seconds`` for a longer timeout, when a person must act;
    ``may_grow = True`` if more invokers may appear later; ``tools`` with all invokers, if a model
    must search for some of them; ``instructions``, a text about all invokers for programs. An
    ensemble that also has resources or prompts is a :class:`Library`.
    """

    @property
    def name(self) -> str:
        """Name of the ensemble, which is the prefix of its invokers, if a prefix is needed."""

    async def connect(self) -> None:
        """Open the required resources.

        If it raises an error or is cancelled, for example after a timeout, it must close what it
        has opened: ``disconnect`` is only called after it has returned.
        """

    async def disconnect(self) -> None:
        """Close the resources. Also called after the peer has disconnected."""

    async def survey(self) -> Sequence[Invoker]:
        """Return the ensemble's invokers, in a stable order."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Set the callback, called in the event loop, for changes of the invokers."""


@runtime_checkable
class Library(Ensemble, Protocol):
    """An ensemble that also has resources and prompts, for programs and their users.

    They are surveyed whenever the invokers may have changed, and at the start.
    """

    async def survey_resources(self) -> Sequence[Resource]:
        """Return the readable resources, in a stable order."""

    async def survey_prompts(self) -> Sequence[LibraryPrompt]:
        """Return the prompts that users can choose, in a stable order."""


FUNCTIONS: Final = "functions"
"""Name of the ensemble that holds functions given directly as tools."""


_SingleTool: TypeAlias = Invoker | InvocableDescription | ServerTool | Callable[..., Any]


def _ensure_invokers(tools: Iterable[_SingleTool]) -> tuple[Invoker, ...]:
    return tuple(map(produce_invoker, tools))


@define(eq=False)
class FunctionsEnsemble:
    """Functions of this process; they need no connection.

    Attributes:
        name: The prefix of the functions, if one is needed.
        invokers: Invokers or plain functions.
        resources: Resources for programs.
        prompts: Prompts for their users.
    """

    name: str
    invokers: tuple[Invoker, ...] = attrs.field(default=(), converter=_ensure_invokers)
    resources: tuple[Resource, ...] = attrs.field(default=(), converter=tuple, kw_only=True)
    prompts: tuple[LibraryPrompt, ...] = attrs.field(default=(), converter=tuple, kw_only=True)

    async def connect(self) -> None:
        """Do nothing: functions need no connection."""

    async def disconnect(self) -> None:
        """Do nothing."""

    async def survey(self) -> Sequence[Invoker]:
        """Return the functions, in the given order."""
        return self.invokers

    async def survey_resources(self) -> Sequence[Resource]:
        """Return the resources, in the given order."""
        return self.resources

    async def survey_prompts(self) -> Sequence[LibraryPrompt]:
        """Return the prompts, in the given order."""
        return self.prompts

    def listen(self, listener: Callable[[], None]) -> None:
        """Do nothing: the functions do not change."""


Tool: TypeAlias = Ensemble | Invoker | InvocableDescription | ServerTool | Callable[..., Any]
"""Forms of a tool: a function, an invoker, a description, a server tool, or an ensemble of tools.
"""

Tools: TypeAlias = Iterable[Tool | CacheHint] | Tool
"""Tools, among which there may be marks for prompt caches."""


_USUAL_TOOLS: Final = (Invoker, InvocableDescription, ServerTool, FunctionType, MethodType)


def describe_tools(tools: Tools) -> tuple[InvocableDescription, ...]:
    """Describe tools that need no connection, for a model whose calls are returned.

    Raises:
        RequestError: One is an ensemble, which must be connected first.
    """
    described: list[InvocableDescription] = []
    for tool in list_tools(tools):
        if not isinstance(tool, (*_USUAL_TOOLS, FunctionsEnsemble)) and isinstance(tool, Ensemble):
            raise RequestError(
                path="tools",
                detail=f"The ensemble {tool.name!r} must be connected before it can be described.",
                remedy="Use `ask`, `answer` or `stream`; or pass it to an Engine.",
            )
        invokers = tool.invokers if isinstance(tool, FunctionsEnsemble) else (tool,)
        described += [
            each if isinstance(each, InvocableDescription) else _describe(each) for each in invokers
        ]
    return tuple(described)


def _describe(tool: _SingleTool) -> InvocableDescription:
    if isinstance(tool, ServerTool):
        return describe_server_tool(tool)
    return produce_invoker(tool).describe()


def is_ensemble(tool: Tool) -> bool:
    """Return whether a tool is an ensemble; usual tools are recognized without a slow check."""
    return not isinstance(tool, _USUAL_TOOLS) and isinstance(tool, Ensemble)


def list_tools(tools: Tools) -> tuple[Tool, ...]:
    """Return tools as a tuple; a single tool becomes a tuple of one.

    A mark among them becomes a field of the tool before it.

    Raises:
        RequestError: A cache hint does not follow a function.
    """
    if callable(tools) or isinstance(tools, (Ensemble, Invoker, InvocableDescription, ServerTool)):
        return (tools,)
    listed: list[Tool] = []
    for tool in tools:
        if not isinstance(tool, CacheHint):
            listed.append(tool)
        elif listed and isinstance(listed[-1], _USUAL_TOOLS):
            listed[-1] = attrs.evolve(produce_invoker(listed[-1]), cache=tool)
        else:
            raise RequestError(
                path="tools",
                detail="This cache hint does not follow a function.",
                remedy="Put it behind a function, or set cache=CacheHint() for the whole request.",
            )
    return tuple(listed)


def gather_ensembles(
    tools: Tools,
) -> tuple[Ensemble, ...]:
    """Turn tools of any form into ensembles.

    Args:
        tools: A sequence of ensembles, invokers and functions, or a single one. All invokers and
            functions together become one ensemble.
    """
    ensembles: list[Ensemble] = []
    functions: list[_SingleTool] = []
    for tool in list_tools(tools):
        if not isinstance(tool, _USUAL_TOOLS) and isinstance(tool, Ensemble):
            ensembles.append(tool)
        else:
            functions.append(tool)
    shared = (FunctionsEnsemble(FUNCTIONS, functions),) if functions else ()
    return (*shared, *ensembles)
