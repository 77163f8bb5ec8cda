"""Requests of Bedrock's clients are read, and written again for the vendor, without a change."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from fidelity.meanings import distil
from fidelity.parties import PARTIES
from fidelity.structure import find_offence
from vibe_llms.dialects import bedrock
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister, UserCanister
from vibe_llms.messages.contents import CacheHint, RefusalContent, TextualContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.catalogue import Catalogue

PARTY = next(party for party in PARTIES if party.name == "bedrock")
DATA = base64.b64encode(b"bytes").decode()
HELLO = {"role": "user", "content": [{"text": "Hello."}]}
CALL = {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"a": 1}}}
POINT = {"cachePoint": {"type": "default"}}
LONG_POINT = {"cachePoint": {"type": "default", "ttl": "1h"}}
CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "additionalProperties": False,
}
TOOL = {"toolSpec": {"name": "f", "description": "d", "inputSchema": {"json": CLOSED}}}
PAGE = {"web": {"url": "https://example.org", "domain": "example.org"}}


def ask(*blocks: Any) -> dict[str, Any]:
    """Return a request whose user says these blocks."""
    return {"messages": [{"role": "user", "content": [{"text": "Look:"}, *blocks]}]}


def answer(*blocks: Any) -> dict[str, Any]:
    """Return a request with an earlier answer of these blocks."""
    return {"messages": [HELLO, {"role": "assistant", "content": [*blocks]}, HELLO]}


def bring(result: Any, *blocks: Any) -> dict[str, Any]:
    """Return a request with a call and its result."""
    full = {"toolResult": {"toolUseId": "t1", **result}}
    called = {"role": "assistant", "content": [CALL]}
    messages = [HELLO, called, {"role": "user", "content": [full, *blocks]}]
    return {"messages": messages, "toolConfig": {"tools": [TOOL]}}


def offer(tool: Any, **config: Any) -> dict[str, Any]:
    """Return a request with a tool."""
    return {"messages": [HELLO], "toolConfig": {"tools": [tool], **config}}


REQUESTS: dict[str, dict[str, Any]] = {
    "system": {**ask(), "system": [{"text": "Be brief."}, POINT, {"text": "Be kind."}]},
    "image": ask({"image": {"format": "png", "source": {"bytes": DATA}}}),
    "image in S3": ask(
        {"image": {"format": "webp", "source": {"s3Location": {"uri": "s3://b/k"}}}}
    ),
    "document": ask({"document": {"format": "pdf", "name": "a", "source": {"bytes": DATA}}}),
    "document of text": ask(
        {"document": {"format": "txt", "name": "a", "source": {"text": "Words."}}}
    ),
    "document in parts": ask(
        {
            "document": {
                "format": "txt",
                "name": "a",
                "context": "c",
                "citations": {"enabled": True},
                "source": {"content": [{"text": "One."}, {"text": "Two."}]},
            }
        }
    ),
    "video": ask({"video": {"format": "mp4", "source": {"bytes": DATA}}}),
    "video in S3": ask(
        {
            "video": {
                "format": "mp4",
                "source": {"s3Location": {"uri": "s3://b/k", "bucketOwner": "123456789012"}},
            }
        }
    ),
    "audio": ask({"audio": {"format": "wav", "source": {"bytes": DATA}}}),
    "guardrail": {
        **ask({"guardContent": {"text": {"text": "Check.", "qualifiers": ["query"]}}}),
        "guardrailConfig": {"guardrailIdentifier": "abc", "guardrailVersion": "1"},
    },
    "cache point": ask(POINT, {"text": "More."}, LONG_POINT),
    "cache point after a tool": {
        "messages": [HELLO],
        "toolConfig": {"tools": [TOOL, POINT]},
    },
    "cache point after a result": bring({"content": [{"text": "x"}]}, POINT),
    "reasoning": answer(
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "sig"}}},
        {"text": "Yes."},
    ),
    "redacted reasoning": answer({"reasoningContent": {"redactedContent": DATA}}, {"text": "Yes."}),
    "citations": answer(
        {
            "citationsContent": {
                "content": [{"text": "It rains."}],
                "citations": [
                    {"title": "Oslo", "location": PAGE, "sourceContent": [{"text": "Rain"}]}
                ],
            }
        }
    ),
    "call": bring({"content": [{"text": "x"}], "status": "success"}),
    "failed call": bring({"content": [{"text": "x"}], "status": "error"}),
    "result of JSON": bring({"content": [{"json": {"a": [1, None]}}]}),
    "result of media": bring(
        {
            "content": [
                {"text": "x"},
                {"image": {"format": "png", "source": {"bytes": DATA}}},
                {"document": {"format": "pdf", "name": "a", "source": {"bytes": DATA}}},
            ]
        }
    ),
    "strict tool": offer({"toolSpec": {**TOOL["toolSpec"], "strict": True}}),
    "strict tool with an open schema": offer(
        {"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}, "strict": True}}
    ),
    "any tool": offer(TOOL, toolChoice={"any": {}}),
    "one tool": offer(TOOL, toolChoice={"tool": {"name": "f"}}),
    "tool of the vendor": offer({"systemTool": {"name": "nova_grounding"}}),
    "controls": {
        **ask(),
        "inferenceConfig": {
            "maxTokens": 5,
            "temperature": 0.5,
            "topP": 0.5,
            "stopSequences": ["x"],
        },
        "performanceConfig": {"latency": "optimized"},
        "serviceTier": {"type": "flex"},
        "requestMetadata": {"team": "a"},
        "additionalModelRequestFields": {"top_k": 5, "novelty": {"a": 1}},
        "additionalModelResponseFieldPaths": ["/stop_sequence"],
    },
    "schema": {
        **ask(),
        "outputConfig": {
            "textFormat": {
                "type": "json_schema",
                "structure": {
                    "jsonSchema": {
                        "name": "place",
                        "description": "d",
                        "schema": '{"type":"object"}',
                    }
                },
            }
        },
    },
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_round_trips_without_a_loss(name: str) -> None:
    """And botocore accepts both."""
    body = REQUESTS[name]
    request = bedrock.normalize_request(body, PARTY.attributes)

    written = PARTY.nativize(request.value)

    assert distil("bedrock", written.value) == distil("bedrock", body)
    assert [each for each in (*request.losses, *written.losses) if not each.is_routine] == []
    assert find_offence(body, PARTY) is None
    assert find_offence(written.value, PARTY) is None


def test_a_cache_point_belongs_to_what_is_before_it() -> None:
    """In a message, in a result, and in a call."""
    read = bedrock.normalize_request(REQUESTS["cache point after a result"]).value

    result = next(each for each in read.canisters if isinstance(each, ResultCanister))
    assert isinstance(result.content[-1], CacheHint)
    asked = bedrock.normalize_request(REQUESTS["cache point"]).value.canisters[0]
    assert isinstance(asked, UserCanister)
    assert [type(each) is CacheHint for each in asked.content] == [False, True, False, True]


def test_calls_and_results_are_those_of_the_client() -> None:
    """With the arguments as JSON."""
    canisters = bedrock.normalize_request(REQUESTS["failed call"]).value.canisters

    call, result = canisters[1:]
    assert isinstance(call, InvocationCanister)
    assert (call.invocation_id, call.name, call.arguments) == ("t1", "f", '{"a":1}')
    assert isinstance(result, ResultCanister)
    assert result.is_error


def test_redacted_reasoning_keeps_its_other_fields() -> None:
    block = {"reasoningContent": {"redactedContent": DATA, "novelty": 1}}
    request = PARTY.read(answer(block, {"text": "So."}))

    written = PARTY.nativize(request)

    assert written.value["messages"][1]["content"] == [block, {"text": "So."}]


def test_a_refusal_without_visible_characters_is_not_sent() -> None:
    """As the vendor rejects such a text."""
    contents = (TextualContent("And?"), RefusalContent(" "))
    written = PARTY.nativize(Request(canisters=[UserCanister(contents)]))

    assert written.value["messages"][0]["content"] == [{"text": "And?"}]
    assert [loss.path for loss in written.losses] == ["canisters[0].content[1]"]


@pytest.mark.parametrize("choice", ["required", "f"])
@pytest.mark.parametrize(
    ("model", "controls", "is_forced"),
    [
        ("global.anthropic.claude-fable-5-2", {}, False),
        ("global.anthropic.claude-opus-4-6", {"reasoning_effort": "low"}, False),
        ("global.anthropic.claude-opus-4-6", {}, True),
    ],
)
def test_a_model_that_reasons_is_not_required_to_call(
    choice: str, model: str, controls: dict[str, Any], is_forced: bool
) -> None:
    """The vendor rejects both together; the choice becomes ``auto``, with a loss."""
    tool = InvocableDescription(name="f", description="d", schema=CLOSED)
    request = Request(
        canisters=[UserCanister("?")],
        model=model,
        controls=controls,
        invocables=[tool],
        invocation_choice=choice,
    )
    attributes = Catalogue().access_attributes(ModelAddress.parse(f"bedrock:{model}"))
    written = bedrock.nativize_request(request, attributes, bedrock.Quirks())
    config: Any = written.value["toolConfig"]

    assert ("toolChoice" in config) is is_forced
    assert ("invocation_choice" in [loss.path for loss in written.losses]) is not is_forced
