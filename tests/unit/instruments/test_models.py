"""A model by its name, in asynchronous and in synchronous code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.runs.acting import invoke
from support.runs.scripting import write_script
from vibe_llms import (
    Application,
    CacheHint,
    ConversationReactors,
    DocumentCanister,
    ImageContent,
    Model,
    Request,
    SupervisorCanister,
    SyncModel,
    TextualContent,
    UserCanister,
)
from vibe_llms.configuration.classes import Configuration
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.events.stream import ContentDeltaEvent
from vibe_llms.exceptions import ConfigurationError, RequestError, UnknownNameError
from vibe_llms.invocables import FunctionsEnsemble, produce_invoker
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.mcp import McpEnsemble, McpServer


@pytest.fixture
def application(tmp_path: Path) -> Application:
    """An application in a directory of its own, which nobody else has configured."""
    configuration = load_configuration(
        command_line={
            "model": "scripted:echo",
            "directories.data": str(tmp_path / "data"),
            "directories.cache": str(tmp_path / "cache"),
            "controls.top_k": 3,
        },
        environment={"HOME": str(tmp_path)},
        working_directory=tmp_path,
    )
    return Application(configuration)


async def test_a_model_answers_and_streams(application: Application) -> None:
    """Both ways give the same words."""
    async with Model(application=application) as model:
        asked = await model.ask("hello")
        async with model.stream("hello") as stream:
            pieces = [e.text async for e in stream if isinstance(e, ContentDeltaEvent)]
            streamed = await stream.response()

    assert asked.text == streamed.text == "".join(pieces) == "hello"


def test_what_can_be_asked_becomes_a_request(application: Application) -> None:
    """A text, contents, canisters, a conversation: each the shortest way to say it."""
    model = Model(application=application)
    image = ImageContent(data=b"x", mime_type="image/png")
    user = UserCanister("hi")
    conversation = Conversation()
    conversation.add_canister(user)

    assert model.request("hi").canisters[0].content == (TextualContent("hi"),)
    assert model.request(image).canisters[0].content == (image,)
    assert model.request(["hi", image]).canisters[0].content == (TextualContent("hi"), image)
    assert model.request(user).canisters == (user,)
    assert model.request([DocumentCanister("d"), user]).canisters[1] is user
    assert model.request(conversation).canisters == (user,)
    assert model.request(conversation).conversation_id == conversation.id
    assert model.request("hi").conversation_id not in ("", model.request("hi").conversation_id)
    assert isinstance(model.request("hi", system="be kind").canisters[0], SupervisorCanister)
    request = Request(canisters=[user])
    assert model.request(request) is request


def test_the_nearest_control_value_wins(application: Application) -> None:
    """The request over the model over the configuration."""
    model = Model("scripted:echo", application=application, temperature=0.5, top_p=0.9)

    request = model.request("hi", controls={"temperature": 0.1})

    assert request.controls == {"temperature": 0.1, "top_k": 3, "top_p": 0.9}
    assert request.model == "scripted:echo"


def test_what_is_no_option_is_refused_and_not_ignored(application: Application) -> None:
    """A slip of the pen must not change the meaning of a request in silence."""
    model = Model(application=application)

    with pytest.raises(TypeError, match="did you mean 'system'"):
        model.request("hi", sytem="be kind")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="controls"):
        model.request("hi", temperature=0)  # type: ignore[call-arg]
    with pytest.raises(RequestError, match="system cannot be passed"):
        model.request(model.request("hi"), system="be kind")


def test_a_request_names_the_model_that_is_configured(application: Application) -> None:
    """Two configurations give two meanings, and so two digests."""
    configured = Model(application=application).request("hi")
    another = Model("scripted:demo", application=application).request("hi")

    assert configured.model == "scripted:echo"
    assert configured.digest() != another.digest()


async def test_closing_one_model_leaves_the_answer_of_another_alone(
    application: Application,
) -> None:
    """Clients are shared, and closed by the last who needs them."""
    first = Model(application=application)
    second = Model(application=application)
    async with second.stream("hello there, my friend") as stream:
        await anext(aiter(stream))
        await first.ask("hi")
        await first.close()
        held = len(application._pool)
        response = await stream.response()
    await second.close()

    assert response.text == "hello there, my friend"
    assert (held, len(application._pool)) == (1, 0)


def test_clients_of_loops_that_ended_are_not_kept(application: Application) -> None:
    """A program that runs one loop after the other does not fill its memory."""
    for _ in range(3):
        asyncio.run(Model(application=application).ask("hi"))

    assert not application._pool


def test_there_must_be_something_to_answer(application: Application) -> None:
    """An empty conversation, or what is no content, is refused before anything is sent."""
    with pytest.raises(RequestError):
        Model(application=application).request(Conversation())
    with pytest.raises(RequestError):
        Model(application=application).request([])
    with pytest.raises(RequestError):
        Model(application=application).request([object()])  # type: ignore[list-item]


async def test_reactors_of_the_model_and_of_the_call_hear_both(application: Application) -> None:
    """Neither replaces the other."""
    heard: list[str] = []
    mine = ConversationReactors(progress=lambda event: heard.append("model " + event.chunk))
    ours = ConversationReactors(progress=lambda event: heard.append("call " + event.chunk))

    async with Model(application=application, reactors=mine) as model:
        await model.answer(model.request("hi"), reactors=ours)

    assert heard == ["model hi", "call hi"]


async def test_media_in_a_store_are_loaded_before_they_are_sent(application: Application) -> None:
    """A restored conversation can be asked about its pictures."""
    content_id = application.store.contents.add(b"pixels", mime_type="image/png")
    seen: list[Request] = []

    async with Model(application=application) as model:
        response = await model.ask(
            [TextualContent("see?"), ImageContent(content_id=content_id, mime_type="image/png")]
        )
        seen.append(response.request)

    picture = seen[0].canisters[0].content[1]
    assert isinstance(picture, ImageContent)
    assert picture.data == b"pixels"


async def test_an_unknown_provider_or_model_is_named(application: Application) -> None:
    """The error says what is known."""
    with pytest.raises(UnknownNameError, match="nowhere"):
        await Model("nowhere:x", application=application).ask("hi")
    with pytest.raises(UnknownNameError, match="echo"):
        await Model("scripted:nothing", application=application).ask("hi")


async def test_tokens_can_be_counted_without_asking(application: Application) -> None:
    """The unit of the scripted provider is the word."""
    async with Model(application=application) as model:
        assert (await model.count_tokens("one two three")).tokens == 3


def test_synchronous_code_gets_the_same(application: Application) -> None:
    """The portal adds nothing and leaves nothing out."""
    with SyncModel(application=application) as model:
        asked = model.ask("hello")
        with model.stream("hello") as stream:
            pieces = [e.text for e in stream if isinstance(e, ContentDeltaEvent)]
            streamed = stream.response()
        counted = model.count_tokens("hello")

    assert asked.text == streamed.text == "".join(pieces) == "hello"
    assert counted.tokens == 1


async def test_synchronous_code_works_inside_a_running_loop(application: Application) -> None:
    """As in a notebook, whose cells run in a loop."""
    assert SyncModel(application=application).ask("hello").text == "hello"


def test_synchronous_models_work_from_many_threads(application: Application) -> None:
    """Each thread gets its own answer."""
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        answers[number] = SyncModel(application=application).ask(f"number {number}").text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == {number: f"number {number}" for number in range(8)}


def test_each_event_loop_has_clients_of_its_own(application: Application) -> None:
    """A model outlives the loop in which it was first asked."""
    model = Model(application=application)

    first = asyncio.run(model.ask("one"))
    second = asyncio.run(model.ask("two"))

    assert (first.text, second.text) == ("one", "two")


async def test_asking_again_reads_no_table_of_the_configuration(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table is made of all settings: whoever asks a thousand times does not wait for that."""
    async with Model("scripted:echo", application=application) as model:
        first = model.request("hello")
        await model.ask("hello")

        monkeypatch.setattr(Configuration, "access_table", _refuse)
        again = await model.ask("hello")

    assert again.text == "hello"
    assert again.request.controls == first.controls == {"top_k": 3}


def _refuse(*_: object) -> None:
    raise AssertionError("A table was made.")


def test_an_address_means_the_same_whenever_it_is_read(application: Application) -> None:
    """Addresses, providers and the configured model, each also the second time."""
    for address in ("", "scripted:echo", "scripted", "local:smollm2"):
        first = application.resolve_address(address)
        assert application.resolve_address(address) == first
    assert str(application.resolve_address("")) == "scripted:echo"


def test_requests_for_texts_say_what_any_request_says(application: Application) -> None:
    """What all of them have in common is kept, and nobody can tell."""
    model = Model(application=application, temperature=0.5, strict=True, window="drop")
    texts = ["one", "two\n", "", "été"]

    for text in texts:
        quick = model.request(text)
        slow = model.request([text])  # several contents, of which there is one
        (said,), (word,) = quick.canisters, slow.canisters
        assert quick.controls == {"temperature": 0.5, "top_k": 3}
        assert (quick.strict, quick.window, quick.model) == (True, "drop", "scripted:echo")
        fields = {"canisters": (), "conversation_id": ""}
        assert quick.__dict__ | fields == slow.__dict__ | fields
        assert said.content == word.content
        assert msgspec.to_builtins(said).keys() == msgspec.to_builtins(word).keys()
        assert said.timestamp.tzinfo is word.timestamp.tzinfo  # type: ignore[union-attr]
    assert len({model.request("one").canisters[0].id for _ in range(3)}) == 3


def test_what_is_changed_of_a_model_holds_from_the_next_request_on(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its controls, as plain data which Python holds for equal, its address, its strictness."""
    model = Model(application=application, seed=1)
    assert model.request("x").controls["seed"] is not True

    model.controls["seed"] = True
    assert model.request("x").controls["seed"] is True
    model.controls["temperature"] = 0.1
    assert model.request("x").controls["temperature"] == 0.1
    model.strict = True
    assert model.request("x").strict
    model.address = "scripted:other"
    assert model.request("x").model == "scripted:other"

    other = Application(application.configuration)
    monkeypatch.setattr(model, "_given_application", other)
    monkeypatch.setitem(other.__dict__, "controls", {"top_k": 4})
    assert model.request("x").controls["top_k"] == 4


def test_half_a_surrogate_pair_is_refused_in_a_prompt(application: Application) -> None:
    """No text can be written with it."""
    with pytest.raises(RequestError, match="lone surrogate"):
        Model(application=application).request("\ud800")


def weather(place: str) -> str:
    """Tells the weather at a place."""
    return f"sunny in {place}"


class Connected(FunctionsEnsemble):
    """An ensemble that has its invokers while it is connected."""

    connects = 0

    async def connect(self) -> None:
        """Counts."""
        self.connects += 1

    async def survey(self) -> Sequence[Invoker]:
        """Returns them, where it is connected."""
        return self.invokers if self.connects else ()


@pytest.mark.parametrize(
    "tools",
    [
        weather,
        [weather],
        produce_invoker(weather),
        [produce_invoker(weather).describe()],
        produce_invoker(weather).describe(),
        FunctionsEnsemble("f", (weather,)),
        [Connected("f", (weather,))],
    ],
    ids=["function", "list", "invoker", "descriptions", "description", "ensemble", "connected"],
)
async def test_tools_are_described_and_their_calls_come_back(tools: Any, tmp_path: Path) -> None:
    """However they are given; nothing is executed, which is for an engine."""
    path = write_script(tmp_path, {"contents": [invoke("weather", place="Rome")]})
    async with Model(f"scripted:{path}") as model:
        asked = await model.ask("How is the weather?", tools=tools)
        answered = await model.answer("How is the weather?", tools=tools)
        async with model.stream("How is the weather?", tools=tools) as stream:
            streamed = await stream.response()

    for response in (asked, answered, streamed):
        (described,) = response.request.invocables
        assert described == produce_invoker(weather).describe()
        assert [each.role for each in response.canisters] == ["invocation"]


def test_functions_are_taken_by_their_older_name_and_ensembles_have_to_be_connected() -> None:
    """A request is built without waiting for anything."""
    model = SyncModel("scripted:echo")

    assert model.request("x", invocables=[weather]).invocables[0].name == "weather"  # type: ignore[list-item]
    with pytest.raises(RequestError, match="pass it to an Engine"):
        model.request("x", tools=McpEnsemble(McpServer(name="m", command="true")))


def test_each_question_has_an_id_in_its_events() -> None:
    """A question alone one of its own, a conversation its own."""
    heard: list[str] = []
    reactors = ConversationReactors(
        allocator=lambda event: heard.append(event.conversation_id),
        deallocator=lambda event: heard.append(event.conversation_id),
    )
    conversation = Conversation()
    conversation.add_user_message("three")
    with SyncModel("scripted:echo", reactors=reactors) as model:
        model.ask("one")
        model.ask("two", system="Be brief.")
        model.ask(conversation)
        model.ask(conversation)

    assert all(heard)
    assert heard[::2] == heard[1::2]
    assert len({*heard}) == 3
    assert heard[-4:] == [conversation.id] * 4


def test_the_configuration_caches_all_requests() -> None:
    """Off by default; the hint of a model or of one request overrides it."""

    def load(value: str) -> Application:
        return Application.load(command_line={"cache": value})

    assert Model(application=load("off")).request("hi").cache is None
    assert Model(application=load("on")).request("hi").cache == CacheHint()
    model = Model(application=load("1h"))
    assert model.request("hi").cache == CacheHint("1h")
    assert model.request("hi", cache=CacheHint("5m")).cache == CacheHint("5m")
    assert Model(application=load("on"), cache=CacheHint(key="k")).request("hi").cache == CacheHint(
        key="k"
    )
    with pytest.raises(ConfigurationError, match="cache"):
        load("1 day")
