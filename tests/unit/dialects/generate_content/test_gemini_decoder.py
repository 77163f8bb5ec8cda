"""Answers become canisters, complete or streamed, and canisters become answers."""

from __future__ import annotations

import contextlib
import functools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.meanings import distil
from support.vendors.gemini_answers import ASKED, assemble, decode, decode_chunks, read_turn
from vibe_llms.dialects.generate_content import (
    PROTOCOL,
    Decoder,
    nativize_response,
    produce_error,
)
from vibe_llms.dialects.google_errors import (
    FAULTS_BY_REASON,
    FAULTS_BY_STATUS_NAME,
)
from vibe_llms.dialects.signatures import is_wrapped
from vibe_llms.events.stream import ContentDeltaEvent, UsageEvent
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
    StreamTruncatedError,
)
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    Usage,
)
from vibe_llms.messages.contents import (
    Citation,
    Native,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.requests import Response, ResponseMetadata

mean = functools.partial(distil, "generate_content")


def wrap(*parts: Any, end: str | None = "STOP", **candidate: Any) -> dict[str, Any]:
    """Return one chunk, or a complete response."""
    fields: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if end:
        fields["finishReason"] = end
    return {
        "candidates": [fields | candidate],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2},
        "modelVersion": "m",
        "responseId": "r",
    }


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
PARTS = st.one_of(
    TEXT.map(lambda text: {"text": text}),
    TEXT.map(lambda text: {"text": text, "thought": True}),
    TEXT.map(lambda text: {"text": text, "thoughtSignature": "c2Vh"}),
    TEXT.map(lambda text: {"text": text, "thought": True, "thoughtSignature": "c2Vh"}),
    TEXT.map(lambda text: {"text": text, "partMetadata": {"a": [1]}}),
    st.just({"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2Vh"}),
    st.just({"functionCall": {"id": "i", "name": "f", "args": {}}}),
    st.just({"functionCall": {"name": "f"}}),
    st.just({"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thought": True}),
    st.just({"executableCode": {"language": "PYTHON", "code": "1"}}),
    st.just({"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "x"}}),
    st.just({"somethingNew": {"x": None}}),
)


def join(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts with adjacent plain texts joined, and without empty ones."""
    joined: list[dict[str, Any]] = []
    for part in parts:
        plain = part.keys() <= {"text", "thought"}
        if plain and not part["text"]:
            continue
        if plain and joined and joined[-1].keys() == part.keys():
            joined[-1] = {**part, "text": joined[-1]["text"] + part["text"]}
        else:
            joined.append(part)
    return joined


@given(st.lists(PARTS, max_size=8), st.data())
def test_a_stream_equals_the_complete_response(
    parts: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Wherever chunks end and texts are cut, on the fast path and on the general one."""
    chunks: list[Any] = [wrap(end=None)]
    for part in parts:
        text = part.get("text", "")
        if part.keys() == {"text"} and len(text) > 1:
            cut = data.draw(st.integers(1, len(text) - 1))
            chunks += [wrap({"text": text[:cut]}, end=None), wrap({"text": text[cut:]}, end=None)]
        else:
            chunks.append(wrap(part, end=None))
    chunks.append(wrap())
    whole = decode(wrap(*join(parts)))
    streamed = decode_chunks([json.dumps(chunk).encode() for chunk in chunks])
    assert streamed == decode_chunks(chunks) == whole
    written: Any = nativize_response(streamed).value
    assert mean(written["candidates"][0]["content"]["parts"]) == mean(join(parts))


def test_plain_chunks_take_the_fast_path() -> None:
    """A piece of text is one event, and nothing else is decoded."""
    decoder = Decoder(provider="google")
    decoder.decode(json.dumps(wrap({"text": "a"}, end=None)).encode())
    for text in ("b", "é", "\u2028"):
        events = decoder.decode(json.dumps(wrap({"text": text}, end=None)).encode())
        assert events == [ContentDeltaEvent(0, text)]


def test_signed_parts_keep_their_signatures() -> None:
    """Also on an empty text, and on a thought without a text."""
    thought = {"thought": True, "thoughtSignature": "b25l"}
    body = wrap(thought, {"text": "a"}, {"text": "", "thoughtSignature": "dHdv"})
    response = decode(body)
    contents = response.canisters[0].content
    assert [type(each) for each in contents] == [ReasoningContent, TextualContent, TextualContent]
    assert isinstance(contents[0], ReasoningContent)
    assert contents[0].signature == "b25l"
    assert mean(nativize_response(response).value) == mean(body)


def test_other_candidates_are_native_and_round_trip() -> None:
    """Only the first is decoded; the others are not lost."""
    body = wrap({"text": "a"})
    body["candidates"].append({"content": {"parts": [{"text": "b"}]}, "index": 1})
    body["candidates"].append({"content": {"parts": [{"text": "c"}]}, "index": 2})
    response = decode(body)
    assert response.text == "a"
    assert mean(nativize_response(response).value) == mean(body)
    assert decode_chunks([body | {"candidates": [each]} for each in body["candidates"]]) == response


def test_streamed_arguments_are_joined() -> None:
    """By their paths, as long as the vendor announces more."""
    pieces: list[dict[str, Any]] = [
        {"name": "f", "id": "i", "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.a", "stringValue": "Ber", "willContinue": True}],
         "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.a", "stringValue": "lin"}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.b[1].c", "numberValue": 2},
                         {"jsonPath": "$['d e']", "boolValue": True},
                         {"jsonPath": "$.n", "nullValue": "NULL_VALUE"}], "willContinue": True},
        {},
    ]  # fmt: skip
    chunks = [wrap({"functionCall": piece}, end=None) for piece in pieces]
    chunks[0]["candidates"][0]["content"]["parts"][0]["thoughtSignature"] = "c2Vh"
    response = decode_chunks([*chunks, wrap({"functionCall": {"name": "g"}})])
    first, second = response.canisters
    assert isinstance(first, InvocationCanister)
    expected = {"a": "Berlin", "b": [None, {"c": 2}], "d e": True, "n": None}
    assert json.loads(first.arguments) == expected
    assert isinstance(second, InvocationCanister)
    assert (second.name, second.arguments) == ("g", "{}")
    written: Any = nativize_response(response).value
    assert written["candidates"][0]["content"]["parts"] == [
        {"functionCall": {"id": "i", "name": "f", "args": expected}, "thoughtSignature": "c2Vh"},
        {"functionCall": {"name": "g", "args": {}}},
    ]


@pytest.mark.parametrize("path", ["", "a", "$", "$.", "$[0]", "$.a[", "$.a[99999999]"])
def test_an_invalid_path_is_an_error(path: str) -> None:
    """And lists do not grow without a limit."""
    piece = {"name": "f", "partialArgs": [{"jsonPath": path, "stringValue": "x"}]}
    with pytest.raises(ConverseError, match=r"^google sent"):
        decode(wrap({"functionCall": piece}))


def test_a_generated_id_is_reported_and_not_sent_back() -> None:
    """Many answers have no ids; a generated one is the same, streamed or complete."""
    body = wrap({"functionCall": {"name": "f", "args": {"a": 1}}})
    response = decode(body)
    (call,) = response.canisters
    assert isinstance(call, InvocationCanister)
    assert call.invocation_id
    assert [loss.kind for loss in response.losses] == [LossKind.SYNTHESIZED]
    assert mean(nativize_response(response).value) == mean(body)
    assert response.metadata.stop_reason is StopReason.INVOCATION


def test_a_generated_id_is_the_same_for_the_same_response() -> None:
    """And another one for the same call in a later turn, whose usage differs."""
    part = {"functionCall": {"name": "look", "args": {"place": "Rome"}}}
    answers = [{**wrap(part), "usageMetadata": {"promptTokenCount": n}} for n in (3, 3, 90)]
    for answer in answers:
        answer.pop("responseId", None)

    calls = [decode(answer).canisters[0] for answer in answers]
    first, again, later = (call.invocation_id for call in calls if call.role == "invocation")

    assert first == again
    assert first != later


def test_calls_and_results_of_the_vendor_are_paired() -> None:
    """By their ids, or by their order without ids."""
    call = {"executableCode": {"language": "PYTHON", "code": "1+1"}}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}
    response = decode(wrap(call, result, {"text": "2"}))
    first, second, _ = response.canisters
    assert isinstance(first, InvocationCanister)
    assert isinstance(second, ResultCanister)
    assert first.invocation_id == second.invocation_id
    assert json.loads(first.arguments) == {"language": "PYTHON", "code": "1+1"}
    assert response.metadata.stop_reason is StopReason.ANSWERED


def test_citations_count_characters_where_the_vendor_counts_bytes() -> None:
    """Umlauts and emoji have several bytes."""
    text = "Größe 🎈 zählt. Und mehr."
    start = len("Größe 🎈 ".encode())
    segment = {"startIndex": start, "endIndex": start + len("zählt.".encode()), "text": "zählt."}
    grounding = {
        "groundingChunks": [{"web": {"uri": "https://a", "title": "A"}}],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
    }
    body = wrap({"text": text}, groundingMetadata=grounding)
    response = decode(body)
    (content,) = response.canisters[0].content
    assert isinstance(content, TextualContent)
    (citation,) = content.citations
    assert text[citation.start : citation.end] == "zählt."
    assert (citation.url, citation.title) == ("https://a", "A")
    assert mean(nativize_response(response).value) == mean(body)


def test_other_sources_are_citations_too() -> None:
    """Recitations, retrieved pages, documents."""
    candidate: dict[str, Any] = {
        "citationMetadata": {"citations": [{"startIndex": 0, "endIndex": 1, "uri": "https://b"}]},
        "urlContextMetadata": {
            "urlMetadata": [
                {"retrievedUrl": "https://c", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"},
                {"retrievedUrl": "https://d", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"},
            ]
        },
        "groundingMetadata": {
            "groundingChunks": [{"retrievedContext": {"text": "T", "documentName": "n"}}],
            "groundingSupports": [{"segment": {"text": "zz"}, "groundingChunkIndices": [0, 9]}],
        },
    }
    (content,) = decode(wrap({"text": "ab"}, **candidate)).canisters[0].content
    assert isinstance(content, TextualContent)
    seen = [(each.start, each.end, each.url, each.file_id) for each in content.citations]
    assert seen == [
        (None, None, None, "n"),
        (0, 1, "https://b", None),
        (None, None, "https://c", None),
    ]


def test_usage_has_buckets_that_do_not_overlap() -> None:
    """Cache, audio, thoughts and tools."""
    native = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 30,
        "toolUsePromptTokenCount": 7,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 5,
        "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 40}],
        "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 10}],
        "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 8}],
    }
    usage = decode(wrap({"text": "a"}) | {"usageMetadata": native}).metadata.usage
    assert usage is not None
    assert usage.native is not None
    assert json.loads(usage.native) == native
    assert (usage.input_tokens, usage.cache_read_tokens, usage.input_audio_tokens) == (47, 30, 30)
    assert (usage.output_tokens, usage.reasoning_tokens, usage.output_audio_tokens) == (12, 5, 8)
    assert (usage.total_input_tokens, usage.total_output_tokens) == (107, 25)


def test_usage_is_reported_once_at_the_end() -> None:
    """Each chunk repeats it; only the last one counts."""
    decoder = Decoder(provider="google")
    chunks = [wrap({"text": "a"}, end=None), wrap({"text": "b"}, end=None), wrap({"text": "c"})]
    events = [event for chunk in chunks for event in decoder.decode(json.dumps(chunk).encode())]
    events += decoder.finish()
    assert sum(isinstance(event, UsageEvent) for event in events) == 1
    assert decoder.finish() == []


def test_an_answer_without_a_finish_reason_is_truncated() -> None:
    """Streamed or in an array; an object is complete."""
    chunk = json.dumps(wrap({"text": "a"}, end=None)).encode()
    with pytest.raises(StreamTruncatedError):
        decode_chunks([chunk])
    with pytest.raises(StreamTruncatedError):
        decode(b"[%b]" % chunk)
    with pytest.raises(StreamTruncatedError):
        decode_chunks([])
    whole = decode(chunk)
    assert whole.metadata.origin.stop_reason is StopReason.UNKNOWN
    assert nativize_response(whole).value == json.loads(chunk)


NAMES = (
    *("candidates", "content", "parts", "text", "index", "finishReason", "error", "promptFeedback"),
    *("functionCall", "args", "partialArgs", "jsonPath", "toolCall", "response", "usageMetadata"),
    *("groundingChunks", "groundingSupports", "segment", "endIndex", "groundingChunkIndices"),
    *("web", "citations", "urlMetadata"),
)
STRANGE = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(STRANGE, STRANGE)
def test_invalid_chunks_raise_our_errors(value: Any, metadata: Any) -> None:
    """No other exception is raised, whatever a server sends."""
    sources = dict.fromkeys(
        ("groundingMetadata", "citationMetadata", "urlContextMetadata"), metadata
    )
    strange = [value, wrap({"text": "ab"}, **sources), wrap(value), wrap({"functionCall": value})]
    for body in strange:
        with contextlib.suppress(ConverseError):
            assemble(Decoder(provider="google").decode_response(msgspec.json.encode(body)))


@given(st.binary(max_size=30))
def test_invalid_json_raises_our_error(data: bytes) -> None:
    """In the first chunk and in later ones."""
    decoder = Decoder(provider="google")
    for _ in range(2):
        with pytest.raises(ConverseError):
            decoder.decode(b"\x00" + data)
        decoder._begun = True


@pytest.mark.parametrize(("word", "fault"), FAULTS_BY_STATUS_NAME.items())
def test_every_rpc_code_has_a_fault(word: str, fault: ProviderFault) -> None:
    """In an answer, in a stream, and in a JSON array."""
    body = {"error": {"code": 418, "message": "m", "status": word}}
    error = produce_error(body, provider="google", status=418)
    assert isinstance(error, ProviderError)
    assert (error.fault, error.vendor_type) == (fault, word)
    for given_body in (body, [body]):
        with pytest.raises(ProviderError) as caught:
            Decoder(provider="google").decode(json.dumps(given_body).encode())
        assert caught.value.fault is fault


def test_all_rpc_codes_are_in_the_table() -> None:
    """google/rpc/code.proto has seventeen, of which OK is not an error."""
    codes = """CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS
        PERMISSION_DENIED UNAUTHENTICATED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED
        OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS"""
    assert set(FAULTS_BY_STATUS_NAME) == set(codes.split())
    assert ProviderFault.UNKNOWN not in {
        *FAULTS_BY_STATUS_NAME.values(),
        *FAULTS_BY_REASON.values(),
    }


@pytest.mark.parametrize(("reason", "fault"), FAULTS_BY_REASON.items())
def test_a_reason_is_more_specific_than_a_code(reason: str, fault: ProviderFault) -> None:
    """An invalid key is not merely an invalid request."""
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]
    body = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "details": details}}
    error = produce_error(body, provider="google", status=400)
    assert isinstance(error, ProviderError)
    assert (error.fault, error.vendor_code) == (fault, reason)


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (400, "invalid-request"),
        (401, "authentication"),
        (402, "quota"),
        (403, "permission"),
        (404, "not-found"),
        (408, "timeout"),
        (429, "rate-limited"),
        (499, "timeout"),
        (502, "server"),
        (503, "overloaded"),
        (504, "timeout"),
    ],
)
def test_a_status_alone_has_a_fault(status: int, fault: str) -> None:
    """For example if a proxy answers with a page."""
    error = produce_error("<html>", provider="google", status=status, headers={"Retry-After": "7"})
    assert isinstance(error, ProviderError)
    assert (error.fault, error.retry_after_seconds) == (fault, 7)


@pytest.mark.parametrize(
    ("message", "word", "fault"),
    [
        ("Please enable billing on project.", "FAILED_PRECONDITION", ProviderFault.QUOTA),
        ("User location is not supported.", "FAILED_PRECONDITION", ProviderFault.PERMISSION),
        ("API key expired.", "INVALID_ARGUMENT", ProviderFault.AUTHENTICATION),
        ("Your prepayment credits are depleted.", "RESOURCE_EXHAUSTED", ProviderFault.QUOTA),
    ],
)
def test_a_message_decides_if_nothing_else_does(
    message: str, word: str, fault: ProviderFault
) -> None:
    """Billing and unsupported locations have no codes."""
    error = produce_error({"error": {"message": message, "status": word}}, provider="google")
    assert isinstance(error, ProviderError)
    assert error.fault is fault


def test_daily_quotas_are_not_rate_limits() -> None:
    """They are not reset within minutes."""
    quota = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
    details = [quota, {"retryDelay": "1.5s"}]
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details}}
    error = produce_error(body, provider="google", status=429)
    assert isinstance(error, ProviderError)
    assert (error.fault, error.retry_after_seconds) == (ProviderFault.QUOTA, 1.5)


def test_too_much_input_is_an_overflow() -> None:
    """With its sizes."""
    message = "The input token count (1200) exceeds the maximum number of tokens allowed (1000)."
    error = produce_error({"error": {"code": 400, "message": message}}, provider="google")
    assert isinstance(error, ContextOverflowError)
    assert (error.tokens, error.limit) == (1200, 1000)


def test_an_answer_of_another_vendor_is_written_in_this_protocol() -> None:
    """Thoughts are included, signatures wrapped, sources become grounding; losses are reported."""
    origin = Origin(
        provider="anthropic",
        model="claude",
        protocol="messages",
        stop_reason=StopReason.LIMIT,
        usage=Usage(input_tokens=3, cache_read_tokens=2, output_tokens=4, reasoning_tokens=1),
    )
    native = Native(protocol="messages", data='{"x": 1}')
    text = TextualContent("Größe", citations=[Citation(start=2, end=5, url="https://a", title="A")])
    contents: list[Any] = [
        ReasoningContent(text="hm", signature="s", native=native),
        text,
        RefusalContent("no"),
    ]
    canisters: list[Any] = [
        AssistantCanister(contents, origin=origin, turn_id="t"),
        InvocationCanister(
            invocation_id="i", name="f", arguments="{bad", origin=origin, turn_id="t"
        ),
    ]
    metadata = ResponseMetadata(origin=origin, native=native)
    translation = nativize_response(Response(request=ASKED, canisters=canisters, metadata=metadata))
    body: Any = translation.value
    (candidate,) = body["candidates"]
    seal = candidate["content"]["parts"][0]["thoughtSignature"]
    assert is_wrapped(seal)
    assert candidate["content"]["parts"] == [
        {"thought": True, "text": "hm", "thoughtSignature": seal},
        {"text": "Größe"},
        {"text": "no"},
        {"functionCall": {"id": "i", "name": "f", "args": {"input": "{bad"}}},
    ]
    assert candidate["finishReason"] == "MAX_TOKENS"
    (support,) = candidate["groundingMetadata"]["groundingSupports"]
    segment = {"startIndex": 2, "endIndex": 7, "text": "öße", "partIndex": 1}
    assert support["segment"] == segment
    assert body["usageMetadata"] == {
        "promptTokenCount": 5,
        "cachedContentTokenCount": 2,
        "candidatesTokenCount": 4,
        "thoughtsTokenCount": 1,
        "totalTokenCount": 10,
    }
    paths = {(loss.kind, loss.path) for loss in translation.losses}
    assert paths == {
        (LossKind.COERCED, "canisters[0].content[2]"),
        (LossKind.COERCED, "canisters[1].arguments"),
        (LossKind.WITHHELD, "response.native"),
    }
    read = decode(body)
    assert read.canisters[0].content[1].citations[0].start == 2  # type: ignore[union-attr]


def test_a_signature_is_sent_only_to_its_own_vendor() -> None:
    """The native data of a decoded thought name its protocol, even if they are empty."""
    content = read_turn({"text": "a", "thought": True}).content[0]
    assert isinstance(content, ReasoningContent)
    assert content.native == Native(protocol=PROTOCOL, data="{}")
