"""Related invokers with one life: connected together, and together gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.invocables.invokers import Invoker, produce_invoker
from vibe_llms.messages.descriptions import InvocableDescription

if TYPE_CHECKING:
    from vibe_llms.invocables.libraries import LibraryPrompt, Resource
    from vibe_llms.invocables.registry import Registry


@runtime_checkable
class Ensemble(Protocol):
    """Several invokers with one life, one configuration and one namespace.

    A registry calls ``listen`` once, then ``connect`` once, then ``survey`` whenever the
    invokers may have changed, and ``disconnect`` once if ``connect`` had returned; connect and
    disconnect in one and the same task. What ``connect`` had opened when it raises or is
    cancelled, it closes itself. One that may take longer than others to connect, because a
    person is waited for, says so with an attribute ``connect_seconds``; one that may have more
    invokers later, with ``may_grow = True``; one that has something to say of all of them, to
    programs, with a text ``instructions``. One that has more than invokers is a :class:`Library`.
    """

    @property
    def name(self) -> str:
        """Its name: the prefix of its invokers, where one is needed."""

    async def connect(self) -> None:
        """Opens what it needs."""

    async def disconnect(self) -> None:
        """Closes it. Also called after the other side has gone."""

    async def survey(self) -> Sequence[Invoker]:
        """Returns its invokers, in an order that stays."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Takes whom to call, in the event loop, when the invokers have changed."""


@runtime_checkable
class Library(Ensemble, Protocol):
    """An ensemble that has resources and prompts, too, for programs and their users.

    They are asked for whenever the invokers may have changed, and when somebody has begun.
    """

    async def survey_resources(self) -> Sequence[Resource]:
        """Returns what can be read, in an order that stays."""

    async def survey_prompts(self) -> Sequence[LibraryPrompt]:
        """Returns what was written beforehand for users to choose, in an order that stays."""


LOOSE: Final = "functions"
"""The name of the ensemble that functions become which are given as tools by themselves."""


_Loose: TypeAlias = Invoker | InvocableDescription | Callable[..., Any]


def _ensure_invokers(given: Iterable[_Loose]) -> tuple[Invoker, ...]:
    return tuple(map(produce_invoker, given))


@define(eq=False)
class FunctionsEnsemble:
    """Functions of this process; nothing has to be opened for them.

    Attributes:
        name: The prefix of the functions, where one is needed.
        invokers: Functions may be given as they are.
        resources: What programs can read.
        prompts: What their users can choose.
    """

    name: str
    invokers: tuple[Invoker, ...] = attrs.field(default=(), converter=_ensure_invokers)
    resources: tuple[Resource, ...] = attrs.field(default=(), converter=tuple, kw_only=True)
    prompts: tuple[LibraryPrompt, ...] = attrs.field(default=(), converter=tuple, kw_only=True)

    async def connect(self) -> None:
        """Does nothing: functions need no connection."""

    async def disconnect(self) -> None:
        """Does nothing."""

    async def survey(self) -> Sequence[Invoker]:
        """Returns the functions, in the order in which they were given."""
        return self.invokers

    async def survey_resources(self) -> Sequence[Resource]:
        """Returns the resources, in the order in which they were given."""
        return self.resources

    async def survey_prompts(self) -> Sequence[LibraryPrompt]:
        """Returns the prompts, in the order in which they were given."""
        return self.prompts

    def listen(self, listener: Callable[[], None]) -> None:
        """Does nothing: the functions stay."""


class LentEnsemble:
    """The invokers of a registry that is connected, for another one; it stays as it is.

    Args:
        registry: As of now: what its ensembles have later is not here.
    """

    name: Final = "lent"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def connect(self) -> None:
        """Does nothing: it is connected."""

    async def disconnect(self) -> None:
        """Does nothing: who has connected it, disconnects it."""

    async def survey(self) -> Sequence[Invoker]:
        """Returns the invokers, by the names that the model knows."""
        return tuple(each.invoker for each in self._registry.survey())

    def listen(self, listener: Callable[[], None]) -> None:
        """Does nothing."""


Tool: TypeAlias = Ensemble | Invoker | InvocableDescription | Callable[..., Any]
"""What can be given as a tool: a function, an invoker, a description, or an ensemble of them."""


def describe_tools(tools: Iterable[Tool] | Tool) -> tuple[InvocableDescription, ...]:
    """Describes tools that need no connection, for a model whose calls come back.

    Raises:
        RequestError: One is an ensemble, which has to be connected first.
    """
    described: list[InvocableDescription] = []
    for tool in list_tools(tools):
        if isinstance(tool, Ensemble) and not isinstance(tool, FunctionsEnsemble):
            raise RequestError(
                path="tools",
                detail=f"The ensemble {tool.name!r} must be connected before it can be described.",
                remedy="Use `ask`, `answer` or `stream`; or pass it to an Engine.",
            )
        invokers = tool.invokers if isinstance(tool, FunctionsEnsemble) else (tool,)
        described += [
            each if isinstance(each, InvocableDescription) else produce_invoker(each).describe()
            for each in invokers
        ]
    return tuple(described)


def list_tools(tools: Iterable[Tool] | Tool) -> tuple[Tool, ...]:
    """Returns tools one by one, also where somebody gives but one."""
    if callable(tools) or isinstance(tools, (Ensemble, Invoker, InvocableDescription)):
        return (tools,)
    return tuple(tools)


def gather_ensembles(
    tools: Iterable[Tool] | Tool,
) -> tuple[Ensemble, ...]:
    """Makes ensembles of whatever somebody gives as tools.

    Args:
        tools: Ensembles, invokers and functions, mixed, or one of them; the last two become one
            ensemble.
    """
    ensembles: list[Ensemble] = []
    loose: list[_Loose] = []
    for tool in list_tools(tools):
        if isinstance(tool, Ensemble):
            ensembles.append(tool)
        else:
            loose.append(tool)
    functions = (FunctionsEnsemble(LOOSE, loose),) if loose else ()
    return (*functions, *ensembles)
