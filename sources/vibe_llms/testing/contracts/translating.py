"""Promises about what goes to a model and comes back: tools, schemas, media, and every loss."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import attrs
import pytest

from vibe_llms.exceptions import CapabilityError, RequestError, TranslationLossError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    ImageContent,
    Native,
    NativeContent,
    ReasoningContent,
    TextualContent,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import LossKind
from vibe_llms.plain import JsonObject
from vibe_llms.testing.contracts.promises import ComposingPromises, promise
from vibe_llms.testing.contracts.worlds import World

LOOK = InvocableDescription(
    name="look",
    description="Looks at a place and says what is there.",
    schema={
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
        "additionalProperties": False,
    },
)
LISTEN = attrs.evolve(LOOK, name="listen", description="Listens at a place.")
SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["name", "depth"],
    "additionalProperties": False,
}
PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c49444154789c63606060000000040001f61738550000000049454e44ae426082"
)
ELSEWHERE = Origin(provider="elsewhere", model="other", protocol="elsewhere_protocol")


class TranslatingPromises(ComposingPromises):
    """What holds of every translation."""

    calling = "Please call look and call listen, for the harbour."
    """What makes the model invoke both tools."""

    invokes = True
    """Whether the model can be relied on to invoke what it is asked to invoke."""

    loses_nothing = False
    """Whether the provider speaks this package's own words, and so has nothing to lose."""

    @promise
    async def test_an_invocation_is_asked_for_and_its_result_is_heard(self, world: World) -> None:
        """The model invokes, the result goes back, and it answers."""
        if not (self.invokes and world.can("supports_invocations")):
            return
        request = self.compose(canisters=[UserCanister(self.calling)], invocables=[LOOK, LISTEN])
        response = await world.ask(request)
        calls = [c for c in response.canisters if isinstance(c, InvocationCanister)]

        assert calls
        assert {call.name for call in calls} <= {"look", "listen"}
        assert all(call.fault is None and call.invocation_id for call in calls)
        assert response.metadata.stop_reason is StopReason.INVOCATION

        results = answer_calls(response.canisters)
        after = self.compose(
            canisters=[*response.conversation, *results], invocables=request.invocables
        )
        answer = await world.ask(after)

        assert answer.text
        assert not [loss for loss in answer.losses if loss.kind is LossKind.DROPPED]

    @promise
    async def test_an_answer_is_held_to_a_schema(self, world: World) -> None:
        """The text is JSON that has what the schema asks for."""
        if not world.can("supports_schema"):
            return
        request = self.compose(canisters=[UserCanister("Describe a sea.")], schema=SCHEMA)
        response = await world.ask(request)
        if any(loss.path == "schema" for loss in response.losses):
            return

        answer = json.loads(response.text)
        assert isinstance(answer["name"], str)
        assert isinstance(answer["depth"], int)

    @promise
    async def test_a_picture_goes_or_is_refused(self, world: World) -> None:
        """A model that is known not to see says so before anything is sent."""
        picture = ImageContent(mime_type="image/png", data=PICTURE)
        request = self.compose(canisters=[UserCanister([TextualContent("What is it?"), picture])])
        if world.can("supports_images"):
            response = await world.ask(request)
            assert response.text or response.canisters
            return
        with pytest.raises(CapabilityError, match=r"pictures"):
            world.model.check(request)

    @promise
    async def test_instructions_go(self, world: World) -> None:
        """A supervisor's words are taken, or their change is reported."""
        canisters: list[AnyCanister] = [
            SupervisorCanister("Be brief."),
            UserCanister("Say something."),
        ]
        response = await world.ask(self.compose(canisters=canisters))

        assert response.canisters

    @promise
    async def test_what_belongs_to_another_vendor_is_withheld_and_said(self, world: World) -> None:
        """Blocks and seals of another protocol stay here, and each is in the losses."""
        foreign = Native(protocol="elsewhere_protocol", data='{"type":"trinket","value":1}')
        said = AssistantCanister(
            [
                ReasoningContent(text="Hm.", seal="sealed-elsewhere", native=foreign),
                TextualContent("Yes."),
                NativeContent(kind="trinket", native=foreign),
            ],
            origin=ELSEWHERE,
            turn_id="t",
        )
        request = self.compose(canisters=[UserCanister("Is it?"), said, UserCanister("Go on.")])
        response = await world.ask(request)
        if self.loses_nothing:
            assert not response.losses
            return

        paths = {loss.path for loss in response.losses if loss.kind is not LossKind.SYNTHESIZED}
        for place in ("canisters[1].content[0]", "canisters[1].content[2]"):
            assert any(path.startswith(place) for path in paths), f"{place} is lost in silence."
        with pytest.raises(TranslationLossError):
            world.model.check(attrs.evolve(request, strict=True))

    @promise
    async def test_a_broken_history_is_repaired_and_said(self, world: World) -> None:
        """An invocation without a result, and a result without its invocation, are mended."""
        call = InvocationCanister(
            invocation_id="functions.look:0 %", name="look", arguments="{}", turn_id="t"
        )
        stray = ResultCanister("Seen.", invocation_id="gone", name="look")
        request = self.compose(
            canisters=[
                UserCanister("Look."),
                call,
                UserCanister("And?"),
                stray,
                UserCanister("So?"),
            ],
            invocables=[LOOK],
        )
        response = await world.ask(request)

        assert response.canisters
        if self.loses_nothing:
            assert not response.losses
            return
        paths = " ".join(loss.path for loss in response.losses)
        assert "canisters[1]" in paths
        assert "canisters[3]" in paths

    @promise
    async def test_arguments_that_are_no_json_go_back(self, world: World) -> None:
        """A model's own broken arguments do not break the conversation."""
        call = InvocationCanister(
            invocation_id="call_1", name="look", arguments='{"place": ', turn_id="t"
        )
        result = ResultCanister(
            "These arguments are not JSON.", invocation_id="call_1", name="look", is_error=True
        )
        request = self.compose(canisters=[UserCanister("Look."), call, result], invocables=[LOOK])

        assert (await world.ask(request)).canisters

    @promise
    async def test_bytes_that_are_not_there_are_missed(self, world: World) -> None:
        """A picture whose bytes are still in a store is an error, not an empty picture."""
        if self.loses_nothing or not world.can("supports_images"):
            return
        absent = ImageContent(mime_type="image/png", content_id="ab" * 32)
        request = self.compose(canisters=[UserCanister([TextualContent("What is it?"), absent])])

        with pytest.raises(RequestError, match=r"content\[1\]|(ab){32}"):
            world.model.check(request)


def answer_calls(canisters: Sequence[AnyCanister]) -> list[AnyCanister]:
    """Returns a result for each invocation."""
    calls = [canister for canister in canisters if isinstance(canister, InvocationCanister)]
    return [
        ResultCanister(f"Seen {n}.", invocation_id=call.invocation_id, name=call.name)
        for n, call in enumerate(calls)
    ]
