"""Requests by Interactions: steps, parameters, and their losses; as clients send them, too."""

from __future__ import annotations

from typing import Any

import pytest

from fidelity.answers import CLOSING, WORK
from fidelity.meanings import distil
from fidelity.parties import BY_NAME
from vibe_llms.dialects import interactions
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import (
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    Citation,
    ImageContent,
    Native,
    ReasoningContent,
    TextualContent,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request

PARTY = BY_NAME["google_interactions"]
SCHEMA: Any = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = InvocableDescription(name="weather", description="Weather.", schema=SCHEMA)


def nativize(*canisters: Any, **fields: Any) -> tuple[Any, list[str]]:
    """Return the body and the paths of the losses."""
    written = PARTY.nativize(Request(canisters=canisters, **fields))
    return written.value, [loss.path for loss in written.losses]


def test_a_conversation_is_a_list_of_steps() -> None:
    call = InvocationCanister(invocation_id="c", name="weather", arguments='{"city": "Oslo"}')
    body, losses = nativize(
        SupervisorCanister("Be brief."),
        UserCanister("Weather?"),
        call,
        ResultCanister("Rain", invocation_id="c", name="weather"),
        AssistantCanister("It rains."),
        UserCanister("Thanks."),
        invocables=[WEATHER],
    )

    def say(kind: str, text: str) -> dict[str, Any]:
        return {"type": kind, "content": [{"type": "text", "text": text}]}

    assert body == {
        "model": "gemini-3-pro",
        "store": False,
        "system_instruction": "Be brief.",
        "input": [
            say("user_input", "Weather?"),
            {
                "type": "function_call",
                "id": "c",
                "name": "weather",
                "arguments": {"city": "Oslo"},
            },
            {"type": "function_result", "call_id": "c", "name": "weather", "result": "Rain"},
            say("model_output", "It rains."),
            say("user_input", "Thanks."),
        ],
        "tools": [
            {
                "type": "function",
                "name": "weather",
                "description": "Weather.",
                "parameters": SCHEMA,
            }
        ],
    }
    assert losses == []


def test_results_are_texts_objects_or_lists() -> None:
    picture = ImageContent(mime_type="image/png", data=b"png")
    contents: list[Any] = [
        "Rain",
        (TextualContent('{"a":1}', mime_type="application/json"),),
        (TextualContent("See"), picture),
        (),
    ]
    calls = [InvocationCanister(invocation_id=str(number), name="weather") for number in range(4)]
    results = [
        ResultCanister(content, invocation_id=str(number), name="weather")
        for number, content in enumerate(contents)
    ]
    body, _ = nativize(UserCanister("?"), *calls, *results, invocables=[WEATHER])
    written = [step["result"] for step in body["input"] if step["type"] == "function_result"]
    assert written == [
        "Rain",
        {"a": 1},
        [
            {"type": "text", "text": "See"},
            {"type": "image", "mime_type": "image/png", "data": "cG5n"},
        ],
        "",
    ]


def test_a_response_in_the_background_is_stored() -> None:
    body, _ = nativize(UserCanister("?"), controls={"background": True})
    assert body["background"] is True
    assert "store" not in body


@pytest.mark.parametrize(
    ("controls", "config", "lost"),
    [
        ({"max_tokens": 9, "seed": 1}, {"max_output_tokens": 9, "seed": 1}, []),
        ({"reasoning_effort": "high"}, {"thinking_level": "high"}, []),
        ({"reasoning_effort": "none"}, {"thinking_level": "minimal"}, ["reasoning_effort"]),
        ({"reasoning_effort": "max"}, {"thinking_level": "xhigh"}, ["reasoning_effort"]),
        ({"reasoning_summary": "auto"}, {"thinking_summaries": "auto"}, []),
        ({"reasoning_summary": "detailed"}, {"thinking_summaries": "auto"}, ["reasoning_summary"]),
        ({"top_k": 3}, None, ["top_k"]),
    ],
)
def test_controls(controls: dict[str, Any], config: dict[str, Any] | None, lost: list[str]) -> None:
    body, losses = nativize(UserCanister("?"), controls=controls)
    assert body.get("generation_config") == config
    assert losses == [f"controls.{name}" for name in lost]


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "any"),
        ("weather", {"allowed_tools": {"mode": "any", "tools": ["weather"]}}),
    ],
)
def test_tool_choices_are_read_back(choice: str, written: Any) -> None:
    body, _ = nativize(UserCanister("?"), invocables=[WEATHER], invocation_choice=choice)
    assert body.get("generation_config", {}).get("tool_choice") == written
    assert PARTY.read(body).invocation_choice == choice


def test_a_schema_is_a_response_format_and_is_read_back() -> None:
    body, _ = nativize(UserCanister("?"), schema=SCHEMA)
    expected = {"type": "text", "mime_type": "application/json", "schema": SCHEMA}
    assert body["response_format"] == expected
    assert PARTY.read(body).schema == SCHEMA


def test_late_instructions_documents_and_foreign_thoughts_are_reported() -> None:
    body, losses = nativize(
        UserCanister("Hi"),
        AssistantCanister((ReasoningContent(text="Hm"), TextualContent("Hello"))),
        SupervisorCanister("Be brief."),
        DocumentCanister("Rain", title="A"),
        UserCanister("Go"),
    )
    kinds = [step["type"] for step in body["input"]]
    assert kinds == ["user_input", "model_output", "user_input", "user_input", "user_input"]
    assert losses == ["canisters[1].content[0]", "canisters[2]", "canisters[3]"]


def test_fields_beside_an_answer_stay_with_its_text() -> None:
    """A thought before the text does not take them away."""
    beside = Native(protocol="interactions", data='{"novelty":"kept"}')
    contents = (ReasoningContent(text="Hm", native=beside), TextualContent("Hello"))

    answer = AssistantCanister(contents, native=beside)
    body, losses = nativize(UserCanister("Hi"), answer, UserCanister("Go"))

    thought, output = body["input"][1:3]
    assert (thought["type"], output["type"], output["novelty"]) == (
        "thought",
        "model_output",
        "kept",
    )
    assert losses == []


def test_contents_of_calls_and_types_of_results_are_reported() -> None:
    call = InvocationCanister(
        (TextualContent("aside"),), invocation_id="c", name="weather", arguments="{}"
    )
    text = TextualContent("<p>Rain</p>", mime_type="text/html")
    result = ResultCanister((text,), invocation_id="c", name="weather")

    _, losses = nativize(UserCanister("Hi"), call, result)

    assert losses == ["canisters[1].content[0]", "canisters[2].content[0].mime_type"]


def test_cite_positions_are_in_bytes() -> None:
    """As the vendor counts them; ours are in characters."""
    annotation = {
        "type": "url_citation",
        "start_index": 5,
        "end_index": 9,
        "title": "T",
        "url": "https://example.org",
    }
    step = {
        "type": "model_output",
        "content": [{"type": "text", "text": "Köln Bonn", "annotations": [annotation]}],
    }
    request = PARTY.read({"model": "m", "input": [*_hello(), step, *_hello()]})
    (citation,) = request.canisters[1].content[0].citations  # type: ignore[union-attr]
    assert (citation.start, citation.end) == (4, 8)
    assert PARTY.nativize(request).value["input"][1] == step


@pytest.mark.parametrize(
    ("citation", "annotation", "lost"),
    [
        (Citation(end=4), {"start_index": 0, "end_index": 4}, []),
        (Citation(start=2), {}, ["canisters[1].content[0].citations[0].start"]),
    ],
    ids=["without a start", "without an end"],
)
def test_half_a_span(citation: Citation, annotation: dict[str, Any], lost: list[str]) -> None:
    text = TextualContent("Rain", citations=[citation])
    body, losses = nativize(UserCanister("?"), AssistantCanister((text,)), UserCanister("Go"))
    (written,) = body["input"][1]["content"][0]["annotations"]
    assert written == {"type": "url_citation", **annotation}
    assert losses == lost


def test_an_empty_address_of_a_citation_is_not_sent() -> None:
    text = TextualContent("Rain", citations=[Citation(start=0, end=4, url="", title="")])
    body, _ = nativize(UserCanister("?"), AssistantCanister((text,)), UserCanister("Go"))
    (annotation,) = body["input"][1]["content"][0]["annotations"]
    assert annotation == {"type": "url_citation", "start_index": 0, "end_index": 4}
    assert PARTY.nativize(PARTY.read(body)).value == body


def _hello() -> list[dict[str, Any]]:
    return [{"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}]


@pytest.mark.parametrize(
    "given",
    [
        "Hi",
        {"type": "text", "text": "Hi"},
        [{"type": "text", "text": "Hi"}],
        _hello(),
        [{"type": "user_input", "content": "Hi"}],
    ],
    ids=repr,
)
def test_an_input_may_be_short(given: Any) -> None:
    request = PARTY.read({"model": "models/m", "input": given})
    assert [each.text for each in request.canisters] == ["Hi"]
    assert request.model.endswith(":m")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": []},
        {"input": 3},
        {"input": [{"content": "?"}]},
        {"input": [{"type": "function_call", "name": "a"}]},
        {"input": [{"type": "user_input", "content": [3]}]},
        {"input": "?", "system_instruction": 3},
    ],
    ids=repr,
)
def test_invalid_requests_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        interactions.normalize_request({"model": "m", **body})


@pytest.mark.parametrize("answer", [WORK, CLOSING], ids=["work", "closing"])
def test_a_clients_request_is_written_again(answer: dict[str, Any]) -> None:
    """With all fields of its steps, also unknown ones."""
    steps = answer["google_interactions"]["steps"]
    results = [
        {"type": "function_result", "call_id": step["id"], "name": step["name"], "result": "ok"}
        for step in steps
        if step["type"] == "function_call"
    ]
    body = {
        "model": "gemini-3-pro",
        "system_instruction": "Be brief.",
        "input": [*_hello(), *steps, *results, *_hello()],
        "tools": [{"type": "google_search"}, {"type": "function", "name": "weather"}],
        "generation_config": {"temperature": 0.5, "thinking_level": "low", "video_config": {}},
        "labels": {"a": "b"},
        "previous_interaction_id": "v1_0",
        "store": True,
    }
    written = PARTY.nativize(PARTY.read(body))
    assert distil("interactions", written.value) == distil("interactions", body)
    assert written.losses == ()


def test_find_allowed() -> None:
    def ask(*names: str, mode: str = "auto") -> Any:
        allowed = {"allowed_tools": {"mode": mode, "tools": [*names]}}
        return interactions.find_allowed({"generation_config": {"tool_choice": allowed}})

    assert ask("a", "b", mode="any") == {"a", "b"}
    assert ask("a") == {"a"}
    assert ask("a", mode="any") is None  # a choice
    assert interactions.find_allowed({}) is None
