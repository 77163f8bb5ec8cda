"""The scripted provider answers what its script says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import conversations, invocables, json_objects
from support.quality.properties import examples
from support.runs.scripting import produce_model
from vibe_llms.exceptions import (
    ConfigurationError,
    ControlError,
    ProviderError,
    ProviderFault,
    UnknownNameError,
)
from vibe_llms.messages.canisters import InvocationCanister, StopReason, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.controls import IntervalControl
from vibe_llms.plugins.consents import SettledConsent, SilentProgress
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.providers.scripted import produce_provider, survey_providers
from vibe_llms.providers.scripted.client import ScriptedClient, ScriptedProvider
from vibe_llms.providers.scripted.processors import PROCESSORS
from vibe_llms.providers.scripted.scripts import (
    ScriptedResponse,
    produce_script,
    read_script,
    survey_scripts,
)
from vibe_llms.tables.documents import Document

MODEL = produce_model({"contents": [{"text": "x"}]}).descriptor


def ask(text: str) -> Request:
    return Request(canisters=[UserCanister(text)])


def produce_client(tmp_path: Path, **settings: str) -> ScriptedClient:
    context = ProviderContext(
        name="scripted",
        settings=settings,
        data_directory=tmp_path,
        cache_directory=tmp_path,
        consent=SettledConsent(False),
        progress=SilentProgress(),
        produce_attributes=lambda: Catalogue().access_integrator("scripted"),
    )
    provider = produce_provider(context)
    assert isinstance(provider, ScriptedProvider)
    return provider.produce_client()


async def test_the_response_whose_pattern_fits_is_given_else_the_next_in_turn() -> None:
    """The answer depends on the request alone."""
    model = produce_model(
        {"contents": [{"text": "first"}]},
        {"contents": [{"text": "about {input}"}], "match": "weather"},
        {"contents": [{"text": "second"}]},
    )
    first = await model.converse(ask("hello"))
    later = Request(canisters=[*first.conversation, UserCanister("and?")])

    assert first.text == "first"
    assert (await model.converse(ask("hello"))).text == "first"
    assert (await model.converse(later)).text == "second"
    assert (await model.converse(ask("the weather"))).text == "about the weather"


async def test_an_invocation_keeps_its_text_and_names_the_reason_to_stop() -> None:
    """Arguments are text, also where they are no JSON."""
    model = produce_model(
        {"contents": [{"invocation": {"id": "7", "name": "look", "arguments": "{broken"}}]}
    )

    response = await model.converse(ask("go"))

    (canister,) = response.canisters
    assert isinstance(canister, InvocationCanister)
    assert (canister.invocation_id, canister.name, canister.arguments) == ("7", "look", "{broken")
    assert response.metadata.stop_reason is StopReason.INVOCATION


@pytest.mark.parametrize("fault", ProviderFault)
async def test_every_fault_of_a_provider_can_be_asked_for(fault: ProviderFault) -> None:
    """The error says what it means and whether it is worth another try."""
    model = produce_model(
        {
            "contents": [{"text": "hello"}],
            "fault": {"at_chunk": 0, "kind": str(fault), "retry_after_seconds": 7.0},
        }
    )

    with pytest.raises(ProviderError) as caught:
        await model.converse(ask("x"))

    assert caught.value.fault is fault
    assert caught.value.retry_after_seconds == 7.0


async def test_a_stall_waits_until_it_is_cancelled() -> None:
    """Nothing more comes, and cancelling ends it at once."""
    model = produce_model({"contents": [{"text": "hello"}], "fault": {"kind": "stall"}})

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await model.converse(ask("x"))


async def test_controls_are_checked() -> None:
    """A misspelt control is not ignored."""
    model = produce_model({"contents": [{"text": "x"}]})
    request = Request(canisters=[UserCanister("x")], controls={"temprature": 1})

    with pytest.raises(ControlError, match="temperature"):
        await model.converse(request)


def test_defaults_of_the_model_are_sent_below_what_is_asked() -> None:
    """What the data call a default holds whatever the vendor's own default is."""
    model = produce_model({"contents": [{"text": "x"}]})
    attributes = attrs.evolve(
        model.descriptor.attributes,
        controls=(
            IntervalControl(name="temperature", default=0.3),
            IntervalControl(name="top_p", default=0.9),
        ),
    )
    model._descriptor = attrs.evolve(model.descriptor, attributes=attributes)
    request = Request(canisters=[UserCanister("x")], controls={"temperature": 1})

    native = model.nativize(request, streaming=True).value

    assert native["controls"] == {"temperature": 1, "top_p": 0.9}


@given(conversations, json_objects, invocables)
@examples(20)
def test_its_translations_lose_nothing(canisters, controls, invocable) -> None:  # type: ignore[no-untyped-def]
    """Native form and back is the identity."""
    request = Request(canisters=[*canisters, UserCanister("?")], invocables=[invocable])
    messages = PROCESSORS.messages
    there = messages.nativize(request, MODEL)
    assert not there.losses
    assert messages.normalize(there.value, MODEL).value == request.canisters

    invocations = PROCESSORS.invocations
    native = invocations.nativize(request, MODEL)
    assert invocations.normalize(native.value, MODEL).value == ((invocable,), "auto")


async def test_tokens_are_words() -> None:
    """Anybody can count along."""
    model = produce_model({"contents": [{"text": "x"}]})

    counted = await model.tokenizer.count_request(ask("Well, hello there!"), model.descriptor)

    assert (counted.tokens, counted.error_tokens) == (5, 0)


@examples(100)
@given(length=st.integers(0, 60_000), size=st.one_of(st.none(), st.integers(0, 70_000)))
def test_a_long_text_comes_in_thousands_of_chunks_only_where_somebody_said_so(
    length: int, size: int | None
) -> None:
    """Whatever the length, nothing is lost; where no size is said, there are at most 2,000."""
    text = "".join(chr(0x4E00 + place % 5_000) for place in range(length))

    chunks = ScriptedResponse(chunk_characters=size).cut(text)

    assert "".join(chunks) == text
    sizes = {len(chunk) for chunk in chunks[:-1]}
    if size is None:
        assert 1 <= len(chunks) <= 2_000
        assert length > 10_000 or sizes <= {5}
    else:
        assert sizes <= ({size} if size else set())


@pytest.mark.parametrize("name", survey_scripts())
def test_every_script_that_ships_can_be_played(name: str) -> None:
    """A mistake in shipped data does not wait for a user."""
    assert read_script(name).responses


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ({}, "at least one"),
        ({"responses": [{"contents": [{"txt": "x"}]}]}, "txt"),
        ({"responses": [{"contents": [{"invocation": {"id": "1"}}]}]}, "name"),
        ({"responses": [{"match": "("}]}, "responses[0]"),
        ({"responses": [{"speed": 9}]}, "speed"),
        ({"responses": [{"stop_reason": "tired"}]}, "tired"),
        ({"responses": [{"fault": {"kind": "earthquake"}}]}, "earthquake"),
        ({"responses": [{"usage": {"tokens": 1}}]}, "tokens"),
    ],
)
def test_a_script_that_does_not_hold_is_refused_with_the_place(data: dict, word: str) -> None:  # type: ignore[type-arg]
    """The finding names the response and what is wrong with it."""
    with pytest.raises(ConfigurationError) as caught:
        produce_script(Document("mine.toml", "", data))

    assert word in str(caught.value)
    assert "mine.toml" in str(caught.value)


async def test_models_are_scripts_by_name_by_path_or_as_configured(tmp_path: Path) -> None:
    """An empty name means the configured script, or ``echo``."""
    path = tmp_path / "mine.toml"
    path.write_text('[[responses]]\ncontents = [{ text = "mine" }]\n')

    async def say(model: ConverserModel) -> str:
        return (await model.converse(ask("hi"))).text

    assert await say(await produce_client(tmp_path).access_model()) == "hi"
    assert (
        await say(await produce_client(tmp_path, script="slow.toml").access_model(str(path)))
        == "mine"
    )
    assert await say(await produce_client(tmp_path, script=str(path)).access_model()) == "mine"
    with pytest.raises(UnknownNameError, match="demo, echo"):
        await produce_client(tmp_path).access_model("nope")
    with pytest.raises(ConfigurationError, match=r"nope\.toml"):
        await produce_client(tmp_path).access_model("nope.toml")
    names = [model.name for model in await produce_client(tmp_path).survey_models()]
    assert names == list(survey_scripts())


def test_the_hook_names_one_provider() -> None:
    """It is the door that strangers use, too."""
    (specification,) = survey_providers()

    assert specification.name == "scripted"
