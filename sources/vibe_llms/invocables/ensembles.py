"""Related invokers with one life: connected together, and together gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import attrs

from vibe_llms.invocables.invokers import Invoker, produce_invoker
from vibe_llms.values import define

if TYPE_CHECKING:
    from vibe_llms.invocables.libraries import LibraryPrompt, Resource


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


def _ensure_invokers(given: Iterable[Invoker | Callable[..., Any]]) -> tuple[Invoker, ...]:
    return tuple(each if isinstance(each, Invoker) else produce_invoker(each) for each in given)


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


_Tool = Ensemble | Invoker | Callable[..., Any]


def list_tools(tools: Iterable[_Tool] | _Tool) -> tuple[_Tool, ...]:
    """Returns tools one by one, also where somebody gives but one."""
    if callable(tools) or isinstance(tools, (Ensemble, Invoker)):
        return (tools,)
    return tuple(tools)


def gather_ensembles(
    tools: Iterable[_Tool] | _Tool,
) -> tuple[Ensemble, ...]:
    """Makes ensembles of whatever somebody gives as tools.

    Args:
        tools: Ensembles, invokers and functions, mixed, or one of them; the last two become one
            ensemble.
    """
    ensembles: list[Ensemble] = []
    loose: list[Invoker | Callable[..., Any]] = []
    for tool in list_tools(tools):
        if isinstance(tool, Ensemble):
            ensembles.append(tool)
        else:
            loose.append(tool)
    functions = (FunctionsEnsemble(LOOSE, loose),) if loose else ()
    return (*functions, *ensembles)
