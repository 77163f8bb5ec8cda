"""Signatures of a vendor in envelopes, which clients of other protocols keep and return."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects.extras import make_native
from vibe_llms.dialects.signatures import MARK, is_wrapped, unwrap_signatures, wrap_item
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister, InvocationCanister
from vibe_llms.messages.contents import ReasoningContent, TextualContent

THOUGHT = ReasoningContent(
    text="Hm.", signature="c2VhbA==", native=make_native("messages", {"type": "thinking"})
)
CALL = InvocationCanister(
    invocation_id="c1",
    name="f",
    turn_id="t",
    native=make_native("generate_content", {"thoughtSignature": "c2lnbg=="}),
)
TEXTS = st.text(st.characters() | st.sampled_from("?>~\ud800"), max_size=30)


def wrap(item: Any, protocol: str = "responses", provider: str = "claude") -> Any:
    return wrap_item(item, protocol, provider)


def produce_answer(*contents: Any, turn: str = "t") -> AssistantCanister:
    return AssistantCanister(contents, turn_id=turn)


def list_contents(canisters: tuple[AnyCanister, ...]) -> list[Any]:
    return [content for canister in canisters for content in canister.content]


@given(TEXTS, st.lists(TEXTS, max_size=3), TEXTS.filter(bool))
def test_a_wrapped_signature_round_trips(text: str, summary: list[str], signed: str) -> None:
    thought = attrs.evolve(THOUGHT, text=text, summary=summary, signature=signed)
    wrapped = wrap(thought).item
    assert is_wrapped(wrapped.signature)
    # Libraries insist on base 64, and write it in either alphabet.
    raw = b64decode(wrapped.signature, validate=True)
    assert urlsafe_b64encode(raw).decode() == wrapped.signature
    [opened] = unwrap_signatures([produce_answer(ReasoningContent(signature=wrapped.signature))])
    assert opened.content == (thought,)
    assert opened.origin is not None  # type: ignore[union-attr]
    assert opened.origin.provider == "claude"  # type: ignore[union-attr]


def test_signatures_of_the_clients_own_vendor_need_no_envelope() -> None:
    for item in (THOUGHT, TextualContent("a"), ReasoningContent(text="b")):
        assert wrap(item, protocol="messages").item is item


def test_a_call_gets_its_signature_back_despite_contents_in_between() -> None:
    wrapped = wrap(CALL, provider="")
    assert wrapped.item.native is None
    assert wrapped.carrier is not None
    opened = unwrap_signatures(
        [wrapped.item, produce_answer(wrapped.carrier), produce_answer(TextualContent("On."))]
    )
    assert [each.native for each in opened] == [CALL.native, None]
    assert list_contents(opened) == [TextualContent("On.")]


def test_streamed_reasoning_is_replaced_by_the_signed_one() -> None:
    """Its text was streamed in pieces, and its signature came last."""
    carrier = ReasoningContent(signature=wrap(THOUGHT).item.signature)
    pieces = (ReasoningContent(text="H"), ReasoningContent(text="m."))
    opened = unwrap_signatures(
        [produce_answer(*pieces, TextualContent("Yes.")), CALL, produce_answer(carrier)]
    )
    assert list_contents(opened) == [THOUGHT, TextualContent("Yes.")]
    assert opened[0].content == (THOUGHT,)


def test_reasoning_of_another_turn_is_not_replaced() -> None:
    carrier = ReasoningContent(signature=wrap(THOUGHT).item.signature)
    before = produce_answer(ReasoningContent(text="Hm."), turn="before")
    opened = unwrap_signatures([before, produce_answer(carrier)])
    assert opened[0] == before
    assert list_contents(opened)[1:] == [THOUGHT]


DAMAGED = [
    {"protocol": "messages", "data": "[]"},
    {"protocol": "messages", "data": "{", "is_text": True},
    {"protocol": "messages", "data": "[" * 100_000},
    {"protocol": "messages", "data": '{"type":"text","text":"Ha!"}', "is_text": True},
    {"protocol": "generate_content", "data": '{"fileData":{"fileUri":"x"}}', "call": "c1"},
]


@pytest.mark.parametrize(
    "rest",
    ["", "!!", "e30=", "bm8=", "eyJwcm90b2NvbCI6MX0="]
    + [b64encode(json.dumps(each).encode()).decode() for each in DAMAGED],
)
def test_a_truncated_envelope_leaves_the_readable_text(rest: str) -> None:
    cut = ReasoningContent(text="Hm.", signature=MARK + rest)
    call = attrs.evolve(CALL, native=None)
    opened = unwrap_signatures([produce_answer(cut, TextualContent("Yes.")), call])
    assert list_contents(opened) == [ReasoningContent(text="Hm."), TextualContent("Yes.")]
    assert opened[-1] == call
