"""A conversation moves between all vendors, in any order, and every loss is reported."""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import Any, NoReturn

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.answers import CLOSING, WORK
from fidelity.conversations import (
    CONTROLS,
    ask,
    begin,
    close,
    converse,
    execute,
    produce_request,
    work,
)
from fidelity.exactness import find_faults
from fidelity.parties import PARTIES, Party
from fidelity.structure import find_offence
from fidelity.verbatim import find_missing, rename, simplify
from strategies.messages import canisters as any_canisters
from strategies.messages import json_values
from support.quality.properties import sample
from vibe_llms.exceptions import RequestError, TranslationLossError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
)
from vibe_llms.messages.contents import (
    MEDIA_CLASSES,
    CacheHint,
    ImageContent,
    Native,
    NativeContent,
    TextualContent,
)
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.providers.conversing import ModelBase
from vibe_llms.providers.interfaces import ModelDescriptor

PAIRS = list(itertools.permutations(PARTIES, 2))
ANY_PAIRS = list(itertools.product(PARTIES, repeat=2))
each_party = pytest.mark.parametrize("party", PARTIES, ids=lambda party: party.name)


def some_pairs(turn: int, pairs: list[tuple[Party, Party]] = PAIRS) -> pytest.MarkDecorator:
    """Run a test with its share of the pairs."""
    return pytest.mark.parametrize(
        ("first", "second"), sample(pairs, turn), ids=lambda party: getattr(party, "name", "")
    )


@pytest.mark.samples
@some_pairs(0)
def test_a_vendor_gets_its_own_turns_back_unchanged(first: Party, second: Party) -> None:
    """Signatures, blocks and ids are withheld from the other vendor, and restored afterwards."""
    turn = work(first)
    conversation = (*begin(), *turn, *execute(turn))
    away = produce_request((*conversation, *close(second), ask("And now?")))
    kept = away.digest()

    second.nativize(away)
    back = produce_request((*away.canisters, *close(first), ask("Thanks.")))
    body = first.nativize(back).value

    assert away.digest() == kept
    for answer in (WORK, CLOSING):
        assert find_missing(answer[first.name], body, first.protocol) == []


@pytest.mark.samples
@some_pairs(1)
def test_earlier_messages_do_not_change_after_another_vendors_turn(
    first: Party, second: Party
) -> None:
    """Signatures that depend on earlier messages stay valid."""
    turn = work(first)
    begun = (*begin(), *turn, *execute(turn))
    names = {"responses": "input", "interactions": "input", "generate_content": "contents"}
    name = names.get(first.protocol, "messages")

    before = first.nativize(produce_request(begun)).value
    after = first.nativize(produce_request((*begun, *close(second), ask("And now?")))).value

    assert after[name][: len(before[name])] == before[name]  # type: ignore[index, arg-type]


@pytest.mark.samples
@some_pairs(2)
def test_the_vendor_may_change_in_the_middle_of_an_exchange(first: Party, second: Party) -> None:
    """One requests invocations, the other gets their results, in a valid form."""
    turn = work(first)
    body = second.nativize(produce_request((*begin(), *turn, *execute(turn)))).value

    is_common = first.protocol != second.protocol
    assert find_offence(body, second, is_common=is_common) is None
    assert "No such place" in str(body) or len(execute(turn)) == 1


@pytest.mark.samples
@some_pairs(3)
def test_a_vendors_server_reads_the_same_meaning(first: Party, second: Party) -> None:
    """A request that is read as a server reads it is written the same again."""
    turn = work(first)
    request = produce_request((*begin(), *turn, *execute(turn), *close(first), ask("Go on.")))
    body = second.nativize(request).value

    assert simplify(second.nativize(second.read(body)).value) == simplify(body)


@pytest.mark.slow
def test_a_conversation_moves_through_all_pairs_of_vendors() -> None:
    """Afterwards each vendor gets all of its own turns unchanged."""
    canisters: tuple[AnyCanister, ...] = begin()
    answers: dict[str, list[dict[str, Any]]] = {party.name: [] for party in PARTIES}
    for step, party in enumerate(walk_all_pairs()):
        body = party.nativize(produce_request(canisters)).value
        assert find_offence(body, party, is_common=False) is None
        for number, answer in enumerate((CLOSING, WORK)):
            answers[party.name].append(rename(answer[party.name], f"s{step}"))
            turn = party.answer(answers[party.name][-1], f"{step}-{number}")
            question = () if answer is WORK else (ask(f"more {step}"),)
            canisters += (*turn, *execute(turn), *question)

    for party in PARTIES:
        body = party.nativize(produce_request(canisters)).value
        assert find_offence(body, party, is_common=False) is None
        for answer in answers[party.name]:
            assert find_missing(answer, body, party.protocol) == []


def walk_all_pairs() -> list[Party]:
    """Return vendors in an order in which each is followed once by every other one."""
    waiting = {party.name: [other for other in PARTIES if other is not party] for party in PARTIES}
    path, walk = [PARTIES[0]], []
    while path:
        if waiting[path[-1].name]:
            path.append(waiting[path[-1].name].pop())
        else:
            walk.append(path.pop())
    assert {*itertools.pairwise(party.name for party in walk)} == {
        (first.name, second.name) for first, second in PAIRS
    }
    return walk


@pytest.mark.slow
@each_party
def test_the_losses_of_a_users_contents_are_exact(party: Party) -> None:
    """Every field without an effect is reported, and no field with an effect."""
    request = produce_request((*begin(), ask("Go on.")), controls=CONTROLS)

    assert [str(fault) for fault in find_faults(request, party)] == []


@pytest.mark.slow
@pytest.mark.samples
@some_pairs(0, ANY_PAIRS)
def test_the_losses_of_another_vendors_answers_are_exact(first: Party, second: Party) -> None:
    """The same for all fields of one vendor's answers that another vendor gets."""
    assert [str(fault) for fault in find_faults(converse(first), second)] == []


@each_party
@pytest.mark.parametrize("text", ["", "null", '""'])
def test_empty_arguments_are_sent_as_an_empty_object(party: Party, text: str) -> None:
    """In whatever form the other vendor wrote them, without a loss."""
    origin = Origin(provider="elsewhere", model="m", protocol="elsewhere")
    call = InvocationCanister(
        invocation_id="abcdefghi", name="look", arguments=text, origin=origin, turn_id="t"
    )
    result = ResultCanister("Seen.", invocation_id="abcdefghi", name="look")

    translation = party.nativize(produce_request((ask("Look."), call, result)))

    written = re.findall(
        r'"(?:arguments|args|input)":("\{\}"|\{\})',
        msgspec.json.encode(translation.value).decode(),
    )
    assert len(written) == 1
    assert not [loss for loss in translation.losses if loss.path == "canisters[1].arguments"]


def test_an_unreported_loss_is_detected() -> None:
    """The tests of exactness fail for a dialect that does not report a loss, and for one that
    reports too many.
    """

    @attrs.frozen(kw_only=True)
    class UnreportingParty(Party):
        def nativize(self, request: Request) -> Translation[JsonObject]:
            return Translation(super().nativize(request).value)

    @attrs.frozen(kw_only=True)
    class OverreportingParty(Party):
        def nativize(self, request: Request) -> Translation[JsonObject]:
            translation = super().nativize(request)
            dropped = next(loss for loss in translation.losses if loss.kind == "dropped")
            lost = attrs.evolve(dropped, path="canisters[1].content[0].text")
            return Translation(translation.value, (*translation.losses, lost))

    request = produce_request((*begin(), ask("Go on.")))
    facts = {field.name: getattr(PARTIES[0], field.name) for field in attrs.fields(Party)}

    silent = {fault.path for fault in find_faults(request, UnreportingParty(**facts))}
    alarms = [fault.path for fault in find_faults(request, OverreportingParty(**facts))]
    assert {"canisters[1].content[1].detail", "canisters[1].content[3].name"} <= silent
    assert alarms == ["canisters[1].content[0].text"]


class TranslatingModel(ModelBase[JsonObject]):
    """A model that only translates."""

    protocol = "any"

    def __init__(self, party: Party) -> None:
        attributes = party.attributes
        descriptor = ModelDescriptor(provider=party.name, name=party.model, attributes=attributes)
        super().__init__(descriptor, tokenizer=None)  # type: ignore[arg-type]
        self._party = party

    def nativize(self, request: Request, *, streaming: bool) -> Translation[JsonObject]:
        """Translates, and leaves to the base what becomes of losses."""
        return self._party.nativize(request)

    async def send(self, native: JsonObject, request: Request, *, streaming: bool) -> NoReturn:
        """Is never reached."""
        raise AssertionError("something was sent")


@pytest.mark.samples
@some_pairs(4)
async def test_a_strict_request_raises_an_error_with_all_losses(
    first: Party, second: Party
) -> None:
    """Before anything is sent."""
    request = attrs.evolve(converse(first), strict=True)
    losses = second.nativize(request).losses

    with pytest.raises(TranslationLossError) as caught:
        await TranslatingModel(second).converse(request)

    assert caught.value.losses == tuple(map(str, losses))
    assert losses


@st.composite
def foreign_canisters(draw: st.DrawFn) -> AnyCanister:
    """Draw a canister without native data, with media of types that vendors accept."""
    canister = draw(any_canisters)
    native = Native(protocol="elsewhere", data='{"a": 1}')
    contents: list[Any] = []
    for content in canister.content:
        if isinstance(content, CacheHint):
            contents.append(content)
            continue
        if isinstance(content, MEDIA_CLASSES):
            kind = "image/png" if content.type == "image" else "application/pdf"
            content = attrs.evolve(content, mime_type=kind, data=b"data", content_id=None)
            if isinstance(content, ImageContent):  # which goes in the vendor's own words
                content = attrs.evolve(content, detail=content.detail and "low")
        if isinstance(content, TextualContent):
            citations = [attrs.evolve(citation, native=None) for citation in content.citations]
            content = attrs.evolve(content, citations=citations)
        if isinstance(content, NativeContent) or draw(st.booleans()):
            contents.append(attrs.evolve(content, native=native))
        else:
            contents.append(attrs.evolve(content, native=None))
    return attrs.evolve(canister, content=contents, native=draw(st.sampled_from([None, native])))


@pytest.mark.slow
@each_party
@given(conversation=st.lists(foreign_canisters(), max_size=4))
def test_any_conversation_gets_a_form_that_the_vendor_accepts(
    party: Party, conversation: list[AnyCanister]
) -> None:
    """It follows the vendor's rules and has the types of the SDK; a valid conversation does not
    change.
    """
    body = party.nativize(produce_request((*conversation, ask("And?")))).value
    assert find_offence(body, party) is None

    again = party.nativize(party.read(body))
    assert simplify(again.value) == simplify(body)


@pytest.mark.slow
@each_party
@given(conversation=st.lists(any_canisters, max_size=4))
def test_invalid_contents_are_an_error_of_the_request(
    party: Party, conversation: list[AnyCanister]
) -> None:
    """Native data that are not JSON, and media without bytes; no other exception is raised."""
    with contextlib.suppress(RequestError):
        party.nativize(produce_request((*conversation, ask("And?"))))


@pytest.mark.slow
@each_party
@given(data=st.data())
def test_invalid_native_data_are_an_error_of_the_request(party: Party, data: st.DataObject) -> None:
    """They may have been edited; no other exception is raised."""
    request = converse(party)
    canisters = [*request.canisters]
    index = data.draw(st.integers(0, len(canisters) - 1))
    canister = canisters[index]
    contents = [*canister.content]
    for position, content in enumerate(contents):
        if content.native is not None:
            contents[position] = attrs.evolve(content, native=corrupt(content.native, data))
    native = None if canister.native is None else corrupt(canister.native, data)
    canisters[index] = attrs.evolve(canister, content=contents, native=native)

    with contextlib.suppress(RequestError):
        party.nativize(attrs.evolve(request, canisters=canisters))


def corrupt(native: Native, data: st.DataObject) -> Native:
    """Return native data with one replaced field."""
    fields = msgspec.json.decode(native.data)
    if fields:
        name = data.draw(st.sampled_from(sorted(fields)))
        fields[name] = data.draw(json_values)
    return attrs.evolve(native, data=msgspec.json.encode(fields).decode("utf-8"))
