"""Whatever a tool returns or raises, its call has a stored outcome, and is not executed again."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.runs.acting import invoke, say, script
from vibe_llms import Conversation, Engine
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.messages.canisters import ResultCanister, UserCanister
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.views import text_of


class Bare(BaseException):
    """What nobody expects."""


class Mute(Exception):
    """Cannot be told."""

    def __str__(self) -> str:
        raise Bare


class Shy:
    """Can be neither shown nor compared nor gone through."""

    def __repr__(self) -> str:
        raise Bare

    def __eq__(self, other: object) -> bool:
        raise Bare

    def __hash__(self) -> int:
        raise Bare

    def __iter__(self) -> Any:
        raise Bare

    @property
    def __class__(self) -> Any:
        raise Bare

    @__class__.setter
    def __class__(self, kind: Any) -> None: ...


class Sly(str):
    """A text that lies about itself."""

    def __str__(self) -> str:
        raise Bare

    def __bool__(self) -> bool:
        raise Bare

    def encode(self, *_: Any) -> bytes:  # type: ignore[override]
        raise Bare


def nest(depth: int) -> list[Any]:
    """Returns a list within a list, so deep."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def make_ring() -> list[Any]:
    """Returns a list that holds itself."""
    ring: list[Any] = []
    ring.append(ring)
    return ring


TEXTS = st.text(st.characters(exclude_categories=()), max_size=8)  # with halves of pairs
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(max_size=4)
    | st.complex_numbers() | st.dates() | st.uuids() | st.decimals(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(TEXTS | st.integers() | st.none(), inner, max_size=3)
    | st.tuples(inner)
    | st.frozensets(st.integers() | TEXTS, max_size=3),
    max_leaves=6,
)  # fmt: skip
ODDITIES: dict[str, Callable[[], Any]] = {
    "ring": make_ring,
    "depth": lambda: nest(50_000),
    "shy": Shy,
    "sly": lambda: Sly("caf\udce9"),
    "generator": lambda: (number for number in range(3)),
    "endless": itertools.count,
    "number": lambda: [10**5_000],
    "class": lambda: int,
    "function": lambda: nest,
    "outcome": lambda: Outcome(contents="fine", is_error=True),
    "mixture": lambda: [TextualContent("a"), "\ud83d\ude00 \ud83d"],
    "not a number": lambda: {"a": float("nan"), "b": [float("inf")]},
}
ERRORS: dict[str, Callable[[], BaseException]] = {
    "bare": lambda: Bare("caf\udce9"),
    "mute": Mute,
    "exit": lambda: SystemExit(3),
    "generator": GeneratorExit,
    "cancelled": asyncio.CancelledError,
    "group": lambda: BaseExceptionGroup("several", [Bare(), Mute()]),
    "stop": lambda: StopIteration(1),
    "stop async": StopAsyncIteration,
    "name": lambda: type("Caf\udce9", (BaseException,), {})("odd"),
    "os": lambda: FileNotFoundError(2, "No such file", "caf\udce9"),
    "recursion": RecursionError,
    "memory": MemoryError,
}


@attrs.define
class Tool:
    """Does something once, which is counted, and then what it is told."""

    act: Callable[[], Any]
    is_asynchronous: bool
    done: int = 0

    def produce_invoker(self) -> Invoker:
        def work(arguments: Any, context: Any) -> Any:
            self.done += 1
            return self.act()

        async def work_in_loop(arguments: Any, context: Any) -> Any:
            return work(arguments, context)

        function = work_in_loop if self.is_asynchronous else work
        schema = {"type": "object"}
        return Invoker(name="tool", description="Acts.", schema=schema, function=function)


def begin() -> Conversation:
    """Returns a conversation in which something was asked."""
    conversation = Conversation()
    conversation.add_canister(UserCanister("Hello"))
    return conversation


async def run_twice(act: Callable[[], Any], *, is_asynchronous: bool) -> tuple[Tool, str]:
    """Runs a conversation in which a tool is called, and goes on with it from the disk."""
    tool = Tool(act, is_asynchronous)
    with tempfile.TemporaryDirectory() as folder:
        store = DirectoryStore(Path(folder))
        engine = Engine(
            script([invoke("tool")], [say("Done.")]), [tool.produce_invoker()], store=store
        )
        conversation = begin()
        await engine.run(conversation)
        stored = Conversation.restore(store, conversation.id)
        again = await Engine(script([say("Again.")]), [tool.produce_invoker()], store=store).run(
            stored
        )
    results = [each for each in again.canisters if isinstance(each, ResultCanister)]
    assert len(results) == 1
    assert text_of(again.canisters[-1]) == "Done."
    return tool, text_of(results[0])


def raise_it(make: Callable[[], BaseException]) -> Callable[[], Any]:
    """Makes what raises an error."""

    def act() -> Any:
        raise make()

    return act


BOTH = pytest.mark.parametrize("is_asynchronous", [True, False], ids=["async", "thread"])


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("oddity", ODDITIES)
async def test_whatever_is_returned_is_stored(oddity: str, is_asynchronous: bool) -> None:
    """Or else that it cannot be told; the tool is not executed again."""
    tool, _ = await run_twice(ODDITIES[oddity], is_asynchronous=is_asynchronous)
    assert tool.done == 1


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("error", ERRORS)
async def test_whatever_is_raised_is_stored(error: str, is_asynchronous: bool) -> None:
    """As the words of a failure; the tool is not executed again."""
    tool, text = await run_twice(raise_it(ERRORS[error]), is_asynchronous=is_asynchronous)

    assert tool.done == 1
    assert "tool failed" in text or "cancelled itself" in text


@pytest.mark.slow
@settings(deadline=None)
@given(VALUES, st.booleans())
def test_any_value_is_stored(value: Any, is_asynchronous: bool) -> None:
    """Halves of surrogate pairs, numbers beyond all bounds, keys that JSON does not have."""
    tool, _ = asyncio.run(run_twice(lambda: value, is_asynchronous=is_asynchronous))
    assert tool.done == 1


async def test_names_of_files_stay_apart() -> None:
    """What the system cannot write is written out, as it is in names that are no UTF-8."""
    names = ["caf\udce9.txt", "caf\udce8.txt", "\ud83d\ude00"]

    _, text = await run_twice(lambda: names, is_asynchronous=True)
    assert text == r'["caf\\udce9.txt","caf\\udce8.txt","😀"]'
    _, text = await run_twice(lambda: "\n".join(names), is_asynchronous=False)
    assert text == "caf\\udce9.txt\ncaf\\udce8.txt\n😀"


async def test_what_cannot_be_told_was_executed_all_the_same() -> None:
    """The model must not take it for a call that failed, and make it again."""
    _, text = await run_twice(make_ring, is_asynchronous=True)
    assert text.startswith("tool was executed, but its result cannot be converted: RecursionErr")


def test_an_interrupt_out_of_a_tool_ends_the_host_and_leaves_the_call_in_doubt(
    tmp_path: Path,
) -> None:
    """It is known to have begun; taken up again, somebody is asked before it is executed again."""
    tool = Tool(raise_it(KeyboardInterrupt), is_asynchronous=True)
    store = DirectoryStore(tmp_path)
    conversation = begin()
    model = script([invoke("tool")], [say("Done.")])

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(Engine(model, [tool.produce_invoker()], store=store).run(conversation))

    stored = Conversation.restore(store, conversation.id)
    again = asyncio.run(Engine(model, [tool.produce_invoker()], store=store).answer(stored))
    (request,) = again.requests
    assert request.in_doubt
    assert tool.done == 1
