"""Real answers from the embedded model, in this process."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import attrs
import jsonschema
import pytest

from support.quality.properties import sample
from vibe_llms.events.stream import ContentDeltaEvent, ResponseFinishedEvent
from vibe_llms.exceptions import (
    CapabilityError,
    ContextOverflowError,
    ControlError,
    ConverseError,
    RequestError,
    WeightsError,
)
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    StopReason,
    UserCanister,
)
from vibe_llms.messages.contents import ImageContent, TextualContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.local import produce_provider
from vibe_llms.providers.local.client import LocalModel

pytestmark = pytest.mark.weights

WEATHER = InvocableDescription(
    name="weather",
    description="Tells the weather in a city.",
    schema={
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
MAIL = InvocableDescription(
    name="mail",
    description="Sends a mail.",
    schema={
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/person"}},
        "required": ["to"],
        "additionalProperties": False,
        "$defs": {"person": {"enum": ["Ann", "Bob"]}},
    },
)


def count_listening() -> int:
    """Counts the ports at which this process listens: each loaded model has one."""
    own = {str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return sum(f"socket:[{row[9]}]" in own for row in rows if row[3] == "0A")


def produce_request(*said: str | AnyCanister, **fields: object) -> Request:
    """Makes a request with a seed and a limit, so that each test is short and repeats itself."""
    canisters = [UserCanister(item) if isinstance(item, str) else item for item in said]
    controls = {"seed": 7, "max_tokens": 12, **fields.pop("controls", {})}  # type: ignore[dict-item]
    return Request(canisters=canisters, controls=controls, **fields)  # type: ignore[arg-type]


@pytest.mark.slow
async def test_an_answer_streams_in_pieces(local_model: LocalModel) -> None:
    """The text of the response is what the deltas add up to, and the end says why."""
    async with local_model.stream(produce_request("Tell me about the sea.")) as stream:
        events = [event async for event in stream]
        response = await stream.response()

    pieces = [event.text for event in events if isinstance(event, ContentDeltaEvent)]
    assert len(pieces) > 5
    assert "".join(pieces) == response.text
    assert isinstance(events[-1], ResponseFinishedEvent)
    assert response.metadata.origin.model == local_model.descriptor.name


@pytest.mark.slow
async def test_a_whole_answer_equals_a_streamed_one(local_model: LocalModel) -> None:
    """The same seed gives the same text, streamed or not, also after something else was said."""
    request = produce_request(
        "Tell me about the sea.", controls={"temperature": 1.5, "max_tokens": 20}
    )

    streamed = await local_model.converse(request)
    await local_model.converse(produce_request("Tell me about the woods."))
    whole = await local_model.converse(request, stream=False)

    assert whole.text == streamed.text
    assert whole.metadata.usage is not None


@pytest.mark.slow
async def test_another_seed_gives_another_answer(local_model: LocalModel) -> None:
    """The seed is what decides."""
    controls = {"temperature": 1.5, "max_tokens": 12}
    texts = {
        (
            await local_model.converse(
                produce_request("Tell me a story.", controls={**controls, "seed": seed})
            )
        ).text
        for seed in (1, 2, 3)
    }

    assert len(texts) == 3


@pytest.mark.slow
async def test_the_likeliest_token_makes_other_controls_void(local_model: LocalModel) -> None:
    """With top_k of 1 no temperature and no seed changes anything; so these reach the model."""
    controls: dict[str, object] = {"top_k": 1, "max_tokens": 12}
    first = {**controls, "seed": 1, "temperature": 2.0}
    second = {**controls, "seed": 2, "temperature": 0.1, "top_p": 0.5, "min_p": 0.2}

    texts = [
        (await local_model.converse(produce_request("Say something.", controls=values))).text
        for values in (first, second)
    ]

    assert texts[0] == texts[1]


@pytest.mark.slow
async def test_an_answer_ends_at_its_limit(local_model: LocalModel) -> None:
    """``max_tokens`` bounds the answer, which says that it was cut."""
    response = await local_model.converse(
        produce_request("Tell me a long story.", controls={"max_tokens": 5})
    )

    assert response.metadata.stop_reason is StopReason.LIMIT
    assert response.metadata.usage is not None
    assert response.metadata.usage.output_tokens == 5


@pytest.mark.slow
async def test_an_answer_ends_before_a_stop_text(local_model: LocalModel) -> None:
    """What is in ``stop`` is not in the answer, which goes on without it."""
    request = produce_request("Tell me about the sea.")
    whole = (await local_model.converse(request)).text
    word = whole.split()[4]

    response = await local_model.converse(
        produce_request("Tell me about the sea.", controls={"stop": [word]})
    )

    assert response.text == whole[: whole.index(word)]
    assert response.metadata.stop_reason is StopReason.ANSWERED


@pytest.mark.slow
async def test_a_stream_stops_in_the_middle_of_an_answer(local_model: LocalModel) -> None:
    """Leaving the stream stops llama.cpp; what had come is kept and marked as interrupted."""
    request = produce_request("Tell me a long story.", controls={"max_tokens": 1500})
    async with local_model.stream(request) as stream:
        async for event in stream:
            if isinstance(event, ContentDeltaEvent):
                break

    (canister,) = stream.canisters
    assert isinstance(canister, AssistantCanister)
    assert canister.origin is not None
    assert canister.origin.stop_reason is StopReason.INTERRUPTED
    assert await local_model.converse(produce_request("And now?", controls={"max_tokens": 3}))


@pytest.mark.slow
async def test_a_stream_stops_while_a_long_prompt_is_read(local_model: LocalModel) -> None:
    """A cancelled task ends before the first token, and the model is free for the next."""
    request = produce_request("word " * 1900)
    task = asyncio.create_task(local_model.converse(request))
    # Both seats taken by long prompts: the third request runs only if they are given up.
    other = asyncio.create_task(local_model.converse(produce_request("hill " * 1900)))
    await asyncio.sleep(0.3)

    task.cancel()
    other.cancel()
    outcomes = await asyncio.gather(task, other, return_exceptions=True)

    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    assert await local_model.converse(produce_request("Hi.", controls={"max_tokens": 3}))


@pytest.mark.slow
async def test_several_conversations_run_at_once(local_model: LocalModel) -> None:
    """More requests than seats are answered all the same, one after another."""
    requests = [produce_request(f"Number {n}.", controls={"max_tokens": 4}) for n in range(5)]

    responses = await asyncio.gather(*map(local_model.converse, requests))

    assert all(response.canisters for response in responses)


@pytest.mark.slow
async def test_tokens_are_counted_exactly(local_model: LocalModel) -> None:
    """The count of a request is the input that the model then reports."""
    request = produce_request("Où est la mer? 🌊 <|im_end|>", invocables=[MAIL])

    count = await local_model.tokenizer.count_request(request, local_model.descriptor)
    response = await local_model.converse(request)

    assert count.error_tokens == 0
    assert response.metadata.usage is not None
    assert count.tokens == response.metadata.usage.total_input_tokens
    assert (await local_model.tokenizer.count_text("", local_model.descriptor)).tokens == 0


@pytest.mark.slow
async def test_an_answer_is_held_to_a_schema(local_model: LocalModel) -> None:
    """Whatever the model wants to say, it says it in the form that was asked for."""
    schema = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "pattern": "^\\d{3}$"},
            "sizes": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        },
        "required": ["code", "sizes"],
        "additionalProperties": False,
    }

    response = await local_model.converse(
        produce_request("Describe a box.", schema=schema, controls={"max_tokens": 200})
    )

    jsonschema.validate(json.loads(response.text), schema)
    assert response.losses == ()


@pytest.mark.parametrize(
    ("choice", "stream"),
    [
        ("mail", False),
        *(
            pytest.param(choice, stream, marks=pytest.mark.slow)
            for choice, stream in (
                ("required", True),
                ("required", False),
                ("weather", True),
                ("weather", False),
                ("mail", True),
            )
        ),
    ],
)
async def test_an_invocation_is_valid(local_model: LocalModel, choice: str, stream: bool) -> None:
    """A model whose template knows no tools invokes one in valid form, streamed or not."""
    request = produce_request(
        "What is the weather in Paris?",
        invocables=[WEATHER, MAIL],
        invocation_choice=choice,
        controls={"max_tokens": 200},
    )

    response = await local_model.converse(request, stream=stream)

    (invocation,) = response.canisters
    assert isinstance(invocation, InvocationCanister)
    assert response.metadata.stop_reason is StopReason.INVOCATION
    described = {"weather": WEATHER, "mail": MAIL}[invocation.name]
    assert choice in ("required", invocation.name)
    jsonschema.validate(json.loads(invocation.arguments), described.schema)


@pytest.mark.slow
async def test_an_answer_follows_the_result_of_an_invocation(local_model: LocalModel) -> None:
    """An invocation, its result and an answer make a conversation that goes on."""
    question = UserCanister("What is the weather in Paris?")
    first = await local_model.converse(
        produce_request(
            question,
            invocables=[WEATHER],
            invocation_choice="required",
            controls={"max_tokens": 200},
        )
    )
    (invocation,) = first.canisters
    assert isinstance(invocation, InvocationCanister)
    result = ResultCanister("Rain.", invocation_id=invocation.invocation_id, name="weather")

    second = await local_model.converse(
        produce_request(*first.conversation, result, invocables=[WEATHER], invocation_choice="none")
    )

    assert second.text
    assert {str(loss.kind) for loss in second.losses} == {"coerced"}


@pytest.mark.parametrize(
    "question",
    [
        "How is the weather in Rome?",
        pytest.param("Tell me the weather in Rome, please.", marks=pytest.mark.slow),
    ],
)
async def test_the_model_invokes_what_is_asked_for_without_being_made_to(
    local_model: LocalModel, question: str
) -> None:
    """Free to choose, the embedded model invokes where a tool has the answer, and then says it."""
    controls = {"temperature": 0, "max_tokens": 40}
    asking = produce_request(question, invocables=[WEATHER], controls=controls)

    first = await local_model.converse(asking)
    (invocation,) = first.canisters
    assert isinstance(invocation, InvocationCanister)
    result = ResultCanister(
        "It rains in Rome.", invocation_id=invocation.invocation_id, name="weather"
    )
    second = await local_model.converse(
        attrs.evolve(asking, canisters=(*first.conversation, result))
    )

    assert json.loads(invocation.arguments).keys() == {"city"}
    assert "rain" in second.text.lower()
    assert second.metadata.stop_reason is StopReason.ANSWERED


@pytest.mark.parametrize(
    "question",
    [
        "Name one animal that lives in the sea.",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("Good morning!", "Say hello.")),
    ],
)
async def test_an_answer_in_words_ends_where_tools_are_offered(
    local_model: LocalModel, question: str
) -> None:
    """What no tool has the answer to is answered in words, and these end."""
    request = produce_request(
        question, invocables=[WEATHER], controls={"temperature": 0, "max_tokens": 150}
    )

    response = await local_model.converse(request)

    assert response.metadata.stop_reason is StopReason.ANSWERED
    assert response.text
    assert not response.text.startswith("{")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_model_may_answer_in_place_of_an_invocation(
    local_model: LocalModel, seed: int
) -> None:
    """With the choice ``auto`` the answer is text or a valid invocation, never something else."""
    request = produce_request(
        "Hello!", invocables=[WEATHER], controls={"seed": seed, "temperature": 1.5}
    )

    response = await local_model.converse(request)

    (canister,) = response.canisters
    if isinstance(canister, InvocationCanister):
        jsonschema.validate(json.loads(canister.arguments), WEATHER.schema)
    else:
        assert not response.text.startswith("{")


async def test_a_picture_is_refused_before_sending(local_model: LocalModel) -> None:
    """A model that cannot take a picture says so, whoever shows it."""
    picture = ImageContent(mime_type="image/png", data=b"\x89PNG")

    with pytest.raises(CapabilityError, match="images") as caught:
        await local_model.converse(
            produce_request(UserCanister((TextualContent("What is this?"), picture)))
        )

    assert caught.value.capability == "supports_images"
    assert caught.value.path == "canisters[0].content[1]"


async def test_a_conversation_too_long_says_by_how_much(local_model: LocalModel) -> None:
    """The error has the tokens of the input and those of the window."""
    request = produce_request("word " * 9000)
    count = await local_model.tokenizer.count_request(request, local_model.descriptor)

    with pytest.raises(ContextOverflowError) as caught:
        await local_model.converse(request)

    assert caught.value.tokens == count.tokens
    window = local_model.descriptor.attributes.access_value("context_window_tokens")
    assert caught.value.limit == window


async def test_mistakes_in_a_request_are_said_in_our_words(local_model: LocalModel) -> None:
    """A bad control and a bad schema are each an error of the request."""
    cases = {
        "top_p": produce_request("Hi.", controls={"top_p": 3}),
        "schema": produce_request("Hi.", schema={"$ref": "#/nowhere"}),
    }

    for word, request in cases.items():
        with pytest.raises(RequestError, match=word) as caught:
            await local_model.converse(request)
        assert isinstance(caught.value, ControlError) == (word == "top_p")


@pytest.fixture
def own_context(local_context: ProviderContext) -> ProviderContext:
    """The context of a provider whose model nobody else has loaded."""
    return attrs.evolve(local_context, settings={**local_context.settings, "context_tokens": 512})


@pytest.mark.slow
async def test_a_closed_client_answers_no_more(own_context: ProviderContext) -> None:
    """Closing stops a stream that is on its way; a later request is refused."""
    client = produce_provider(own_context).produce_client()
    model = await client.access_model()
    stream = model.stream(produce_request("Tell me a story.", controls={"max_tokens": 400}))
    events = aiter(stream)
    await anext(events)

    await client.close()
    await client.close()

    with pytest.raises(ConverseError):
        await stream.response()
    with pytest.raises(ConverseError, match="closed"):
        await model.converse(produce_request("Hi."))


@pytest.mark.slow
async def test_clients_share_one_loaded_model(own_context: ProviderContext) -> None:
    """The second client loads nothing, and goes on when the first is closed."""
    provider = produce_provider(own_context)
    first, second = provider.produce_client(), provider.produce_client()
    model, other = await first.access_model(), await second.access_model()
    assert isinstance(model, LocalModel)
    assert isinstance(other, LocalModel)

    before = count_listening()
    for each in (model, other):
        await each.converse(produce_request("Hi.", controls={"max_tokens": 1}))
    loaded = count_listening() - before
    await first.close()
    response = await other.converse(produce_request("Hi.", controls={"max_tokens": 3}))
    await second.close()

    assert loaded == 1
    assert response.text


@pytest.mark.slow
async def test_a_file_is_loaded_once_whatever_it_is_called(
    own_context: ProviderContext, weights: Path, tmp_path: Path
) -> None:
    (tmp_path / "link.gguf").symlink_to(weights)
    (tmp_path / "copy.gguf").symlink_to(tmp_path / "link.gguf")
    spellings = [
        str(weights),
        str(weights.parent / "." / ".." / weights.parent.name / weights.name),
        str(tmp_path / "link.gguf"),
        str(tmp_path / "copy.gguf"),
        "",
    ]
    client = produce_provider(own_context).produce_client()
    before = count_listening()
    for name in spellings:
        model = await client.access_model(name)
        response = await model.converse(produce_request("Hi.", controls={"max_tokens": 2}))
        assert response.text
    loaded = count_listening() - before
    await client.close()
    assert loaded == 1
    assert count_listening() == before


@pytest.mark.slow
async def test_another_model_evicts_the_one_used_least_recently_when_that_has_answered(
    own_context: ProviderContext, weights: Path, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{name}.gguf" for name in ("a", "b", "c")]
    for path in paths:
        shutil.copyfile(weights, path)
    context = attrs.evolve(own_context, settings={**own_context.settings, "loaded_models": 2})
    client = produce_provider(context).produce_client()
    first, second, third = [await client.access_model(str(path)) for path in paths]
    before = count_listening()
    asked = produce_request("Tell me a story.", controls={"max_tokens": 60})
    short = produce_request("Hi.", controls={"max_tokens": 2})

    alone = await first.converse(asked)
    await second.converse(short)
    most = count_listening() - before
    # Two are at work on the one, which is used least recently, and two wait for a third.
    answers = await asyncio.gather(
        *(model.converse(asked) for model in (second, first, third, third, first, second)),
    )
    counted = await first.tokenizer.count_text("Hello there", first.descriptor)
    last = count_listening() - before
    await client.close()

    # Two at a time are computed together, which rounds otherwise than alone: the words may differ.
    assert all(answer.text for answer in (alone, *answers))
    assert counted.tokens > 0
    assert (most, last) == (2, 2)


async def test_a_file_that_is_no_model_is_named(
    local_context: ProviderContext, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """llama.cpp itself writes nothing; the error names the file."""
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"not a model")
    client = produce_provider(local_context).produce_client()
    model = await client.access_model(str(path))

    with pytest.raises(WeightsError, match=r"broken\.gguf"):
        await model.converse(produce_request("Hi."))
    await client.close()

    assert capfd.readouterr() == ("", "")


PROGRAM = """
import sys
from pathlib import Path
from vibe_llms.providers.local.inference import LoadSettings, acquire_server
import asyncio
async def ask():
    settings = LoadSettings(path=Path(sys.argv[1]), context_tokens=512, parallel=1, waiting=1)
    server = await asyncio.to_thread(acquire_server, settings)
    exchange = await server.open_exchange({"messages": [{"role": "user", "content": "Hi"}]})
    await exchange.receive()
    if sys.argv[2] == "close":
        await exchange.close()
asyncio.run(ask())
print("done")
"""


@pytest.mark.parametrize("ending", ["leave", pytest.param("close", marks=pytest.mark.slow)])
def test_a_process_ends_cleanly(weights: Path, ending: str) -> None:
    """Also one that leaves in the middle of an answer and closes nothing."""
    outcome = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(weights), ending],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "done\n", "")


@pytest.mark.slow
@pytest.mark.samples
@pytest.mark.parametrize(
    "schema",
    sample([
        {"type": "object", "properties": {"city": {"type": "banana"}}},
        {"type": "object", "properties": {"city": {"$ref": "#/$defs/none"}}},
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 5, "maximum": 3}},
         "required": ["n"]},
    ]),
)  # fmt: skip
async def test_a_grammar_that_llama_cpp_ignores_is_an_error(
    local_model: LocalModel, schema: dict[str, object]
) -> None:
    """It says nothing of it, and the model would write what it likes, as if it were held to it."""
    broken = attrs.evolve(WEATHER, schema=schema)

    with pytest.raises(RequestError, match="cannot enforce this schema"):
        await local_model.converse(produce_request("Hello", invocables=(broken,)))

    answer = await local_model.converse(produce_request("Hello", invocables=(WEATHER,)))
    assert answer.canisters


@pytest.mark.slow
async def test_keywords_that_no_grammar_knows_are_told_and_the_rest_holds(
    local_model: LocalModel,
) -> None:
    """A loss names each; the answer keeps to what is left."""
    schema = {**WEATHER.schema, "not": {"required": ["x"]}, "minProperties": 1}
    strange = attrs.evolve(WEATHER, schema=schema)
    request = produce_request(
        "Weather in Rome?",
        invocables=(strange,),
        invocation_choice="required",
        controls={"max_tokens": 40},
    )

    response = await local_model.converse(request)

    (call,) = (each for each in response.canisters if isinstance(each, InvocationCanister))
    jsonschema.validate(json.loads(call.arguments), dict(WEATHER.schema))
    told = {loss.path for loss in response.losses}
    assert {"invocables[0].schema.not", "invocables[0].schema.minProperties"} <= told
