"""What a model does not take can be left out; what has no common word can be said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.vendors.shipped import SHIPPED
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ControlError, RequestError, TranslationLossError
from vibe_llms.instruments.engines import Engine
from vibe_llms.instruments.inputs import produce_native
from vibe_llms.instruments.models import Model, SyncModel
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.contents import Native
from vibe_llms.messages.requests import Request

LACKING = {
    "openai_conversations": ("o3", {"temperature": 0.5}),
    "openai_responses": ("gpt-5.1", {"stop": ["x"]}),
    "anthropic": ("claude-sonnet-5", {"seed": 1}),
    "google": ("gemini-3-flash", {"unheard_of": 1}),
    "mistral": ("any", {"unheard_of": 1}),
}
vendors = pytest.mark.parametrize("name", [name for name in LACKING if name in SHIPPED])


async def access(name: str, directory: Path) -> Any:
    """Returns a model that asks nobody."""
    shipped = SHIPPED[name]
    model = await shipped.access("http://127.0.0.1:9", directory)
    return await model._client.access_model(LACKING[name][0])  # type: ignore[attr-defined]


def translate(model: Any, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    """Returns what would be sent, and what was lost on the way."""
    request = Request(canisters=[UserCanister("hi")], **fields)
    translation = model.translate(request, streaming=True)
    return translation.value, [str(loss) for loss in translation.losses]


@vendors
async def test_a_control_that_a_model_lacks_is_left_out_where_one_is_lenient(
    name: str, tmp_path: Path
) -> None:
    """It is an error else; with strict, its loss is one."""
    model, controls = await access(name, tmp_path), LACKING[name][1]
    usual, _ = translate(model)

    with pytest.raises(ControlError):
        translate(model, controls=controls)
    body, losses = translate(model, controls=controls, lenient=True)
    with pytest.raises(TranslationLossError):
        translate(model, controls=controls, lenient=True, strict=True)

    assert body == usual
    assert losses[0].startswith(f"dropped controls.{next(iter(controls))}: The model has no")


async def test_a_value_that_a_model_does_not_take_is_left_out_and_others_are_sent(
    tmp_path: Path,
) -> None:
    """Each by itself."""
    model = await access("google", tmp_path)

    body, losses = translate(model, controls={"temperature": -1, "seed": 7}, lenient=True)

    assert body["generationConfig"]["seed"] == 7
    assert "temperature" not in body["generationConfig"]
    assert ["controls.temperature" in loss for loss in losses] == [True]


def speak(data: dict[str, Any]) -> Native:
    native = produce_native(data)
    assert native is not None
    return native


@vendors
async def test_parameters_in_a_vendors_words_go_out_as_they_are(name: str, tmp_path: Path) -> None:
    """Also into what is sent unasked, in silence, and without knowing the protocol's name."""
    model = await access(name, tmp_path)
    usual, _ = translate(model)
    told = {"new_parameter": {"deep": [1, None]}, "generationConfig": {"x": 1}}

    body, losses = translate(model, native=speak(told))

    assert losses == []
    assert body["new_parameter"] == {"deep": [1, None]}
    assert body["generationConfig"] == {**usual.get("generationConfig", {}), "x": 1}
    assert {**usual, **told, "generationConfig": None} == {**body, "generationConfig": None}


async def test_a_vendors_words_win_over_common_ones_and_that_is_told(tmp_path: Path) -> None:
    """A default gives way in silence; whom we ask and how we read is not for them to say."""
    model = await access("google", tmp_path)
    native = speak(
        {
            "generationConfig": {"temperature": 0.9, "thinkingConfig": {"includeThoughts": False}},
            "model": "other",
            "stream": False,
        }
    )

    body, losses = translate(model, controls={"temperature": 0.5}, native=native)

    assert body["generationConfig"]["temperature"] == 0.9
    assert body["generationConfig"]["thinkingConfig"]["includeThoughts"] is False
    assert "stream" not in body
    assert [loss.partition(":")[0] for loss in losses] == [
        "dropped native.model",
        "dropped native.stream",
        "coerced native.generationConfig.temperature",
    ]


async def test_tools_of_a_vendor_come_beside_ours(tmp_path: Path) -> None:
    """Neither takes the place of the other."""
    from vibe_llms.messages.descriptions import InvocableDescription

    model = await access("openai_responses", tmp_path)
    ours = InvocableDescription(name="f", description="Does.", schema={"type": "object"})

    body, losses = translate(
        model, invocables=[ours], native=speak({"tools": [{"type": "web_search"}]})
    )

    assert [tool["type"] for tool in body["tools"]] == ["function", "web_search"]
    assert [loss for loss in losses if "native" in loss] == []


@pytest.mark.parametrize("given", ["text", [1], {"a": object()}, {1j: 1}])
def test_native_parameters_are_a_json_object(given: Any) -> None:
    """Anything else is named before it is sent."""
    with pytest.raises(RequestError, match="not a JSON object"):
        produce_native(given)


def configure(directory: Path, **values: Any) -> Application:
    environment = {"HOME": str(directory), "XDG_CONFIG_HOME": str(directory)}
    return Application(
        load_configuration(
            command_line=values, environment=environment, working_directory=directory
        )
    )


async def test_both_are_options_of_all_ways_to_ask(tmp_path: Path) -> None:
    """Of ask, answer and stream, of an engine, of a model, and lenience of the configuration."""
    given: list[Request] = []
    native = {"stream": 1}

    class Listening(Model):
        def request(self, *arguments: Any, **options: Any) -> Request:
            given.append(super().request(*arguments, **options))
            return given[-1]

    application = configure(tmp_path)
    async with Listening("scripted:echo", application=application) as model:
        for answer in (model.ask, model.answer):
            response = await answer("hi", native=native, lenient=True, controls={"unheard_of": 1})
            paths = [loss.path for loss in response.losses]
            assert paths == ["controls.unheard_of", "native.stream"]
        async with model.stream("hi", native=native, lenient=True) as stream:
            assert [loss.path for loss in (await stream.response()).losses] == ["native.stream"]
        assert {request.lenient for request in given} == {True}
        assert not model.request("hi").lenient
        engine = Engine(model, (), native=native, lenient=True)
        asking = await engine.produce_model_call()
        assert (asking.fields["native"], asking.fields["lenient"]) == (speak(native), True)
        tokens = Model("scripted:echo", application=application, lenient=True, unheard_of=1)
        assert (await tokens.count_tokens("hi")).tokens > 0
    assert Model("scripted:echo", application=configure(tmp_path, lenient=True)).lenient
    assert Model("scripted:echo", application=application, lenient=True).request("hi").lenient


def test_synchronous_code_has_the_same_options(tmp_path: Path) -> None:
    """As ever."""
    with SyncModel("scripted:echo", application=configure(tmp_path), unheard_of=1) as model:
        with pytest.raises(ControlError):
            model.ask("hi")
        for answer in (model.ask, model.answer):
            response = answer("hi", native={"stream": 1}, lenient=True)
            paths = [loss.path for loss in response.losses]
            assert paths == ["controls.unheard_of", "native.stream"]


def test_lenience_is_part_of_what_a_request_means() -> None:
    """But does not change the names of those that are not lenient."""
    plain = Request(canisters=[UserCanister("hi")])
    lenient = Request(canisters=[UserCanister("hi")], lenient=True)
    assert plain.digest() != lenient.digest()
