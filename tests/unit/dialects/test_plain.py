"""The fast path writes plain canisters as the general path does."""

from __future__ import annotations

import copy
import importlib
import itertools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.parties import PARTIES, Party
from strategies.messages import canisters as any_canisters
from vibe_llms.dialects.plain import read_arguments
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import Citation, ImageContent, Native, TextualContent
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request
from vibe_llms.models.descriptors import ModelDescriptor

pytestmark = pytest.mark.slow

each_party = pytest.mark.parametrize("party", PARTIES, ids=lambda party: party.name)

LONG_LOOP: dict[str, Any] = {
    "list_plain_texts": lambda canisters, **_: [None] * len(canisters),
    "is_plain_call": lambda canister, known=None: False,
    "read_arguments": lambda canister, known=None: None,
}
"""Functions that find nothing plain."""

CALLS_A_MESSAGE = {"talk": 2, "calls": 4}
"""Calls of Python functions that a further message may cost."""

CALLS_OF_LOSSES = {"google": 4, "deepseek": 16}
"""The same of a loss that each call has: these vendors require a signature, or reasoning."""


def produce_turns(party: Party) -> list[tuple[AnyCanister, ...]]:
    """Return turns that are plain, and turns that almost are."""
    origin = Origin(provider=party.name, model=party.model, protocol=party.protocol)
    foreign = Origin(provider="other", model="m", protocol="other")
    numbers = itertools.count()

    def answer(text: Any, turn: str, **fields: Any) -> AssistantCanister:
        return AssistantCanister(text, turn_id=turn, **{"origin": origin, **fields})

    def call(turn: str, *, arguments: str = '{"at":"rain"}', **fields: Any) -> list[AnyCanister]:
        canisters: Any = {"origin": origin, "name": "look", **fields}
        name = f"{turn}_{next(numbers)}"
        return [
            InvocationCanister(invocation_id=name, arguments=arguments, turn_id=turn, **canisters)
        ]

    def run(*calls: AnyCanister, text: str = "seen", **fields: Any) -> list[AnyCanister]:
        canisters: Any = {"name": "look", **fields}
        return [
            *calls,
            *(
                ResultCanister(text, invocation_id=each.invocation_id, **canisters)
                for each in calls
            ),  # type: ignore[union-attr]
        ]

    def kept(**fields: Any) -> Native:
        return Native(protocol=party.protocol, data=msgspec.json.encode(fields).decode())

    marked = TextualContent("Marked.", native=kept(cache_control={"type": "ephemeral"}))
    cited = TextualContent("Cited.", citations=[Citation(title="Rain", cited_text="wet")])
    return [
        (UserCanister("And now?"),),
        (answer(cited, "t"), UserCanister(cited)),
        (UserCanister(" "),),
        (UserCanister(["Two", "texts"]),),
        (UserCanister(marked),),
        (UserCanister(TextualContent("<p>", mime_type="text/html")),),
        (UserCanister(ImageContent(data=b"\x89PNG\r\n\x1a\n", mime_type="image/png")),),
        (SupervisorCanister("Be brief."),),
        (answer("So it is.", "a"), UserCanister("Go on.")),
        (answer("", "b"), UserCanister("Go on.")),
        (answer(" ", "c"), answer("Or not.", "c"), UserCanister("Go on.")),
        (answer("By another.", "d", origin=foreign), UserCanister("Go on.")),
        (answer("Kept.", "e", native=kept(id="msg_1", status="completed")), UserCanister("?")),
        (answer("Kept.", "f", native=kept(id="msg_2", status="done", more=1)), UserCanister("?")),
        tuple(run(*call("g"))),
        tuple(run(*call("h"), *call("h"))),
        (answer("I look.", "i"), *run(*call("i"))),
        (*call("j"), answer("I looked.", "j")),
        tuple(run(*call("k", arguments=""))),
        tuple(run(*call("l", arguments="[]", origin=foreign))),
        tuple(run(*call("m", arguments="look!", form="text"))),
        tuple(run(*call("n", native=kept(thoughtSignature="abc")))),
        tuple(run(*call("o", native=kept(id="fc_1", status="completed")))),
        tuple(run(*call("p"), is_error=True)),
        tuple(run(*call("q"), text="")),
        tuple(run(*call("r"), name=None)),
        tuple(run(*call("s", owner=Owner.VENDOR), owner=Owner.VENDOR)),
        (*call("t", owner=Owner.VENDOR, content="Found."), UserCanister("So?")),
        tuple(run(*call("u", arguments="look"), text="<p>")),
        (answer("One.", "v"), answer("Two.", "w")),
        (answer(cited, "x"), *run(*call("x"))),
    ]


def write(party: Party, canisters: tuple[AnyCanister, ...]) -> tuple[bytes, list[Loss]] | str:
    """Return the bytes of the messages and the losses in their order, or the error."""
    model = ModelDescriptor(provider=party.name, name=party.model, attributes=party.attributes)
    writer = party.dialect.produce_processors(party.quirks).messages
    try:
        translation = writer.nativize(Request(canisters=canisters, continuation=True), model)
    except RequestError as error:
        return str(error)
    return msgspec.json.encode(translation.value), list(translation.losses)


def write_long(party: Party, canisters: tuple[AnyCanister, ...]) -> tuple[bytes, list[Loss]] | str:
    """Return the same, written as if nothing were plain."""
    place = f"vibe_llms.dialects.{party.dialect.__name__.rpartition('.')[2]}.calling"
    with pytest.MonkeyPatch.context() as patch:
        for name in (f"{place}.messages", f"{place}.turns", "vibe_llms.dialects.history"):
            try:
                module = importlib.import_module(name)
            except ModuleNotFoundError:
                continue
            for function, replacement in LONG_LOOP.items():
                if hasattr(module, function):
                    patch.setattr(module, function, replacement)
            if hasattr(module, "ItemsWriter"):
                patch.setattr(module.ItemsWriter, "_open_plain", lambda self, canister: None)
        return write(party, canisters)


@each_party
def test_any_two_turns_are_written_as_by_the_general_path(party: Party) -> None:
    """The same bytes, and the same losses in the same order."""
    turns = produce_turns(party)
    for first, second in itertools.product(turns, repeat=2):
        canisters = (*copy.deepcopy(first), *copy.deepcopy(second))
        assert write(party, canisters) == write_long(party, canisters)


@pytest.mark.slow
@each_party
@given(data=st.data())
def test_any_conversation_is_written_as_by_the_general_path(
    party: Party, data: st.DataObject
) -> None:
    """Plain turns between any canisters."""
    turns = st.sampled_from(produce_turns(party)) | st.tuples(any_canisters)
    drawn = data.draw(st.lists(turns, min_size=1, max_size=6))
    canisters = tuple(copy.deepcopy(each) for turn in drawn for each in turn)
    assert write(party, canisters) == write_long(party, canisters)


@each_party
@pytest.mark.parametrize("kind", ["talk", "calls"])
def test_a_plain_message_costs_few_calls(party: Party, kind: str) -> None:
    """Counted as calls of Python functions; no path and no value is made for a message."""
    origin = Origin(provider=party.name, model=party.model, protocol=party.protocol)

    def compose(count: int) -> tuple[AnyCanister, ...]:
        canisters: list[AnyCanister] = [UserCanister("Begin.")]
        for number in range(count // 2):
            turn = f"turn-{number}"
            if kind == "talk":
                canisters += [
                    AssistantCanister("Yes.", turn_id=turn, origin=origin),
                    UserCanister("?"),
                ]
            else:
                call = InvocationCanister(
                    invocation_id=turn, name="look", arguments="{}", turn_id=turn, origin=origin
                )
                canisters += [call, ResultCanister("seen", invocation_id=turn, name="look")]
        return tuple(canisters)

    few, many = compose(200), compose(1_200)
    write(party, few)
    added = count_calls(lambda: write(party, many)) - count_calls(lambda: write(party, few))

    losses = CALLS_OF_LOSSES.get(party.name, 0) if kind == "calls" else 0
    assert added / 1_000 <= CALLS_A_MESSAGE[kind] + losses


def count_calls(work: Callable[[], object]) -> int:
    """Count the calls of Python functions."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("arguments", "read"),
    [('{"a":1}', {"a": 1}), ("", {}), ("[]", None), ("null", None), ("{", None), ('"x"', None)],
)
def test_arguments_are_an_object_or_need_the_general_path(
    arguments: str, read: dict[str, Any] | None
) -> None:
    """The general path reports losses of other arguments."""
    call = InvocationCanister(invocation_id="a", name="look", arguments=arguments)

    assert read_arguments(call) == read
