"""Ensembles live once, in one task; their invokers have names of their own, which last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import EnsembleError, RequestError, UnknownNameError
from vibe_llms.invocables import Ensemble, FunctionsEnsemble, InvocationContext, Registry, perform
from vibe_llms.invocables.ensembles import describe_tools, gather_ensembles, list_tools
from vibe_llms.invocables.invoker_names import NAME_LENGTH, InvokerOrigin, assign_names
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.descriptions import CHOICES


def make(name: str, words: str = "") -> Invoker:
    """Makes an invoker that returns its words."""

    async def tell(arguments: Any, context: InvocationContext) -> str:
        return words

    return Invoker(name=name, description="Tells.", schema={"type": "object"}, function=tell)


@attrs.define(eq=False)
class Probe:
    """An ensemble that writes down what happens to it, and fails where it is told to."""

    name: str
    invokers: Sequence[Invoker] = ()
    failing: frozenset[str] = frozenset()
    hanging: frozenset[str] = frozenset()
    log: list[tuple[str, Any]] = attrs.field(factory=list)
    listeners: list[Callable[[], None]] = attrs.field(factory=list)

    async def _happen(self, what: str) -> None:
        self.log.append((what, asyncio.current_task()))
        if what in self.hanging:
            await asyncio.Event().wait()
        if what in self.failing:
            raise OSError(f"no {what} today")

    async def connect(self) -> None:
        """Connects."""
        await self._happen("connect")

    async def disconnect(self) -> None:
        """Disconnects."""
        await self._happen("disconnect")

    async def survey(self) -> Sequence[Invoker]:
        """Lists."""
        await self._happen("survey")
        return self.invokers

    def listen(self, listener: Callable[[], None]) -> None:
        """Keeps the listener."""
        self.listeners.append(listener)

    def count(self, what: str) -> int:
        """Counts what happened."""
        return sum(word == what for word, _ in self.log)


@pytest.fixture(autouse=True)
async def tasks() -> Any:
    """After every test, whatever its outcome, no task of an ensemble is left."""
    yield
    left = [task for task in asyncio.all_tasks() if task.get_name().startswith("ensemble")]
    assert left == []


async def test_an_ensemble_lives_once_and_in_one_task() -> None:
    """What a library opens in a task has to be closed in the same."""
    probes = [Probe("a"), Probe("b")]
    async with Registry(probes):
        assert [probe.count("connect") for probe in probes] == [1, 1]
        assert [probe.count("disconnect") for probe in probes] == [0, 0]
    for probe in probes:
        assert [word for word, _ in probe.log] == ["connect", "survey", "disconnect"]
        assert len({task for _, task in probe.log}) == 1
    assert probes[0].log[0][1] is not probes[1].log[0][1]


@pytest.mark.parametrize("stage", ["connect", "survey"])
async def test_one_that_cannot_be_used_is_explained_and_all_are_closed(stage: str) -> None:
    """The error names the ensemble and the reason; the others do not stay open."""
    good, bad = Probe("good"), Probe("bad", failing=frozenset({stage}))
    with pytest.raises(EnsembleError, match=f"'bad' cannot be .*: no {stage} today") as caught:
        await Registry([good, bad]).connect()

    assert caught.value.ensemble == "bad"
    assert isinstance(caught.value.__cause__, OSError)
    assert good.count("disconnect") == 1
    assert bad.count("disconnect") == (stage == "survey")


async def test_all_that_cannot_be_used_are_explained() -> None:
    """Two mistakes are told at once."""
    bad = [Probe(name, failing=frozenset({"connect"})) for name in ("first", "second")]
    with pytest.raises(EnsembleError, match=r"'first' .* 'second'"):
        await Registry(bad).connect()


async def test_a_tolerant_registry_goes_on_without() -> None:
    """One broken server does not take the others away."""
    good, bad = Probe("good", [make("tell")]), Probe("bad", failing=frozenset({"connect"}))
    async with Registry([bad, good], tolerant=True) as registry:
        assert list(registry.failures) == ["bad"]
        assert [each.name for each in registry.describe()] == ["tell"]


async def test_all_are_disconnected_even_when_one_fails_to() -> None:
    """A failing disconnect is on record and hinders no other."""
    bad, good = Probe("bad", failing=frozenset({"disconnect"})), Probe("good")
    registry = Registry([bad, good])
    async with registry:
        pass
    assert good.count("disconnect") == 1
    assert "cannot be disconnected: no disconnect today" in str(registry.failures["bad"])


@pytest.mark.parametrize("stage", ["connect", "survey"])
async def test_one_that_never_connects_is_given_up(stage: str) -> None:
    """Nobody waits for ever."""
    slow = Probe("slow", hanging=frozenset({stage}))
    with pytest.raises(EnsembleError, match=r"took longer than 0\.05 seconds"):
        await Registry([slow], connect_seconds=0.05).connect()


async def test_one_that_never_disconnects_is_given_up() -> None:
    """Not at the end either."""
    registry = Registry([Probe("slow", hanging=frozenset({"disconnect"}))], disconnect_seconds=0.05)
    async with registry:
        pass
    assert "took longer" in str(registry.failures["slow"])


async def test_cancelling_while_connecting_leaves_nothing_open() -> None:
    """What was connected is disconnected, what was connecting gives up."""
    ready, slow = Probe("ready"), Probe("slow", hanging=frozenset({"connect"}))
    task = asyncio.create_task(Registry([ready, slow]).connect())
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ready.count("disconnect") == 1
    assert slow.count("disconnect") == 0


async def test_cancelling_within_still_disconnects() -> None:
    """Leaving by cancellation is leaving."""
    probe = Probe("a")

    async def use() -> None:
        async with Registry([probe]):
            await asyncio.Event().wait()

    task = asyncio.create_task(use())
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert probe.count("disconnect") == 1


async def test_a_registry_serves_once() -> None:
    """Connecting twice is a mistake that is told."""
    registry = Registry([Probe("a")])
    async with registry:
        pass
    with pytest.raises(EnsembleError, match="connected before"):
        await registry.connect()


def test_two_ensembles_cannot_have_one_name() -> None:
    """The prefix would not tell them apart."""
    with pytest.raises(RequestError, match="called 'a'"):
        Registry([Probe("a"), Probe("a")])


async def test_a_collision_is_resolved_by_prefix_and_explained() -> None:
    """Both get the ensemble's name before theirs; whoever looks learns why."""
    files, web = Probe("files", [make("read", "f")]), Probe("web", [make("read", "w"), make("go")])
    async with Registry([files, web]) as registry:
        assert [each.name for each in registry.describe()] == ["files__read", "web__read", "go"]
        assert len(registry.collisions) == 2
        assert "'web'" in registry.collisions[1]
        outcome = await perform(registry.access("web__read"), {}, InvocationContext())
        assert outcome.text == "w"


async def test_an_unknown_name_gets_the_nearest() -> None:
    """The model can mend its call."""
    async with Registry([Probe("a", [make("read_file")])]) as registry:
        with pytest.raises(UnknownNameError, match="read_file") as caught:
            registry.access("readfile")
    assert caught.value.known == ("read_file",)


async def test_a_changed_list_is_surveyed_and_names_last() -> None:
    """What a model was told goes on to hold; a newcomer takes the prefix."""
    web, files = Probe("web", [make("go")]), Probe("files", [make("read")])
    async with Registry([web, files]) as registry:
        assert not await registry.refresh()
        assert web.count("survey") == 1
        web.invokers = [make("read"), make("go")]
        for listener in web.listeners:
            listener()
        assert await registry.refresh()
        names = [each.name for each in registry.describe()]
        assert names == ["web__read", "go", "read"]
        assert registry.access("read").name == "read"
        assert files.count("survey") == 1


async def test_a_survey_that_fails_later_keeps_what_was_known() -> None:
    """A server with a bad moment does not lose its invokers."""
    web = Probe("web", [make("go")])
    async with Registry([web]) as registry:
        web.failing = frozenset({"survey"})
        web.listeners[0]()
        await registry.refresh()
        assert registry.access("go").name == "go"
        assert "be surveyed" in str(registry.failures["web"])
        web.failing = frozenset()
        web.listeners[0]()
        await registry.refresh()
        assert registry.failures == {}


async def test_tools_can_be_given_in_any_form() -> None:
    """Functions, invokers and ensembles together."""

    def add(left: int, right: int) -> int:
        """Adds."""
        return left + right

    ensembles = gather_ensembles([add, Probe("web", [make("go")]), make("tell")])
    assert all(isinstance(each, Ensemble) for each in ensembles)
    async with Registry(ensembles) as registry:
        assert [each.name for each in registry.describe()] == ["add", "tell", "go"]
        outcome = await perform(
            registry.access("add"), {"left": 1, "right": 2}, InvocationContext()
        )
        assert outcome.text == "3"
    assert FunctionsEnsemble("more", [add]).invokers[0].name == "add"


NAMES = st.sampled_from(["read", "a__read", "b__read", "auto", "naïve name", "x" * 70, "", "a.b"])
NAMES |= st.text(max_size=70)
PLACES = st.lists(
    st.builds(InvokerOrigin, st.sampled_from(["a", "b", "a__b"]) | st.text(max_size=5), NAMES),
    unique=True,
    max_size=12,
)


@given(PLACES, PLACES)
def test_names_are_unique_lasting_and_acceptable_whatever_collides(
    first: list[InvokerOrigin], second: list[InvokerOrigin]
) -> None:
    """No two invokers share a name, none loses the one it had, every vendor takes them all."""
    held, _ = assign_names(first, {})
    again, _ = assign_names(first, {})
    later, explanations = assign_names([*second, *(p for p in first if p not in second)], held)

    assert held == again
    assert list(later)[: len(second)] == second
    assert {place: later[place] for place in first} == held
    assert len(set(later.values())) == len(later)
    assert not set(later.values()) & set(CHOICES)
    for name in later.values():
        assert 1 <= len(name) <= NAME_LENGTH
        assert name.isascii()
        assert name.replace("_", "a").replace("-", "a").isalnum()
    assert all(repr(explanation) for explanation in explanations)


async def test_a_mark_follows_a_function() -> None:
    """It is on the description that models get, of a plain function as of an engine's registry."""

    def first() -> str:
        """Return one."""
        return "1"

    def second() -> str:
        """Return two."""
        return "2"

    tools = [first, second, CacheHint("1h")]
    assert [each.cache for each in describe_tools(tools)] == [None, CacheHint("1h")]
    async with Registry(gather_ensembles(tools)) as registry:
        assert [each.cache for each in registry.describe()] == [None, CacheHint("1h")]


def test_a_mark_without_a_function_is_refused() -> None:
    ensemble = FunctionsEnsemble("e")
    for tools in ([CacheHint()], [ensemble, CacheHint()]):
        with pytest.raises(RequestError, match="does not follow a function"):
            list_tools(tools)
