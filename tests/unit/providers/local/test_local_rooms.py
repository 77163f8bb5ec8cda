"""What the local provider says to llama.cpp, and how it reads the answer."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects import chat_completions
from vibe_llms.exceptions import (
    CapabilityError,
    ConfigurationError,
    ContextOverflowError,
    ConverseError,
    ProviderError,
    RequestError,
    UnknownNameError,
    WeightsError,
)
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    StopReason,
    UserCanister,
)
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.local import produce_provider, survey_providers
from vibe_llms.providers.local.controls import CONTROLS
from vibe_llms.providers.local.decoder import LocalDecoder
from vibe_llms.providers.local.errors import produce_error
from vibe_llms.providers.local.grammars import compose_invocation_schema, prepare_schema
from vibe_llms.providers.local.inference import EngineFault
from vibe_llms.providers.local.invocations import INVOCATIONS
from vibe_llms.providers.local.messages import MESSAGES
from vibe_llms.providers.local.repetition import CHARACTERS, RepetitionWatch

MODEL = ModelDescriptor(
    provider="local",
    name="smollm2",
    attributes=Catalogue().access_integrator("local").integrate("smollm2"),
)
OTHER = ModelDescriptor(
    provider="local",
    name="mine",
    attributes=Catalogue().access_integrator("local").integrate("mine"),
)
MAIL = InvocableDescription(
    name="mail",
    description="Sends a mail.",
    schema={
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/person"}},
        "required": ["to"],
        "$defs": {"person": {"enum": ["Ann", "Bob"]}},
    },
)


def decode(pieces: list[str], word: str = "stop", offered: tuple[str, ...] = ("f",)) -> Assembler:
    """Reads an answer in pieces, as llama.cpp would stream them."""
    decoder = LocalDecoder(provider="local", model="smollm2", invocable_names=offered)
    assembler = Assembler(provider="local", model="smollm2")
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"content": None}}]}]
    chunks += [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": word}]})
    for chunk in chunks:
        for event in decoder.decode({**chunk, "id": "chatcmpl-1", "model": "/a/path.gguf"}):
            assembler.feed(event)
    for event in decoder.finish():
        assembler.feed(event)
    return assembler


@given(st.lists(st.integers(0, 40), max_size=5))
def test_an_invocation_in_json_becomes_an_invocation(places: list[int]) -> None:
    """However its text is cut; its arguments keep their own text."""
    text = '{\n "name": "f", "arguments": {"a" :1}}'
    cuts = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    result = decode([text[a:b] for a, b in itertools.pairwise(cuts)])

    (invocation,) = result.produce_canisters()
    assert isinstance(invocation, InvocationCanister)
    assert (invocation.invocation_id, invocation.name) == ("call-1", "f")
    assert invocation.arguments == '{"a" :1}'
    assert result.origin.stop_reason is StopReason.INVOCATION
    assert result.origin.model == "smollm2"


@pytest.mark.parametrize(
    ("text", "losses"),
    [
        ("It rains.", 0),
        ('{"name": "g", "arguments": {}}', 0),
        ('{"code": 7}', 0),
        ('{"name": "f", "argum', 1),
        ("  \n", 1),
    ],
)
def test_what_is_no_invocation_stays_text(text: str, losses: int) -> None:
    """An answer, JSON that a schema wanted, or an invocation that was cut off, loudly."""
    result = decode([text], "length")

    (canister,) = result.produce_canisters()
    assert canister.content == (TextualContent(text),)
    assert len(result.losses) == losses


def test_text_is_held_back_only_while_it_may_be_an_invocation() -> None:
    """An answer in words streams at once."""
    decoder = LocalDecoder(provider="local", model="smollm2", invocable_names=["f"])

    held = decoder.decode({"choices": [{"delta": {"content": "\n"}}]})
    shown = decoder.decode({"choices": [{"delta": {"content": "It"}}]})

    assert [event.type for event in held] == ["response.started"]
    assert [event.type for event in shown] == ["content.started", "content.delta"]


async def test_what_a_client_says_beyond_all_common_words_is_told_to_be_left_out(
    tmp_path: Path,
) -> None:
    """llama.cpp would pass over it without a word."""
    weights = tmp_path / "mine.gguf"
    weights.write_bytes(b"GGUF")
    context = produce_context(tmp_path, path=str(weights))
    model = await produce_provider(context).produce_client().access_model()
    asked = chat_completions.normalize_request(
        {
            "messages": [{"role": "user", "content": "Well?"}],
            "n": 2,
            "logprobs": True,
            "logit_bias": {"1": 5},
            "stream_options": {"include_usage": True},
            "user": None,
        }
    ).value

    translation = model.nativize(asked, streaming=False)

    assert [str(loss) for loss in translation.losses] == [
        "withheld request.native: logit_bias, logprobs, n: this protocol has no such field"
    ]
    assert not translation.value.keys() & {"n", "logprobs", "logit_bias"}


def test_invocations_and_results_are_told_as_text() -> None:
    """A template that knows no tools can show them; that they are mere text is said."""
    request = Request(
        canisters=[
            UserCanister("Mail Ann."),
            AssistantCanister("Well."),
            InvocationCanister(invocation_id="x", name="mail", arguments='{"to": "Ann"}'),
            ResultCanister("no such box", invocation_id="x", name="mail", is_error=True),
        ]
    )

    translation = MESSAGES.nativize(request, MODEL)

    assert translation.value["messages"] == [
        {"role": "user", "content": "Mail Ann."},
        {
            "role": "assistant",
            "content": 'Well.\n{"name": "mail", "arguments": {"to": "Ann"}}',
        },
        {"role": "user", "content": "Error of mail:\nno such box"},
    ]
    coerced = [(str(loss.kind), loss.path) for loss in translation.losses]
    assert coerced == [("coerced", "canisters[2]"), ("coerced", "canisters[3]")]


DOUBLING: dict[str, Any] = {
    **{f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(27)},
    "d27": {"type": "string"},
}
"""28 lines with 2**27 ways through them."""
DEEP: dict[str, Any] = {}
for _ in range(100_000):
    DEEP = {"items": DEEP}


def test_a_schema_is_brought_into_the_words_of_the_grammar() -> None:
    """Usual classes are written out; a pattern it has no words for is dropped, loudly."""
    losses: list[Loss] = []
    schema = {
        "properties": {
            "pattern": {"type": "string", "pattern": r"^\d+[\w-]$"},
            "b": {"items": [{"type": "string", "pattern": "[0-9]"}]},
            "c": {"type": "string", "pattern": r"^(?=x)\bx$"},
            "d": {"const": {"pattern": "[0-9]"}},
        }
    }

    prepared = prepare_schema(schema, losses)

    assert prepared["properties"] == {
        "pattern": {"type": "string", "pattern": "^[0-9]+[A-Za-z0-9_-]$"},
        "b": {"items": [{"type": "string"}]},
        "c": {"type": "string"},
        "d": {"const": {"pattern": "[0-9]"}},
    }
    assert [loss.path for loss in losses] == [
        "schema.properties.b.items[0].pattern",
        "schema.properties.c.pattern",
    ]


@pytest.mark.parametrize(
    ("schema", "left", "paths"),
    [
        ({"type": "array", "maxItems": 10**9}, {"type": "array"}, ["schema.maxItems"]),
        ({"type": "string", "minLength": 1e300}, {"type": "string"}, ["schema.minLength"]),
        ({"not": {"type": "null"}, "uniqueItems": True}, {}, ["schema.not", "schema.uniqueItems"]),
        (
            {"properties": {"not": {"if": {}, "then": {}}}},
            {"properties": {"not": {}}},
            ["schema.properties.not.if", "schema.properties.not.then"],
        ),
        ({"$ref": "#/$defs/d0", "$defs": DOUBLING}, {}, ["schema"]),
        ({"type": "object", "properties": {"a": DEEP}}, {"type": "object"}, ["schema"]),
        ({"$ref": "#"}, {"$ref": "#"}, []),
    ],
)
def test_what_llama_cpp_cannot_hold_an_answer_to_is_left_out_and_told(
    schema: dict[str, Any], left: dict[str, Any], paths: list[str]
) -> None:
    """Some of it would be ignored in silence, and some would hold its thread for ever."""
    losses: list[Loss] = []

    assert prepare_schema(schema, losses) == left
    assert [(loss.kind, loss.path) for loss in losses] == [("dropped", path) for path in paths]


def test_references_in_a_schema_of_arguments_still_lead_somewhere() -> None:
    """The schema of all invocations takes each one's definitions in."""
    schema = compose_invocation_schema([MAIL, MAIL], [])

    jsonschema.validate({"name": "mail", "arguments": {"to": "Ann"}}, {**schema, "oneOf": [
        schema["oneOf"][1]  # type: ignore[index,call-overload]
    ]})  # fmt: skip
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "mail", "arguments": {"to": "Eve"}}, schema)


def offer(choice: str) -> Request:
    """Makes a request that offers an invocable."""
    return Request(
        canisters=[UserCanister("Mail Ann.")], invocables=[MAIL], invocation_choice=choice
    )


def ask(**controls: Any) -> Request:
    """Makes a request with controls."""
    return Request(canisters=[UserCanister("Mail Ann.")], controls=controls)


@pytest.mark.parametrize(
    ("choice", "keys"),
    [
        ("auto", {"messages", "grammar"}),
        ("required", {"messages", "response_format"}),
        ("mail", {"messages", "response_format"}),
        ("none", set()),
    ],
)
def test_the_choice_decides_what_the_answer_is_held_to(choice: str, keys: set[str]) -> None:
    """Free to answer, bound to invoke, or not told of tools at all."""
    native = INVOCATIONS.nativize(offer(choice), MODEL).value

    assert set(native) == keys
    assert not keys or "Sends a mail." in json.dumps(native["messages"])


def test_a_very_small_model_is_shown_how_to_invoke() -> None:
    """One that makes nothing of a description sees a greeting answered and a call of each tool."""
    processor = INVOCATIONS

    shown = processor.nativize(offer("auto"), MODEL).value["messages"]
    forced = processor.nativize(offer("required"), MODEL).value["messages"]
    other = processor.nativize(offer("auto"), OTHER).value["messages"]

    assert isinstance(shown, list)
    assert [message["role"] for message in shown] == ["system", *["user", "assistant"] * 2]
    assert shown[-2:] == [
        {"role": "user", "content": "Sends a mail."},
        {"role": "assistant", "content": '{"name": "mail", "arguments": {"to":"…"}}'},
    ]
    assert forced == other == shown[:1]


def test_controls_have_the_names_of_llama_cpp() -> None:
    """A seed also asks to read all input anew, or it would not repeat an answer."""
    processor = CONTROLS
    values = {"temperature": 0.5, "max_tokens": 9, "seed": 3, "stop": ["."]}

    native = processor.nativize(ask(**values), MODEL).value

    assert native == {**values, "cache_prompt": False}
    assert processor.normalize(native, MODEL).value == values
    assert processor.nativize(ask(top_k=4), MODEL).value == {"top_k": 4}


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        (
            {
                "message": "request (9 tokens) exceeds the available context size (8 tokens)",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9,
                "n_ctx": 8,
            },
            ContextOverflowError,
        ),
        ({"message": "Context size has been exceeded."}, ContextOverflowError),
        ({"message": "… failed: JSON schema error at #: no $ref"}, RequestError),
        ({"message": "image input is not supported - hint: mmproj"}, CapabilityError),
        ({"message": "out of luck", "code": 500, "type": "server_error"}, ProviderError),
    ],
)
def test_errors_of_llama_cpp_become_ours(facts: dict[str, Any], kind: type[ConverseError]) -> None:
    """The most specific match wins, and numbers are kept."""
    error = produce_error(EngineFault({"error": facts}), MODEL)

    assert type(error) is kind
    if isinstance(error, ContextOverflowError) and "n_ctx" in facts:
        assert (error.tokens, error.limit) == (9, 8)


def produce_context(tmp_path: Path, **settings: Any) -> ProviderContext:
    """Makes a context that can ask and fetch nothing."""
    nobody: Any = None
    return ProviderContext(
        name="local",
        settings=settings,
        data_directory=tmp_path,
        cache_directory=tmp_path,
        consent=nobody,
        progress=nobody,
        produce_attributes=lambda: Catalogue().access_integrator("local"),
    )


def test_mistakes_in_the_settings_are_said_all_at_once(tmp_path: Path) -> None:
    """Each has a finding of its own."""
    provider = produce_provider(produce_context(tmp_path, path=3, context_tokens=0, colour="red"))

    with pytest.raises(ConfigurationError) as caught:
        provider.produce_client()

    assert len(caught.value.findings) == 3


async def test_a_model_is_named_by_a_path_or_by_its_name(tmp_path: Path) -> None:
    """A path given as setting stands for the default model; the file's name tells its family."""
    path = tmp_path / "SmolLM2-135M-Instruct-Mine.gguf"
    path.touch()
    client = produce_provider(
        produce_context(tmp_path, path=str(path), context_tokens=99)
    ).produce_client()

    names = [(await client.access_model(name)).descriptor.name for name in ("", "smollm2")]
    named = (await client.access_model(str(path))).descriptor

    assert names == ["SmolLM2-135M-Instruct-Mine"] * 2
    assert named.name == str(path)
    assert named.attributes.access_value("license") == "Apache-2.0"
    assert named.attributes.access_value("context_window_tokens") == 99
    assert [item.name for item in await client.survey_models()] == ["SmolLM2-135M-Instruct-Mine"]
    with pytest.raises(UnknownNameError, match="smollm2"):
        await client.access_model("gpt")
    with pytest.raises(WeightsError):
        await client.access_model("./nothing.gguf")
    await client.close()


def test_the_provider_is_named_as_it_is_configured(tmp_path: Path) -> None:
    """The hook names one provider, whose factory makes it."""
    (specification,) = survey_providers()

    assert specification.name == "local"
    assert specification.factory(produce_context(tmp_path)).name == "local"


LOOPS = st.text(min_size=1, max_size=120)


@given(beginning=st.text(max_size=200), loop=LOOPS, size=st.integers(1, 40))
def test_a_text_that_only_repeats_itself_is_seen(beginning: str, loop: str, size: int) -> None:
    """However long what it repeats is, and however it comes in pieces; and not before."""
    watch = RepetitionWatch()
    text = beginning + loop * (2 * CHARACTERS // len(loop) + 20)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]

    seen = next((number for number, piece in enumerate(pieces) if watch.feed(piece)), None)

    assert seen is not None
    assert size * (seen + 1) >= CHARACTERS


@pytest.mark.parametrize(
    "text",
    [
        "".join(
            f"{number}. Wash the dishes, dry them and put them away.\n" for number in range(90)
        ),
        "\n".join("-" * 80 + f"\n| {number} | {number * 7} |" for number in range(60)),
        "ha" * 200,
        "We shall fight on the beaches. " * 7,
        json.dumps([{"name": "Ann", "age": age} for age in range(99)]),
    ],
    ids=["list", "table", "laughter", "speech", "data"],
)
def test_what_has_a_rhythm_is_no_loop(text: str) -> None:
    """Lists, tables and refrains."""
    watch = RepetitionWatch()

    assert not any(watch.feed(text[start : start + 7]) for start in range(0, len(text), 7))


def test_an_answer_that_goes_round_in_circles_is_ended_and_that_is_told() -> None:
    """As if the model had ended it there: what came is kept."""
    decoder = LocalDecoder(provider="local", model="smollm2")
    assembler = Assembler(provider="local", model="smollm2")
    pieces = ["Paris is a city. ", *["the woman, "] * 1000]

    for number, piece in enumerate(pieces):  # noqa: B007
        for event in decoder.decode({"choices": [{"delta": {"content": piece}}]}):
            assembler.feed(event)
        if decoder.has_ended:
            break
    for event in decoder.finish():
        assembler.feed(event)

    assert number < 300
    assert assembler.origin.stop_reason is StopReason.ANSWERED
    (canister,) = assembler.produce_canisters()
    assert text_of(canister).startswith("Paris is a city. the woman, the woman, ")
    assert ["repeated itself" in loss.reason for loss in assembler.losses] == [True]


def test_the_embedded_model_is_asked_not_to_repeat_itself() -> None:
    """Of other files nothing of the kind is known: llama.cpp's own default holds."""
    assert MODEL.attributes.control_defaults["repeat_penalty"] == 1.1
    assert OTHER.attributes.control_defaults["repeat_penalty"] == 1.0
