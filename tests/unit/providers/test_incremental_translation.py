"""What was written stays written, and is what would be written anew."""

from __future__ import annotations

import contextlib
import copy
import gc
import itertools
from collections import Counter
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.conversations import ask, close, execute, work
from fidelity.parties import PARTIES, Party
from strategies.messages import canisters as any_canisters
from support.quality.properties import sample
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import ImageContent, Native
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers import incremental_translation
from vibe_llms.providers.incremental_translation import CachedTools, IncrementalMessages
from vibe_llms.providers.memory_budgets import MemoryBudget

each_party = pytest.mark.parametrize("party", PARTIES, ids=lambda party: party.name)


@pytest.fixture(autouse=True)
def keep_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short conversations are not worth it, but quicker to try."""
    monkeypatch.setattr(incremental_translation, "MIN_CANISTERS", 0)


def produce_turns(party: Party) -> list[tuple[AnyCanister, ...]]:
    """Returns what may come next in a conversation: usual turns, and odd ones."""
    origin = Origin(provider=party.name, model=party.model, protocol=party.protocol)
    other = next(each for each in PARTIES if each.protocol != party.protocol)

    def call(turn: str, *ids: str) -> list[AnyCanister]:
        return [
            InvocationCanister(
                invocation_id=each, name="look", arguments="{}", turn_id=turn, origin=origin
            )
            for each in ids
        ]

    def result(call_id: str) -> ResultCanister:
        return ResultCanister("seen", invocation_id=call_id, name="look")

    ours, theirs = work(party, "w"), work(other, "y")
    return [
        (ask("And now?"),),
        (AssistantCanister("So it is.", turn_id="a", origin=origin),),
        (AssistantCanister("Nobody knows who said it."),),
        (ask("Go on."), AssistantCanister("I do.", turn_id="b", origin=origin)),
        (*call("c", "one", "two"), result("two"), result("one")),
        (*call("d", "one"), result("one")),
        (*call("e", "three"), AssistantCanister("Wait.", turn_id="e", origin=origin)),
        (result("three"),),
        (*call("f", "bad id!"), result("bad id!")),
        (SupervisorCanister("Be brief."),),
        (UserCanister([ImageContent(file_id="file-1", mime_type="image/png")]),),
        (AssistantCanister("", turn_id="g", origin=origin),),
        (*ours, *execute(ours)),
        close(party, "x"),
        (*theirs, *execute(theirs)),
        close(other, "z"),
    ]


def write(processor: Any, request: Request, model: ModelDescriptor) -> object:
    """Returns what is written and lost, or the error."""
    try:
        translation = processor.nativize(request, model)
    except RequestError as error:
        return str(error)
    return translation.value, Counter(translation.losses)


@pytest.mark.slow
@each_party
@given(data=st.data())
def test_whatever_is_said_is_written_as_if_it_were_new(party: Party, data: st.DataObject) -> None:
    """However a conversation goes on, is forked, and comes back to an earlier state."""
    model = ModelDescriptor(provider=party.name, name=party.model, attributes=party.attributes)
    writer = party.dialect.produce_processors(party.quirks).messages
    keeper = IncrementalMessages(writer)
    usual = st.sampled_from(produce_turns(party))
    said: tuple[AnyCanister, ...] = (SupervisorCanister("Be kind."), ask("Who are you?"))

    for _ in range(data.draw(st.integers(1, 8))):
        back = data.draw(st.sampled_from([0, 0, 0, 1, 3]))
        said = said[: max(1, len(said) - back)]
        said += copy.deepcopy(data.draw(usual | st.tuples(any_canisters)))
        try:
            request = Request(canisters=said)
        except RequestError:  # there is nothing to answer
            said += (ask("And?"),)
            request = Request(canisters=said)
        assert write(keeper, request, model) == write(writer, request, model)


@pytest.mark.parametrize("ending", [ask("And now?"), SupervisorCanister("Be brief."), "orphan"])
@each_party
def test_what_ends_a_run_changes_its_beginning(party: Party, ending: AnyCanister | str) -> None:
    """Whether the run goes on after it was over, or is over after it went on."""
    model = ModelDescriptor(provider=party.name, name=party.model, attributes=party.attributes)
    writer = party.dialect.produce_processors(party.quirks).messages
    keeper = IncrementalMessages(writer)
    last = ResultCanister("seen", invocation_id="nowhere") if ending == "orphan" else ending

    def call(name: str) -> tuple[AnyCanister, ...]:
        invocation = InvocationCanister(
            invocation_id=name, name="look", arguments="{}", turn_id=name
        )
        return invocation, ResultCanister("seen", invocation_id=name, name="look")

    begun = (SupervisorCanister("Be kind."), ask("Go"), *itertools.chain(*map(call, "abcdef")))
    for said in (begun, (*begun, last), begun, (*begun, *call("g"), last), (*begun, *call("h"))):
        request = Request(canisters=said)
        assert write(keeper, request, model) == write(writer, request, model)


@pytest.mark.slow
@pytest.mark.samples
@each_party
def test_each_turn_may_follow_each(party: Party) -> None:
    """With a request after each of them, and one in which the user has the last word."""
    model = ModelDescriptor(provider=party.name, name=party.model, attributes=party.attributes)
    writer = party.dialect.produce_processors(party.quirks).messages
    turns = produce_turns(party)
    walks = [*itertools.product(turns, repeat=2), *((a, b, a, b) for a in turns for b in turns)]

    for walk in sample(walks, PARTIES.index(party)):
        keeper = IncrementalMessages(writer)
        said: tuple[AnyCanister, ...] = (ask("Who are you?"),)
        for turn in walk:
            said += copy.deepcopy(turn)  # the same medium twice would have one owner
            for request in (said, (*said, ask("And?"))):
                with contextlib.suppress(RequestError):  # there is nothing to answer
                    asked = Request(canisters=request)
                    assert write(keeper, asked, model) == write(writer, asked, model)


@each_party
@pytest.mark.parametrize("kind", ["talk", "run"])
def test_a_turn_translates_what_is_new(party: Party, kind: str) -> None:
    """And not what was said in all the turns before it."""
    model = ModelDescriptor(provider=party.name, name=party.model, attributes=party.attributes)
    writer = party.dialect.produce_processors(party.quirks).messages
    translated: list[int] = []

    def count(request: Request, model: ModelDescriptor) -> Any:
        translated.append(len(request.canisters))
        return writer.nativize(request, model)

    keeper = IncrementalMessages(attrs.evolve(writer, nativize=count))
    origin = Origin(provider=party.name, model=party.model, protocol=party.protocol)
    said: list[AnyCanister] = [ask("Begin.")]
    for number in range(20):
        turn = f"turn-{number}"
        if kind == "talk":
            said += [AssistantCanister("Yes.", turn_id=turn, origin=origin), ask("And?")]
        else:
            call = InvocationCanister(
                invocation_id=turn, name="look", arguments="{}", turn_id=turn, origin=origin
            )
            said += [call, ResultCanister("seen", invocation_id=turn, name="look")]
        del translated[:]
        request = Request(canisters=said)
        assert write(keeper, request, model) == write(writer, request, model)

    assert sum(translated) <= 8, "it does not grow with the conversation"


@each_party
def test_a_conversation_that_none_continues_is_translated_once(party: Party) -> None:
    """As of a client that asks many questions about long examples."""
    model = ModelDescriptor(provider=party.name, name=party.model, attributes=party.attributes)
    writer = party.dialect.produce_processors(party.quirks).messages
    translated: list[int] = []

    def count(request: Request, model: ModelDescriptor) -> Any:
        translated.append(len(request.canisters))
        return writer.nativize(request, model)

    keeper = IncrementalMessages(attrs.evolve(writer, nativize=count))
    for _ in range(3):
        answers = (AssistantCanister("Yes.", turn_id="a"), ask("And?")) * 5
        said = (ask("Begin."), *copy.deepcopy(answers))
        keeper.nativize(Request(canisters=said), model)
    assert translated == [11, 11, 11]


@each_party
def test_requests_that_share_little_are_not_translated_twice(party: Party) -> None:
    """What the earlier one has behind a short shared beginning is not translated again."""
    model = ModelDescriptor(provider=party.name, name=party.model, attributes=party.attributes)
    writer = party.dialect.produce_processors(party.quirks).messages
    translated: list[int] = []

    def count(request: Request, model: ModelDescriptor) -> Any:
        translated.append(len(request.canisters))
        return writer.nativize(request, model)

    keeper = IncrementalMessages(attrs.evolve(writer, nativize=count))
    shared = (ask("Begin."), AssistantCanister("Yes.", turn_id="a"), ask("Look."))
    for number in range(3):
        answer = AssistantCanister("Yes.", turn_id=f"turn-{number}")
        said = (*shared, *(answer, ask("And?")) * 4)
        keeper.nativize(Request(canisters=said), model)
    assert translated == [11, 11, 11]


def work_on(party: Party, said: tuple[AnyCanister, ...], turn: str) -> tuple[AnyCanister, ...]:
    """Returns a conversation after one more call of the model, and what came of it."""
    origin = Origin(provider=party.name, model=party.model, protocol=party.protocol)
    call = InvocationCanister(
        invocation_id=turn, name="look", arguments="{}", turn_id=turn, origin=origin
    )
    return (*said, call, ResultCanister("seen", invocation_id=turn, name="look"))


@pytest.mark.slow
@each_party
def test_many_ends_of_one_beginning_add_nothing_to_it(party: Party) -> None:
    """As where all clients of a gateway begin with the same examples: it lives for long."""
    model = ModelDescriptor(provider=party.name, name=party.model, attributes=party.attributes)
    writer = party.dialect.produce_processors(party.quirks).messages
    keeper = IncrementalMessages(writer)
    origin = Origin(provider=party.name, model=party.model, protocol=party.protocol)
    shared = (ask("Begin."), AssistantCanister("Yes.", turn_id="t", origin=origin), ask("Look."))
    for client in range(100):
        said = shared
        for number in range(3):
            request = Request(canisters=said)
            assert write(keeper, request, model) == write(writer, request, model)
            said = work_on(party, said, f"turn-{client}-{number}")
    kept = keeper._cached
    assert len(kept) <= incremental_translation.MAX_CACHED
    for each in kept:
        alone = IncrementalMessages(writer)
        alone.nativize(each.request, model)
        assert [each.size] == [other.size for other in alone._cached]


@pytest.mark.slow
@each_party
def test_what_all_keep_is_bounded(party: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many models there are, and however long what is said to them."""
    monkeypatch.setattr(incremental_translation, "MEMORY_BUDGET", budget := MemoryBudget(10_000))
    model = ModelDescriptor(provider=party.name, name=party.model, attributes=party.attributes)
    writer = party.dialect.produce_processors(party.quirks).messages
    origin = Origin(provider=party.name, model=party.model, protocol=party.protocol)
    keepers = [IncrementalMessages(writer) for _ in range(20)]
    for number, keeper in enumerate(keepers):
        for _ in range(2):
            said = (
                ask(f"{number} " * 500),
                AssistantCanister("Yes.", turn_id="t", origin=origin),
                ask("And?"),
            )
            request = Request(canisters=said)
            assert write(keeper, request, model) == write(writer, request, model)
    assert 0 < budget.size <= budget.limit
    keeping = [number for number, keeper in enumerate(keepers) if keeper._cached]
    assert keeping == list(range(20 - len(keeping), 20)), "who was heard of last keeps it"
    assert budget.size >= sum(len(f"{number} " * 500) for number in keeping)
    del keeper, keepers
    gc.collect()
    assert budget.size == 0


def describe(name: str) -> InvocableDescription:
    return InvocableDescription(name=name, description="Looks.", schema={"type": "object"})


@each_party
def test_the_same_tools_are_translated_once(party: Party) -> None:
    """Another choice, other tools and other controls are translated anew."""
    model = ModelDescriptor(provider=party.name, name=party.model, attributes=party.attributes)
    writer = party.dialect.produce_processors(party.quirks).invocations
    translated: list[Request] = []

    def count(request: Request, model: ModelDescriptor) -> Any:
        translated.append(request)
        return writer.nativize(request, model)

    keeper = CachedTools(attrs.evolve(writer, nativize=count))
    looking, going = describe("look"), describe("go")
    asked = Request(canisters=[ask("Look!")], invocables=[looking, going])
    for changes, expected in (
        ({}, 1),
        ({"invocables": [looking, going]}, 0),
        ({"canisters": [ask("Go!")]}, 0),
        ({"invocation_choice": "required"}, 1),
        ({}, 1),
        ({"invocables": [looking]}, 1),
        ({"invocables": [describe("look")]}, 1),  # another object, which may differ
        ({"controls": {"temperature": 1}}, 1),
        ({"invocables": []}, 1),
        ({"invocables": []}, 1),  # costs nothing
    ):
        before = len(translated)
        request = attrs.evolve(asked, **changes)
        assert write(keeper, request, model) == write(writer, request, model)
        assert len(translated) - before == expected


def test_kept_tools_are_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools that exceed the limit are translated each time."""
    party = PARTIES[0]
    monkeypatch.setattr(incremental_translation, "MEMORY_BUDGET", budget := MemoryBudget(10_000))
    model = ModelDescriptor(provider=party.name, name=party.model, attributes=party.attributes)
    keeper = CachedTools(party.dialect.produce_processors(party.quirks).invocations)
    for count, is_kept in ((1, True), (1_000, False)):
        tools = [describe(f"look_{number}") for number in range(count)]
        keeper.nativize(Request(canisters=[ask("Look!")], invocables=tools), model)
        assert (budget.size > 0) == (keeper._cached is not None) == is_kept


@each_party
@pytest.mark.parametrize("kind", ["answer", "call", "arguments"])
def test_native_data_and_arguments_are_weighed(
    party: Party, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be larger than the texts."""
    budget = MemoryBudget(64_000_000)
    monkeypatch.setattr(incremental_translation, "MEMORY_BUDGET", budget)
    model = ModelDescriptor(provider=party.name, name=party.model, attributes=party.attributes)
    keeper = IncrementalMessages(party.dialect.produce_processors(party.quirks).messages)
    data = f'{{"kept":"{"x" * 10_000}"}}'
    kept = Native(protocol="other", data=data)
    said: list[AnyCanister] = []
    for number in range(10):
        turn, name = f"t-{number}", f"call_{number}"
        if kind == "answer":
            said += [ask("Hi."), AssistantCanister("Yes.", turn_id=turn, native=kept)]
            continue
        call = InvocationCanister(invocation_id=name, name="look", turn_id=turn, native=kept)
        if kind == "arguments":
            call = attrs.evolve(call, arguments=data, native=None)
        said += [call, ResultCanister("Rain.", invocation_id=name, name="look")]

    keeper.nativize(Request(canisters=(*said, ask("And?"))), model)

    assert budget.size >= 10 * len(data)
