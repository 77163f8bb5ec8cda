"""Conversations become contents, and contents become conversations; every loss is reported."""

from __future__ import annotations

import functools
import itertools
import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.meanings import distil
from strategies.messages import canisters
from support.vendors.gemini_answers import integrate, round_trip_request
from vibe_llms.dialects.generate_content import (
    PROTOCOL,
    Quirks,
    nativize_request,
    normalize_invocables,
    normalize_messages,
    normalize_request,
)
from vibe_llms.dialects.generate_content.calling.controls import nativize_controls
from vibe_llms.dialects.generate_content.calling.invocations import nativize_invocables
from vibe_llms.dialects.generate_content.calling.messages import nativize_canisters
from vibe_llms.dialects.generate_content.calling.signatures import OPENING, SIGNATURE_PLACEHOLDER
from vibe_llms.dialects.generate_content.schemas import normalize_schema_form
from vibe_llms.dialects.history import NO_RESULT
from vibe_llms.exceptions import CapabilityError, ControlError, RequestError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    CacheHint,
    Citation,
    FileContent,
    ImageContent,
    Native,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request
from vibe_llms.models.integrators import ModelsIntegrator

mean = functools.partial(distil, "generate_content")

PIXEL = ImageContent(mime_type="image/png", data=b"pixel")
FOREIGN = Origin(provider="anthropic", model="claude", protocol="messages")
OTHER_PROVIDER = Origin(provider="vertex", model="gemini", protocol=PROTOCOL)
SCHEMA: Any = {"type": "object", "properties": {"a": {"type": "string"}}}


def write(
    *canisters: AnyCanister, model: str = "gemini-3-pro", quirks: Quirks | None = None
) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    """Return the data for Google, and the losses."""
    translation = nativize_canisters(
        canisters, integrate(model), quirks or Quirks(), provider="google"
    )
    return dict(translation.value), translation.losses


def list_parts(*canisters: AnyCanister, **fields: Any) -> list[Any]:
    """Return the parts of all contents, in order."""
    return [part for each in write(*canisters, **fields)[0]["contents"] for part in each["parts"]]


def list_losses(losses: tuple[Loss, ...]) -> list[tuple[str, str]]:
    """Return kinds and paths."""
    return [(str(loss.kind), loss.path) for loss in losses]


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
EXTRAS = st.sampled_from([{}, {"thoughtSignature": "c2Vh"}, {"videoMetadata": {"fps": 2}}])
DATA = st.one_of(
    WORDS.map(lambda text: {"text": text}),
    WORDS.map(lambda text: {"text": text, "thought": True}),
    st.just({"thought": True, "thoughtSignature": "c2Vh"}),
    st.just({"inlineData": {"mimeType": "application/pdf", "data": "AAAA", "displayName": "n"}}),
    st.just({"inlineData": {"mimeType": "audio/mp3", "data": "no base 64"}}),
    st.just({"inline_data": {"mime_type": "image/png", "data": "__-_"}}),
    st.just({"fileData": {"fileUri": "gs://bucket/a.pdf", "mimeType": "application/pdf"}}),
    st.just({"fileData": {"fileUri": "https://www.youtube.com/watch?v=1"}}),
    st.just({"partMetadata": {"a": None}}),
)
PLAIN_PARTS = st.builds(lambda part, extras: {**part, **extras}, DATA, EXTRAS)
VENDOR_PARTS = st.sampled_from(
    [
        {"executableCode": {"id": "x", "language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
        {"toolCall": {"toolType": "FILE_SEARCH", "args": {"q": 1}}},
        {"toolResponse": {"id": "y", "toolType": "FILE_SEARCH", "response": {"r": []}}},
    ]
)
RESPONSES = st.sampled_from(
    [{"output": "x"}, {"error": "x"}, {"error": {"code": 1}}, {"output": [1]}, {},
     {"a": {"b": "c"}}, {"output": "x", "more": 1}, {"result": ""}, {"output": ""}]
)  # fmt: skip


@st.composite
def exchanges(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw contents of clients: turns with calls, each answered right after."""
    contents: list[dict[str, Any]] = [
        {"role": "user", "parts": draw(st.lists(PLAIN_PARTS, min_size=1, max_size=3))}
    ]
    for turn in range(draw(st.integers(0, 2))):
        parts = draw(st.lists(PLAIN_PARTS | VENDOR_PARTS, min_size=1, max_size=3))
        calls: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for number in range(draw(st.integers(0, 2))):
            identity = {"id": f"{turn}.{number}"} if draw(st.booleans()) else {}
            name = draw(st.sampled_from(["f", "g"]))
            args = draw(st.sampled_from([{}, {"a": 1.5, "b": None}]))
            call = {"functionCall": {**identity, "name": name, "args": args}}
            calls.append({**call, "thoughtSignature": "c2Vh"})
            block: dict[str, Any] = {**identity, "name": name, "response": draw(RESPONSES)}
            if draw(st.booleans()):
                block["parts"] = [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]
            results.append({"functionResponse": block})
        contents.append({"role": "model", "parts": [*parts, *calls]})
        after = draw(st.lists(PLAIN_PARTS, min_size=0 if results else 1, max_size=1))
        is_apart = draw(st.booleans())
        if results and is_apart:
            contents.append({"role": draw(st.sampled_from(["user", "function"])), "parts": results})
            results = []
        if [*results, *after]:
            contents.append({"role": "user", "parts": [*results, *after]})
    contents.append({"role": "user", "parts": [{"text": "And?"}]})
    return contents


@given(exchanges(), st.booleans())
def test_a_clients_contents_round_trip(contents: list[dict[str, Any]], has_system: bool) -> None:
    """Separate contents stay separate, and joined ones joined."""
    body: dict[str, Any] = {"contents": contents}
    if has_system:
        body["systemInstruction"] = {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]}
    written = round_trip_request(body)
    spelled = json.dumps(body).replace("inline_data", "inlineData")
    expected = json.loads(spelled.replace("mime_type", "mimeType").replace("__-_", "//+/"))
    assert mean(written) == mean(expected)
    assert round_trip_request(written) == written


def bare(canister: AnyCanister) -> AnyCanister:
    """Return a canister without native data, as the strategy fills them with any text."""
    contents = [
        attrs.evolve(each, native=Native(protocol="words", data="{}"))
        if isinstance(each, NativeContent)
        else attrs.evolve(each, native=None)
        for each in canister.content
        if not isinstance(each, CacheHint)
    ]
    return attrs.evolve(canister, content=contents, native=None)


@given(st.lists(canisters.map(bare), max_size=6))
def test_any_conversation_gets_a_valid_form(conversation: list[AnyCanister]) -> None:
    """Calls and results are paired, and each content has parts; a valid conversation does not
    change.
    """
    try:
        body, _ = write(*conversation)
    except RequestError:
        return  # the bytes of a medium are not there
    contents = body["contents"]
    assert all(content["parts"] for content in contents)
    for before, content in itertools.pairwise([{"parts": []}, *contents, {"parts": []}]):
        calls = [part["functionCall"]["id"] for part in before["parts"] if "functionCall" in part]
        results = [
            part["functionResponse"]["id"]
            for part in content["parts"]
            if "functionResponse" in part
        ]
        assert sorted(calls) == sorted(results)
        assert not calls or before["role"] == "model"
    again, losses = write(*normalize_messages(body).value)
    assert mean(again) == mean(body)
    assert losses == ()


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ("Hello", [{"role": "user", "parts": [{"text": "Hello"}]}]),
        ([{"parts": [{"text": "a"}]}], [{"parts": [{"text": "a"}]}]),
        ({"role": "user", "parts": {"text": "a"}}, [{"role": "user", "parts": [{"text": "a"}]}]),
    ],
)
def test_shorter_spellings_of_contents_are_read(contents: Any, expected: Any) -> None:
    """As the client libraries accept them."""
    assert mean(round_trip_request({"contents": contents})) == mean({"contents": expected})


@pytest.mark.parametrize("system", ["Be.", {"text": "Be."}, [{"text": "Be."}], ["Be."]])
def test_shorter_spellings_of_instructions_are_read(system: Any) -> None:
    """A text, a part, several parts."""
    body = {"contents": "a", "system_instruction": system}
    written = round_trip_request(body)
    assert written["systemInstruction"] == {"parts": [{"text": "Be."}]}


@pytest.mark.parametrize(
    "body",
    [
        {"contents": [{"role": "wizard", "parts": []}]},
        {"contents": [5]},
        {"contents": [{"parts": [5]}]},
        {"contents": "a", "generationConfig": 5},
        {"contents": "a", "tools": [5]},
        {"contents": "a", "tools": [{"functionDeclarations": [{}]}]},
    ],
)  # fmt: skip
def test_an_invalid_request_is_rejected(body: dict[str, Any]) -> None:
    """With the path."""
    with pytest.raises(RequestError) as caught:
        normalize_request(body)
    assert caught.value.path


def test_a_turn_shares_one_content_and_so_do_its_results() -> None:
    """Whatever the turn consists of; names come from the invocations."""
    origin = Origin(provider="google", model="m", protocol=PROTOCOL)
    signature = Native(protocol=PROTOCOL, data='{"thoughtSignature":"c2Vh"}')
    native, losses = write(
        UserCanister("Hi"),
        AssistantCanister("Let me see.", origin=origin, turn_id="t"),
        InvocationCanister(
            invocation_id="1", name="f", origin=origin, turn_id="t", native=signature
        ),
        InvocationCanister(invocation_id="2", name="g", origin=origin, turn_id="t"),
        ResultCanister("one", invocation_id="1"),
        ResultCanister("bad", invocation_id="2", is_error=True),
        UserCanister("Well?"),
    )
    assert losses == ()
    assert native["contents"] == [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {
            "role": "model",
            "parts": [
                {"text": "Let me see."},
                {"functionCall": {"id": "1", "name": "f", "args": {}}, "thoughtSignature": "c2Vh"},
                {"functionCall": {"id": "2", "name": "g", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "1", "name": "f", "response": {"output": "one"}}},
                {"functionResponse": {"id": "2", "name": "g", "response": {"error": "bad"}}},
            ],
        },
        {"role": "user", "parts": [{"text": "Well?"}]},
    ]


def test_a_new_field_of_a_content_is_kept() -> None:
    """By the first canister of the content; the others are in the same content."""
    result = {"functionResponse": {"id": "1", "name": "f", "response": {"output": "x"}}}
    call = {"functionCall": {"id": "1", "name": "f", "args": {}}}
    contents = [
        {"role": "user", "parts": [{"text": "Hi"}], "future": {"a": 1}},
        {"role": "model", "parts": [{"text": "So."}, call], "future": 2},
        {"role": "user", "parts": [result, {"text": "And?"}], "future": [3]},
    ]

    canisters = normalize_messages({"contents": contents}).value
    native, losses = write(*canisters, model="gemini-2.5-pro")

    assert native["contents"] == contents
    assert losses == ()


def test_every_call_is_answered() -> None:
    """A note replaces a missing result."""
    call = InvocationCanister(invocation_id="1", name="f", turn_id="t")
    native, losses = write(UserCanister("Hi"), call, UserCanister("Well?"), model="gemini-2.5-pro")
    (part,) = native["contents"][2]["parts"]
    assert part["functionResponse"]["response"] == {"error": NO_RESULT}
    assert list_losses(losses) == [("synthesized", "canisters[1]")]


def test_only_calls_of_the_current_turn_need_a_signature() -> None:
    """From the third generation on, on the first call of each content."""
    calls = [
        each
        for number in ("1", "2")
        for each in (
            InvocationCanister(invocation_id=number, name="f", origin=FOREIGN, turn_id=number),
            InvocationCanister(
                invocation_id=f"{number}b", name="f", origin=FOREIGN, turn_id=number
            ),
            ResultCanister("x", invocation_id=number),
            ResultCanister("x", invocation_id=f"{number}b"),
        )
    ]
    conversation = (UserCanister("a"), *calls[:4], UserCanister("b"), *calls[4:])
    parts = list_parts(*conversation)
    signatures = [part.get("thoughtSignature") for part in parts if "functionCall" in part]
    assert signatures == [None, None, SIGNATURE_PLACEHOLDER, None]
    assert list_losses(write(*conversation)[1]) == [("synthesized", "canisters[6]")]
    instructed = (SupervisorCanister("Be brief."), *conversation)
    assert list_losses(write(*instructed)[1]) == [("synthesized", "canisters[7]")]
    assert list_losses(write(UserCanister("a"), *calls)[1]) == [
        ("synthesized", "canisters[1]"),
        ("synthesized", "canisters[5]"),
    ]
    older = list_parts(*conversation, model="models/gemini-2.5-flash")
    assert not any("thoughtSignature" in part for part in older)


def test_a_call_follows_a_content_of_the_user() -> None:
    """The vendor requires one before it."""
    call = InvocationCanister(invocation_id="1", name="f", turn_id="t")
    result = ResultCanister("x", invocation_id="1")
    native, losses = write(call, result, model="gemini-2.5-pro")
    assert native["contents"][0] == {"role": "user", "parts": [{"text": OPENING}]}
    assert list_losses(losses) == [("synthesized", "canisters[0]")]
    answer = AssistantCanister("So.", turn_id="s")
    native, losses = write(UserCanister("a"), answer, call, result, model="gemini-2.5-pro")
    assert [each["role"] for each in native["contents"]] == ["user", "model", "user"]
    assert list_losses(losses) == [("coerced", "canisters[2]")]
    instructed = (SupervisorCanister("Be brief."), UserCanister("a"), answer, call, result)
    assert list_losses(write(*instructed, model="gemini-2.5-pro")[1]) == [
        ("coerced", "canisters[3]")
    ]


def test_later_instructions_become_text_of_the_user() -> None:
    """The protocol has one field for instructions."""
    native, losses = write(
        SupervisorCanister("Be."), SupervisorCanister("Kind."), UserCanister("a"),
        SupervisorCanister("Brief."),
    )  # fmt: skip
    assert native["systemInstruction"] == {"parts": [{"text": "Be."}, {"text": "Kind."}]}
    assert native["contents"][1] == {"role": "user", "parts": [{"text": "Brief."}]}
    assert list_losses(losses) == [("coerced", "canisters[3]")]


def test_documents_are_framed_by_marks() -> None:
    """As text of the user."""
    parts = list_parts(DocumentCanister("T", title="N"), DocumentCanister((PIXEL,)))
    assert parts[0] == {"text": '<document title="N">\nT\n</document>'}
    assert [next(iter(part)) for part in parts[1:]] == ["text", "inlineData", "text"]


def test_native_data_of_another_vendor_are_withheld_and_kept() -> None:
    """Signatures, blocks, thoughts, executed calls, citations; each is reported."""
    native = Native(protocol="messages", data='{"cache_control": {}}')
    cited = TextualContent("a", citations=[Citation(url="https://a")], native=native)
    blocks: list[Any] = [
        ReasoningContent(text="hm", signature="s", native=native),
        cited,
        NativeContent(kind="compaction", native=native),
        RefusalContent("No."),
        FileContent(mime_type="application/pdf", file_id="file-1"),
        TextualContent(""),
    ]
    vendors = InvocationCanister(
        invocation_id="x", name="web_search", owner=Owner.VENDOR, origin=FOREIGN, turn_id="t"
    )
    conversation = AssistantCanister(blocks, origin=FOREIGN, turn_id="t")
    body, losses = write(UserCanister("q"), conversation, vendors, UserCanister("b"))
    assert body["contents"][1]["parts"] == [{"text": "a"}, {"text": "No."}]
    assert list_losses(losses) == [
        ("withheld", "canisters[1].content[0]"),
        ("withheld", "canisters[1].content[1].citations[0]"),
        ("coerced", "canisters[1].content[1].native"),
        ("withheld", "canisters[1].content[2]"),
        ("coerced", "canisters[1].content[3]"),
        ("withheld", "canisters[1].content[4]"),
        ("dropped", "canisters[1].content[5]"),
        ("withheld", "canisters[2]"),
    ]


def test_signatures_of_another_provider_of_the_protocol_are_withheld() -> None:
    """A provider cannot read the signatures of another one."""
    signature = Native(protocol=PROTOCOL, data='{"thoughtSignature":"c2Vh"}')
    conversation = AssistantCanister(
        [TextualContent("a", native=signature)], origin=OTHER_PROVIDER, turn_id="t"
    )
    body, losses = write(UserCanister("q"), conversation)
    assert body["contents"][1]["parts"] == [{"text": "a"}]
    assert list_losses(losses) == [("withheld", "canisters[1].content[0].native")]


def test_media_are_sent_as_data_or_by_address() -> None:
    """Their fields without a counterpart are reported."""
    parts, losses = write(
        UserCanister(
            [
                ImageContent(mime_type="image/*", url="https://a/b.png", detail="high"),
                VideoContent(mime_type="video/mp4", file_id="files/1"),
                AudioContent(mime_type="audio/wav", data=b"", transcript="t", name="n"),
            ]
        ),
        quirks=Quirks(takes_display_names=False),
    )
    assert parts["contents"][0]["parts"] == [
        {"fileData": {"fileUri": "https://a/b.png", "mimeType": "image/png"}},
        {"fileData": {"fileUri": "files/1", "mimeType": "video/mp4"}},
        {"inlineData": {"mimeType": "audio/wav", "data": ""}},
    ]
    assert [loss.path.rpartition(".")[2] for loss in losses] == ["detail", "transcript", "name"]
    with pytest.raises(RequestError, match=r"canisters\[0\]\.content\[0\] has no data"):
        write(UserCanister([ImageContent(mime_type="image/png", content_id="0" * 64)]))
    blind = ModelsIntegrator(provider="google").integrate("m", facts={"supports_images": "no"})
    with pytest.raises(CapabilityError):
        nativize_canisters([UserCanister([PIXEL])], blind, Quirks())


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        (ImageContent(mime_type="image/*", url="https://a/b"), ["coerced"]),
        (AudioContent(mime_type="audio/*", url="https://a/b"), ["coerced"]),
        (ImageContent(mime_type="image/*", url="https://a/b.png?c"), []),
        (ImageContent(mime_type="image/webp", url="https://a/b"), []),
        (VideoContent(mime_type="video/*", url="https://youtu.be/1"), []),
        (FileContent(mime_type="application/octet-stream", url="https://a/b"), []),
    ],
)
def test_a_medium_of_unknown_type_is_sent_as_a_file(content: AnyContent, kinds: list[str]) -> None:
    _, losses = write(UserCanister([content]))

    assert [str(loss.kind) for loss in losses] == kinds
    assert all(loss.path == "canisters[0].content[0].mime_type" for loss in losses)


def test_media_of_a_result_follow_it_for_older_models() -> None:
    """Models before the third generation do not accept media within results."""
    call = InvocationCanister(invocation_id="1", name="f", turn_id="t")
    result = ResultCanister(["x", PIXEL], invocation_id="1")
    inner = list_parts(UserCanister("a"), call, result)[2]["functionResponse"]
    assert [next(iter(each)) for each in inner["parts"]] == ["inlineData"]
    body, losses = write(UserCanister("a"), call, result, model="gemini-2.5-flash")
    assert [next(iter(each)) for each in body["contents"][2]["parts"]] == [
        "functionResponse",
        "inlineData",
    ]
    assert list_losses(losses) == [("coerced", "canisters[2]")]


def test_arguments_that_are_not_an_object_are_put_into_one() -> None:
    """The vendor accepts only objects."""
    canisters = [
        InvocationCanister(invocation_id="1", name="f", arguments="{bad", turn_id="t"),
        InvocationCanister(invocation_id="2", name="g", arguments="free", form="text", turn_id="t"),
    ]
    body, losses = write(UserCanister("a"), *canisters, model="gemini-2.5-flash")
    calls = [part["functionCall"]["args"] for part in body["contents"][1]["parts"]]
    assert calls == [{"input": "{bad"}, {"input": "free"}]
    assert list_losses(losses)[-2:] == [
        ("coerced", "canisters[1].arguments"),
        ("coerced", "canisters[2].arguments"),
    ]


def test_a_changed_common_field_is_kept() -> None:
    """Extras do not overwrite it."""
    call = {"functionCall": {"name": "f"}, "thoughtSignature": "c2Vh"}
    contents = [{"parts": [{"text": "a"}]}, {"role": "model", "parts": [call]}]
    read = list(normalize_messages({"contents": contents}).value)
    edited = InvocationCanister(
        invocation_id="n", name="h", arguments='{"a": 1}', turn_id="t", native=read[1].native
    )
    part = list_parts(read[0], edited)[1]
    call = {"name": "h", "args": {"a": 1}}
    assert part == {"functionCall": call, "thoughtSignature": "c2Vh"}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", None),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("f", {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ],
)
def test_the_choice_is_a_mode(choice: str, expected: Any) -> None:
    """In both directions."""
    invocable = InvocableDescription(name="f", description="Does.", schema=SCHEMA)
    native = nativize_invocables([invocable], choice).value
    assert native.get("toolConfig", {}).get("functionCallingConfig") == expected  # type: ignore[union-attr]
    assert normalize_invocables(native).value == ((invocable,), choice)


def test_functions_that_are_all_enforced_are_validated() -> None:
    """All of them or none; enforcing only some is reported as a loss."""
    strict = InvocableDescription(name="f", description="Does.", schema=SCHEMA, enforced=True)
    free = InvocableDescription(name="g", description="Does.", schema=SCHEMA)
    native = nativize_invocables([strict], "auto").value
    assert native["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert normalize_invocables(native).value == ((strict,), "auto")
    mixed = nativize_invocables([strict, free], "auto")
    assert "toolConfig" not in mixed.value
    assert list_losses(mixed.losses) == [("coerced", "invocables[0].enforced")]


def test_tools_of_other_vendors_are_withheld() -> None:
    """And those of free text."""
    native = Native(protocol="messages", data='{"type": "web_search"}')
    theirs = InvocableDescription(name="web", description="", schema=None, native=native)
    text = InvocableDescription(name="t", description="Text.", schema=None)
    translation = nativize_invocables([theirs, text], "auto")
    assert translation.value == {}
    assert list_losses(translation.losses) == [
        ("withheld", "invocables[0]"),
        ("withheld", "invocables[1]"),
    ]


def test_the_older_form_of_schemas_becomes_json_schema() -> None:
    """Types in upper case, nullable, an order of properties, numbers as texts."""
    older = {
        "type": "OBJECT",
        "propertyOrdering": ["b", "a"],
        "properties": {
            "a": {"type": "STRING", "nullable": True, "maxLength": "5", "example": "x"},
            "b": {"type": "ARRAY", "items": {"type": "INTEGER"}, "min_items": 1},
            "c": {"anyOf": [{"type": "NUMBER"}], "nullable": True},
            "type": {"type": "STRING", "enum": ["x"], "nullable": True},
        },
    }
    schema = normalize_schema_form(older)
    assert schema == {
        "type": "object",
        "properties": {
            "b": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            "a": {"type": ["string", "null"], "maxLength": 5, "examples": ["x"]},
            "c": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "type": {"anyOf": [{"type": "string", "enum": ["x"]}, {"type": "null"}]},
        },
    }
    assert list(schema["properties"]) == ["b", "a", "c", "type"]


def test_a_schema_in_the_older_form_round_trips_unless_it_was_changed() -> None:
    """Then it is sent as JSON Schema."""
    config = {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}}
    body = {"contents": [{"role": "user", "parts": [{"text": "a"}]}], "generationConfig": config}
    read = normalize_request(body).value
    assert read.schema == {"type": "object"}
    edited = Request(canisters=read.canisters, schema=SCHEMA, native=read.native)
    written = nativize_request(edited, integrate(), Quirks()).value
    assert written["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
    }


def test_any_object_is_requested_as_json_without_a_schema() -> None:
    """Like JSON mode of other vendors: with a schema without properties, models answer ``{}``."""
    request = Request(canisters=[UserCanister("?")], schema={"type": "object"})
    written = nativize_request(request, integrate(), Quirks())
    assert written.value["generationConfig"] == {"responseMimeType": "application/json"}
    assert [loss.path for loss in written.losses] == ["schema"]


def test_efforts_become_levels() -> None:
    """Efforts without a level are reported."""
    known = integrate()

    def level(effort: str) -> tuple[Any, list[tuple[str, str]]]:
        written = nativize_controls({"reasoning_effort": effort}, known, Quirks())
        config: Any = written.value["generationConfig"]
        return config["thinkingConfig"], list_losses(written.losses)

    coerced = [("coerced", "controls.reasoning_effort")]
    assert level("low") == ({"thinkingLevel": "low"}, [])
    assert level("none") == ({"thinkingBudget": 0}, coerced)
    assert level("max") == ({"thinkingLevel": "xhigh"}, coerced)
    quiet = nativize_controls({"parallel_invocations": False}, known, Quirks())
    assert (quiet.value, list_losses(quiet.losses)) == (
        {},
        [("dropped", "controls.parallel_invocations")],
    )
    with pytest.raises(ControlError):
        nativize_controls({"top_p": 7}, known, Quirks())


def test_thoughts_are_requested_from_models_that_think() -> None:
    """Unless thinking is off, or the request has another value."""
    facts = {"supports_reasoning": "yes"}
    thinking = ModelsIntegrator(provider="google").integrate("m", facts=facts)
    shows = Quirks(shows_thoughts=True)
    body = {"contents": [{"role": "user", "parts": [{"text": "a"}]}]}
    request = normalize_request(body, thinking).value
    written: Any = nativize_request(request, thinking, shows).value
    assert written["generationConfig"] == {"thinkingConfig": {"includeThoughts": True}}
    assert mean(nativize_request(request, integrate(), shows).value) == mean(body)
    budget = nativize_controls({"reasoning_budget_tokens": 0}, integrate(), shows).value
    assert budget == {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}


def test_parameters_of_another_protocol_are_withheld() -> None:
    """They stay in the conversation."""
    native = Native(protocol="messages", data='{"metadata": {}}')
    request = Request(canisters=[UserCanister("a")], native=native)
    written = nativize_request(request, integrate(), Quirks(), provider="google")
    assert [loss.kind for loss in written.losses] == [LossKind.WITHHELD]
    assert list_losses(written.losses) == [("withheld", "request.native")]
