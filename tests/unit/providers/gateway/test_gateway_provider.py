"""What another vibe-llms knows, and how it is asked: models, controls, counts, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

from support.gateways.remote_gateways import RemoteGateway, open_remote_world
from support.vendors.remoting import answer_json, produce_context
from vibe_llms.application import Application
from vibe_llms.dialects import converse
from vibe_llms.exceptions import (
    AccessError,
    ConverseError,
    ProviderError,
    ProviderFault,
    RequestError,
    TransportError,
    UnknownNameError,
)
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import AttributeLayer, Capability
from vibe_llms.models.tokens import TokenCount
from vibe_llms.providers.gateway import produce_provider
from vibe_llms.providers.gateway.client import GatewayClient, GatewayProvider
from vibe_llms.wire.exchanges import WireRequest
from vibe_llms.wire.memory import MemoryAnswer, MemoryTransport

HELLO = Request(canisters=[UserCanister("Hello there, far away.")])
NOWHERE = "http://127.0.0.1:9"


async def test_without_a_name_the_far_sides_default_is_asked(tmp_path: Path) -> None:
    """Which the model here is called by, too."""
    async with open_remote_world(
        tmp_path, RemoteGateway({"model": "scripted:echo"}), model=""
    ) as world:
        assert str(world.model.descriptor) == "remote:scripted:echo"
        assert (await world.ask(HELLO)).text


async def test_a_name_that_is_short_there_is_kept_here(tmp_path: Path) -> None:
    """Aliases are the far side's own; what is known is known of what they stand for."""
    far = RemoteGateway({"aliases": {"fast": "scripted:echo"}})
    async with open_remote_world(tmp_path, far, model="fast") as world:
        descriptor = world.model.descriptor
        response = await world.ask(HELLO)

    assert str(descriptor) == "remote:fast"
    assert descriptor.attributes.access_capability("supports_images") is Capability.YES
    assert response.metadata.origin.model == "echo"


async def test_what_is_known_of_a_model_is_known_here(tmp_path: Path) -> None:
    """Its capabilities, limits and controls, each with where the far side has it from."""
    far = RemoteGateway({"providers": {"anthropic": {"api_key": "theirs"}}})
    async with open_remote_world(tmp_path, far, model="anthropic:claude-sonnet-4-6") as world:
        near = world.model.descriptor.attributes
        model = await far.application.access_model("anthropic:claude-sonnet-4-6")
        there = model.descriptor.attributes

    assert near.capabilities == there.capabilities
    assert near.controls == there.controls
    for traced in there.traced_values:
        told = near.access_provenance(traced.key)
        assert near.access_value(traced.key) == traced.value, traced.key
        assert told is not None
        assert told.layer is AttributeLayer.VENDOR
        assert str(traced.provenance) in told.name
        if traced.provenance.source:
            assert (told.source, told.date) == (traced.provenance.source, traced.provenance.date)


async def test_what_the_user_says_here_holds_before_what_is_told(tmp_path: Path) -> None:
    """The user's default is sent; those of the far side are filled in there."""
    theirs = {"pattern": "echo", "top_k": 40, "title": "Theirs"}
    ours = {"pattern": "echo", "temperature": 0.5, "title": "Ours"}
    far = RemoteGateway({"models": [theirs]})
    async with far.run():
        application = Application.load(
            command_line={"models": [ours], "providers": {"remote": {"base_url": far.url}}}
        )
        model = await application.access_model("remote:scripted:echo")
        await model.converse(HELLO)
        await application.close()

    attributes = model.descriptor.attributes
    assert attributes.access_value("title") == "Ours"
    assert attributes.control_defaults == {"temperature": 0.5, "top_k": 40}
    assert far.bodies[-1]["request"]["controls"] == {"temperature": 0.5}


async def test_the_models_are_listed_as_the_far_side_lists_them(tmp_path: Path) -> None:
    """With what is known of them; and when it is gone, as it did last."""
    far = RemoteGateway({})
    async with open_remote_world(tmp_path, far) as world:
        listed = await world.client.survey_models(refresh=True)
        titles = {each.name: each.attributes.access_value("title") for each in listed}
    async with attrs.evolve(world, model_name="scripted:echo") as again:
        kept = await again.client.survey_models(refresh=True)

    assert "remote:scripted:demo" in map(str, listed)
    assert titles["scripted:demo"] == "Answers from a script"
    assert [str(each) for each in kept] == [str(each) for each in listed]
    demo = next(each for each in kept if each.name == "scripted:demo")
    assert demo.attributes.access_capability("supports_audio") is Capability.YES


async def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """By the error that its own provider raises there."""
    with pytest.raises(UnknownNameError, match="Unknown script 'nope'"):
        async with open_remote_world(tmp_path, RemoteGateway({}), model="scripted:nope"):
            pass


async def test_a_far_side_that_is_not_there_is_met_when_it_is_asked(tmp_path: Path) -> None:
    """A model that is named can be described without it; its default cannot."""
    client = produce_client(tmp_path, base_url=NOWHERE, connect_seconds=5)
    model = await client.access_model("scripted:echo")
    count = await model.tokenizer.count_request(HELLO, model.descriptor)

    assert count.error_tokens > 0  # it is estimated
    with pytest.raises(TransportError, match="vibe serve gateway"):
        await model.converse(HELLO)
    with pytest.raises(TransportError):
        await client.access_model()
    await client.close()


async def test_tokens_are_counted_by_the_far_side(tmp_path: Path) -> None:
    """With how far off the count may be."""
    count = TokenCount(tokens=11, error_tokens=3)
    client = play(tmp_path, {"/v1/converse/count": converse.nativize_count(count)})
    model = await client.access_model("far:model")

    assert await model.tokenizer.count_request(HELLO, model.descriptor) == count


async def test_what_the_far_side_counts_is_what_it_would_count_itself(tmp_path: Path) -> None:
    """The whole request goes there for it."""
    async with open_remote_world(tmp_path, RemoteGateway({})) as world:
        near = await world.model.tokenizer.count_request(HELLO, world.model.descriptor)

    model = await Application.load().access_model("scripted:echo")
    assert near == await model.tokenizer.count_request(HELLO, model.descriptor)


async def test_a_key_that_is_refused_says_where_it_is_looked_for(tmp_path: Path) -> None:
    """The gateway's own refusal; one of a vendor behind it names the vendor's key there."""
    ours = AccessError(fault=ProviderFault.AUTHENTICATION, detail="Nobody knows this key.")
    client = play(tmp_path, {"/v1/converse": ours})
    theirs = ProviderError(
        provider="anthropic",
        fault=ProviderFault.AUTHENTICATION,
        status=401,
        detail="No such key.",
        remedy="Check the key, in ANTHROPIC_API_KEY.",
    )

    with pytest.raises(AccessError, match="VIBE_GATEWAY_KEY") as caught:
        await (await client.access_model("far:model")).converse(HELLO)
    client = play(tmp_path, {"/v1/converse": theirs})
    with pytest.raises(ProviderError, match="in ANTHROPIC_API_KEY") as behind:
        await (await client.access_model("far:model")).converse(HELLO)

    assert caught.value.fault is ProviderFault.AUTHENTICATION
    assert "VIBE" not in str(behind.value)


async def test_another_version_is_refused_when_a_model_is_accessed(tmp_path: Path) -> None:
    """Before anything is asked of it."""
    client = play(tmp_path, {"/v1/converse/models": {"version": 2, "models": []}})

    with pytest.raises(ConverseError, match="Upgrade vibe-llms here"):
        await client.access_model("far:model")


async def test_a_server_that_is_no_gateway_is_named_as_such(tmp_path: Path) -> None:
    """A page, or nothing."""
    client = play(tmp_path, {})
    model = await client.access_model("far:model")

    with pytest.raises(ProviderError, match="another vibe-llms"):
        await model.converse(HELLO)


async def test_what_a_model_does_not_take_is_left_out_there(tmp_path: Path) -> None:
    """Where the request is lenient, it goes as it is, and the loss comes back."""
    far = RemoteGateway({})
    async with open_remote_world(tmp_path, far) as world:
        lenient = attrs.evolve(HELLO, controls={"no_such": 1}, lenient=True)
        told = await world.ask(lenient)
        with pytest.raises(RequestError, match="no_such"):
            await world.ask(attrs.evolve(lenient, lenient=False))

    assert [loss.path for loss in told.losses] == ["controls.no_such"]
    assert far.bodies[-1]["request"]["controls"] == {"no_such": 1}


async def test_a_conversation_too_long_is_cut_there(tmp_path: Path) -> None:
    """Where the window is known best; what was dropped comes back as a loss."""
    far = RemoteGateway({"models": [{"pattern": "echo", "context_window_tokens": 600}]})
    words = "Many words, of which there is no end. " * 40
    turns = [UserCanister(words), AssistantCanister(words)] * 3
    said = [attrs.evolve(each, id=f"c{place}") for place, each in enumerate(turns)]
    request = Request(canisters=[*said, UserCanister("Hello.")], window="drop")
    async with open_remote_world(tmp_path, far) as world:
        world.model.check(request)
        response = await world.ask(request)

    asked = far.bodies[-1]["request"]
    assert (asked["window"], len(asked["canisters"])) == ("drop", 7)
    assert [loss.kind for loss in response.losses].count(LossKind.DROPPED)
    assert response.text == "Hello."


async def test_a_control_of_another_kind_than_usual_is_what_it_is_there(tmp_path: Path) -> None:
    """Nothing of the usual definition is left in it."""
    control = {"kind": "interval", "minimum": 1, "maximum": 9}
    far = RemoteGateway({"models": [{"pattern": "echo", "controls": {"verbosity": control}}]})
    async with open_remote_world(tmp_path, far) as world:
        near = world.model.descriptor.attributes.access_control("verbosity")
        model = await far.application.access_model("scripted:echo")

    assert near == model.descriptor.attributes.access_control("verbosity")


def produce_client(directory: Path, **settings: Any) -> GatewayClient:
    """Makes a client."""
    provider = produce_provider(produce_context("remote", directory, **settings))
    assert isinstance(provider, GatewayProvider)
    return provider.produce_client()


def play(directory: Path, answers: Mapping[str, Any]) -> GatewayClient:
    """Makes a client whose far side answers so, by the path, and anything else with a page."""

    async def answer(request: WireRequest) -> MemoryAnswer:
        path = request.url.removeprefix("http://far").partition("?")[0]
        told = answers.get(path)
        if told is None:
            return answer_json(b"<html>Not found</html>", status=404)
        if not isinstance(told, ConverseError):
            return answer_json(msgspec.json.encode(told))
        refusal = converse.nativize_error(told)
        return answer_json(msgspec.json.encode(refusal.body), refusal.status)

    provider = produce_provider(produce_context("remote", directory, base_url="http://far"))
    assert isinstance(provider, GatewayProvider)
    provider.use_transport(MemoryTransport(answer))
    return provider.produce_client()
