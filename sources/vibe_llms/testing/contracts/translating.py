"""Promises about translation: tools, schemas, media, and every loss."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import attrs

from vibe_llms.exceptions import CapabilityError, RequestError, TranslationLossError
from vibe_llms.foundation.json_types import JsonObject
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
from vibe_llms.messages.requests import Response
from vibe_llms.testing.contracts.promises import ComposingPromises, expect, promise, require
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


_REPAIR: Final = (
    "In nativize, repair the history with repair_history(canisters, rules, ledger), and "
    "return ledger.losses in the Translation."
)


class TranslatingPromises(ComposingPromises):
    """Promises of every translation."""

    calling = "Please call look and call listen, for the harbour."
    """Prompt that makes the model call both tools."""

    invokes = True
    """True if the model reliably calls the tools that it is asked to call."""

    loses_nothing = False
    """True if the provider uses this package's own format, and so has no losses."""

    foresees_losses = True
    """True if the provider reports losses before it sends a request; otherwise a strict request
    fails later."""

    @promise
    async def test_an_invocation_is_asked_for_and_its_result_is_heard(self, world: World) -> None:
        """The model makes a call, the result is sent back, and it answers."""
        if not (self.invokes and world.can("supports_invocations")):
            return
        request = self.compose(canisters=[UserCanister(self.calling)], invocables=[LOOK, LISTEN])
        response = await world.ask(request)
        calls = [c for c in response.canisters if isinstance(c, InvocationCanister)]

        require(
            calls,
            "The user asks for two tools, but none is invoked.",
            "Send request.invocables and read the calls; if the model has no tools, set "
            "supports_invocations = false; if it calls them unreliably, set invokes = False.",
        )
        require(
            {call.name for call in calls} <= {"look", "listen"}
            and all(call.fault is None and call.invocation_id for call in calls),
            f"The calls are {[(call.name, call.arguments) for call in calls]}.",
            "Give each call its id, a name that was offered, and its arguments as a JSON object.",
        )
        require(
            response.metadata.stop_reason is StopReason.INVOCATION,
            f"An answer with invocations ends as {str(response.metadata.stop_reason)!r}.",
            "Finish with StopReason.INVOCATION.",
        )

        results = answer_calls(response.canisters)
        after = self.compose(
            canisters=[*response.conversation, *results], invocables=request.invocables
        )
        answer = await world.ask(after)

        require(
            answer.text,
            "The model does not answer after the results of its calls.",
            "Send ResultCanisters, each with the id of its call.",
        )
        dropped = [str(loss) for loss in answer.losses if loss.kind is LossKind.DROPPED]
        require(
            not dropped,
            f"The calls and results lose {'; '.join(dropped)}.",
            "Send calls and results in the vendor's format.",
        )

    @promise
    async def test_an_answer_is_held_to_a_schema(self, world: World) -> None:
        """The text is JSON that fits the schema."""
        if not world.can("supports_schema"):
            return
        request = self.compose(canisters=[UserCanister("Describe a sea.")], schema=SCHEMA)
        response = await world.ask(request)
        if any(loss.path == "schema" for loss in response.losses):
            return

        try:
            answer = json.loads(response.text)
        except ValueError:
            answer = None
        require(
            isinstance(answer, dict)
            and isinstance(answer.get("name"), str)
            and isinstance(answer.get("depth"), int),
            f"A schema was requested, but the answer is {response.text[:60]!r}.",
            "Send request.schema; if the model supports none, set supports_schema = false for it, "
            "and let a Ledger drop 'schema'.",
        )

    @promise
    async def test_a_picture_goes_or_is_refused(self, world: World) -> None:
        """A model that is known not to support images is an error before anything is sent."""
        picture = ImageContent(mime_type="image/png", data=PICTURE)
        request = self.compose(canisters=[UserCanister([TextualContent("What is it?"), picture])])
        if world.can("supports_images"):
            response = await world.ask(request)
            require(response.canisters, "The answer to a picture is empty.", "Send the picture.")
            return
        with expect(
            CapabilityError,
            "A model that is known not to support images accepts one.",
            "In nativize, raise CapabilityError for contents that the model does not support.",
            naming=("images", "pictures"),
        ):
            world.model.check(request)

    @promise
    async def test_instructions_go(self, world: World) -> None:
        """A supervisor's instructions are sent, or their change is reported."""
        canisters: list[AnyCanister] = [
            SupervisorCanister("Be brief."),
            UserCanister("Say something."),
        ]
        response = await world.ask(self.compose(canisters=canisters))

        require(
            response.canisters,
            "The answer to a request with instructions is empty.",
            "Send SupervisorCanisters in the vendor's format, or report their change as a loss.",
        )

    @promise
    async def test_what_belongs_to_another_vendor_is_withheld_and_said(self, world: World) -> None:
        """Blocks and signatures of another protocol are not sent, and each is in the losses."""
        foreign = Native(protocol="elsewhere_protocol", data='{"type":"trinket","value":1}')
        foreign_answer = AssistantCanister(
            [
                ReasoningContent(text="Hm.", signature="signed-elsewhere", native=foreign),
                TextualContent("Yes."),
                NativeContent(kind="trinket", native=foreign),
            ],
            origin=ELSEWHERE,
            turn_id="t",
        )
        request = self.compose(
            canisters=[UserCanister("Is it?"), foreign_answer, UserCanister("Go on.")]
        )
        response = await world.ask(request)
        if self.loses_nothing:
            _require_no_loss(response)
            return

        paths = {loss.path for loss in response.losses if loss.kind is not LossKind.SYNTHESIZED}
        unreported = [
            place
            for place in ("canisters[1].content[0]", "canisters[1].content[2]")
            if not any(path.startswith(place) for path in paths)
        ]
        require(
            not unreported,
            f"Another vendor's contents are dropped without a loss: {' and '.join(unreported)}.",
            "In nativize, let a Ledger withhold reasoning and native contents, and return "
            "ledger.losses in the Translation.",
        )
        with expect(
            TranslationLossError,
            "A strict request is sent although something is lost.",
            "Return the losses in the Translation of nativize; ModelBase does the rest.",
        ):
            strict = attrs.evolve(request, strict=True)
            if self.foresees_losses:
                world.model.check(strict)
            else:
                await world.ask(strict)

    @promise
    async def test_a_broken_history_is_repaired_and_said(self, world: World) -> None:
        """An invocation without a result, and a result without its invocation, are repaired."""
        call = InvocationCanister(
            invocation_id="functions.look:0 %", name="look", arguments="{}", turn_id="t"
        )
        stray_result = ResultCanister("Seen.", invocation_id="gone", name="look")
        request = self.compose(
            canisters=[
                UserCanister("Look."),
                call,
                UserCanister("And?"),
                stray_result,
                UserCanister("So?"),
            ],
            invocables=[LOOK],
        )
        response = await world.ask(request)

        require(response.canisters, "The answer to such a history is empty.", _REPAIR)
        if self.loses_nothing:
            _require_no_loss(response)
            return
        paths = " ".join(loss.path for loss in response.losses)
        unreported = [place for place in ("canisters[1]", "canisters[3]") if place not in paths]
        require(not unreported, f"No loss reports {' and '.join(unreported)}.", _REPAIR)

    @promise
    async def test_arguments_that_are_no_json_go_back(self, world: World) -> None:
        """A model's own invalid arguments do not break the conversation."""
        call = InvocationCanister(
            invocation_id="call_1", name="look", arguments='{"place": ', turn_id="t"
        )
        result = ResultCanister(
            "These arguments are not JSON.", invocation_id="call_1", name="look", is_error=True
        )
        request = self.compose(canisters=[UserCanister("Look."), call, result], invocables=[LOOK])

        require(
            (await world.ask(request)).canisters,
            "A call whose arguments are not JSON makes the next answer empty.",
            "Send the arguments as unchanged text.",
        )

    @promise
    async def test_bytes_that_are_not_there_are_missed(self, world: World) -> None:
        """A picture whose bytes are still in a store is an error, not an empty picture."""
        if self.loses_nothing or not world.can("supports_images"):
            return
        without_bytes = ImageContent(mime_type="image/png", content_id="ab" * 32)
        request = self.compose(
            canisters=[UserCanister([TextualContent("What is it?"), without_bytes])]
        )

        with expect(
            RequestError,
            "A picture without its bytes is accepted.",
            "In nativize, refuse media whose data is None and that have no url; or set "
            "supports_images = false for a model without images.",
            naming=("content[1]", "ab" * 32),
        ):
            world.model.check(request)


def _require_no_loss(response: Response) -> None:
    require(
        not response.losses,
        f"It loses {'; '.join(map(str, response.losses))}.",
        "Set loses_nothing = False, as for most providers.",
    )


def answer_calls(canisters: Sequence[AnyCanister]) -> list[AnyCanister]:
    """Return a result for each invocation."""
    calls = [canister for canister in canisters if isinstance(canister, InvocationCanister)]
    return [
        ResultCanister(f"Seen {n}.", invocation_id=call.invocation_id, name=call.name)
        for n, call in enumerate(calls)
    ]
