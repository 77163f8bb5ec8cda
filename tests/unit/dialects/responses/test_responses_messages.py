"""Conversations are sent as items: those of the same vendor unchanged, others with losses."""

from __future__ import annotations

import functools
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.meanings import distil
from vibe_llms.dialects.extras import make_native
from vibe_llms.dialects.responses import PROTOCOL, Quirks, nativize_request, normalize_request
from vibe_llms.dialects.responses.calling.controls import nativize_controls
from vibe_llms.dialects.responses.calling.invocations import nativize_invocables
from vibe_llms.dialects.responses.calling.messages import nativize_canisters
from vibe_llms.exceptions import CapabilityError, RequestError
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
    AudioContent,
    Citation,
    FileContent,
    ImageContent,
    Native,
    NativeContent,
    ReasoningContent,
    TextualContent,
    VideoContent,
    compute_content_id,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request
from vibe_llms.messages.server_tools import ServerTool
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import AttributeLayer, ModelAttributes, Provenance, TracedValue
from vibe_llms.models.definitions import produce_control
from vibe_llms.models.genera import Genus
from vibe_llms.models.keys import KEYS, KeyRole

mean = functools.partial(distil, "responses")

HERE = Origin(provider="openai_responses", model="m", protocol=PROTOCOL)
THERE = Origin(provider="anthropic", model="c", protocol="messages")
OTHER_PROVIDER = Origin(provider="xai", model="g", protocol=PROTOCOL)
USER = UserCanister("Go on.")


def produce_attributes(**capabilities: str) -> ModelAttributes:
    """Return the attributes of a model with any control, and with these capabilities."""
    controls = tuple(
        produce_control(key.name, key.definition) for key in KEYS if key.role is KeyRole.CONTROL
    )
    traced = tuple(
        TracedValue(key=name, value=value, provenance=Provenance(layer=AttributeLayer.MODEL))
        for name, value in capabilities.items()
    )
    address = ModelAddress("openai_responses", "m")
    return ModelAttributes(
        address=address, genus=Genus.CONVERSER, controls=controls, traced_values=traced
    )


def nativize(
    *canisters: AnyCanister, quirks: Quirks | None = None, is_stored: bool = True
) -> tuple[list[Any], tuple[Loss, ...]]:
    """Return the items of a conversation, and the losses."""
    translated = nativize_canisters(
        canisters,
        produce_attributes(),
        quirks or Quirks(),
        provider="openai_responses",
        is_stored=is_stored,
    )
    items: Any = translated.value["input"]
    return items, translated.losses


def think(origin: Origin, fields: dict[str, Any], **given: Any) -> AssistantCanister:
    """Return reasoning of a vendor."""
    native = make_native(origin.protocol or "", fields)
    return AssistantCanister([ReasoningContent(native=native, **given)], origin=origin, turn_id="t")


def list_losses(losses: tuple[Loss, ...]) -> list[tuple[LossKind, str]]:
    """Return the kinds and paths of losses."""
    return [(loss.kind, loss.path) for loss in losses]


def test_plain_texts_have_a_plain_form() -> None:
    """Without parts."""
    items, losses = nativize(SupervisorCanister("Be."), USER, AssistantCanister("Yes."), USER)
    assert items == [
        {"role": "system", "content": "Be."},
        {"role": "user", "content": "Go on."},
        {"type": "message", "role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Go on."},
    ]
    assert not losses


def test_reasoning_is_sent_back_to_its_vendor() -> None:
    """With its id and its signature, before the output after it."""
    thought = think(HERE, {"id": "rs_1", "content": []}, summary=("Hm.",), signature="signed")
    items, losses = nativize(USER, thought, AssistantCanister("So.", turn_id="t"), USER)
    assert items[1] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "content": [],
        "encrypted_content": "signed",
    }
    assert not losses


@pytest.mark.parametrize("origin", [THERE, OTHER_PROVIDER])
def test_reasoning_of_other_vendors_is_withheld(origin: Origin) -> None:
    """Even if they use the same protocol; the canister keeps it."""
    thought = think(origin, {"id": "rs_1"}, text="Hm.", signature="signed")
    items, losses = nativize(USER, thought, AssistantCanister("So.", turn_id="t"), USER)
    assert [item.get("role") for item in items] == ["user", "assistant", "user"]
    assert list_losses(losses) == [(LossKind.WITHHELD, "canisters[1].content[0]")]


def test_reasoning_of_other_vendors_is_sent_if_the_vendor_accepts_it() -> None:
    """Vendors of open models accept its text, without the signature."""
    thought = think(THERE, {}, text="Hm.", signature="signed")
    quirks = Quirks(takes_reasoning=True)
    items, losses = nativize(
        USER, thought, AssistantCanister("So.", turn_id="t"), USER, quirks=quirks
    )
    assert items[1]["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert "encrypted_content" not in items[1]
    assert (LossKind.WITHHELD, "canisters[1].content[0].signature") in list_losses(losses)


def test_reasoning_alone_is_withheld() -> None:
    """The vendor rejects reasoning without the output after it, as in an interrupted answer."""
    thought = think(HERE, {"id": "rs_1"}, signature="signed")
    items, losses = nativize(USER, thought, USER)
    assert len(items) == 2
    assert list_losses(losses) == [(LossKind.WITHHELD, "canisters[1].content[0]")]


def test_reasoning_that_is_not_stored_is_withheld_with_the_ids_after_it() -> None:
    """The vendor does not know the id if it was asked to store nothing."""
    thought = think(HERE, {"id": "rs_1"}, summary=("Hm.",))
    call = InvocationCanister(
        invocation_id="call_1", name="f", origin=HERE, turn_id="t",
        native=make_native(PROTOCOL, {"id": "fc_1", "status": "completed"}),
    )  # fmt: skip
    result = ResultCanister("1", invocation_id="call_1")
    items, losses = nativize(USER, thought, call, result, is_stored=False)
    assert [item.get("type") for item in items] == [None, "function_call", "function_call_output"]
    assert "id" not in items[1]
    assert items[1]["status"] == "completed"
    assert {path for _, path in list_losses(losses)} == {
        "canisters[1].content[0]", "canisters[2].native",
    }  # fmt: skip
    stored, losses = nativize(USER, thought, call, result, is_stored=True)
    assert stored[1]["id"] == "rs_1"
    assert stored[2]["id"] == "fc_1"
    assert not losses


def test_changed_common_fields_are_kept() -> None:
    """They are sent with the vendor's other fields."""
    native = {"input": [
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "phase": "commentary",
         "content": [{"type": "output_text", "text": "Old.", "annotations": []}]},
        {"role": "user", "content": "Go on."},
    ], "model": "m"}  # fmt: skip
    request = normalize_request(native).value
    original = request.canisters[0]
    edited = attrs.evolve(original, content=(attrs.evolve(original.content[0], text="New."),))  # type: ignore[type-var,call-arg,misc]
    items, losses = nativize(edited, *request.canisters[1:])
    assert items[0]["content"][0]["text"] == "New."
    assert (items[0]["id"], items[0]["phase"]) == ("msg_1", "commentary")
    assert not losses


def shell(**fields: Any) -> dict[str, Any]:
    """Return a call of a shell that we execute."""
    action = {"commands": ["ls"]}
    return {"type": "shell_call", "id": "sh", "call_id": "c", "action": action, **fields}


def test_we_may_execute_a_tool_of_the_vendor() -> None:
    """A shell: its call round-trips, and our text becomes a result in its format."""
    (call,) = normalize_request(
        {"model": "m", "input": [shell()], "previous_response_id": "r"}
    ).value.canisters
    assert isinstance(call, InvocationCanister)
    assert (call.name, call.owner) == ("shell", Owner.OURS)
    result = ResultCanister("a b", invocation_id="c", is_error=True)
    items, losses = nativize(call, result)
    assert items[0] == shell()
    assert items[1] == {
        "type": "shell_call_output",
        "call_id": "c",
        "output": [{"stdout": "a b", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}],
    }
    assert not losses
    changed = attrs.evolve(call, arguments='{"commands":["pwd"]}')
    items, _ = nativize(changed, result)
    assert items[0] == shell(action={"commands": ["pwd"]})


@pytest.mark.parametrize(
    ("call", "result", "expected"),
    [
        (
            {"type": "apply_patch_call", "call_id": "c", "operation": {}},
            ResultCanister("ok", invocation_id="c"),
            {"type": "apply_patch_call_output", "call_id": "c", "status": "completed",
             "output": "ok"},
        ),
        (
            {"type": "local_shell_call", "id": "i", "call_id": "c", "action": {}},
            ResultCanister("ok", invocation_id="c"),
            {"type": "local_shell_call_output", "id": "c", "output": "ok"},
        ),
        (
            {"type": "mcp_approval_request", "id": "c", "name": "f", "arguments": "{}",
             "server_label": "s"},
            ResultCanister("Never.", invocation_id="c", is_error=True),
            {"type": "mcp_approval_response", "approval_request_id": "c", "approve": False,
             "reason": "Never."},
        ),
        (
            {"type": "computer_call", "id": "i", "call_id": "c", "pending_safety_checks": [],
             "action": {"type": "screenshot"}},
            ResultCanister([ImageContent(mime_type="image/png", data=b"x")], invocation_id="c"),
            {"type": "computer_call_output", "call_id": "c",
             "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,eA=="}},
        ),
        (
            {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {}},
            ResultCanister("[]", invocation_id="c"),
            {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": []},
        ),
    ],
)  # fmt: skip
def test_a_tool_of_the_vendor_gets_a_result_in_its_own_format(
    call: dict[str, Any], result: ResultCanister, expected: dict[str, Any]
) -> None:
    """A common result becomes the item that the vendor expects."""
    body = {"model": "m", "input": [call], "previous_response_id": "r"}
    (invocation,) = normalize_request(body).value.canisters
    items, losses = nativize(invocation, result)
    assert items == [call, expected]
    assert not losses


def test_calls_of_a_vendor_are_sent_only_to_it() -> None:
    """A search stays in the conversation, and is sent when its vendor is asked again."""
    action = {"type": "search", "query": "q", "sources": [{"type": "url", "url": "u"}]}
    item = {"type": "web_search_call", "id": "ws", "status": "completed", "action": action}
    read = normalize_request({"model": "m", "input": [item]}).value.canisters
    ours = [attrs.evolve(each, origin=HERE) for each in read]  # type: ignore[call-arg,misc]
    items, losses = nativize(*ours, USER)
    assert items[0] == item
    assert not losses
    theirs = [attrs.evolve(each, origin=OTHER_PROVIDER) for each in read]  # type: ignore[call-arg,misc]
    items, losses = nativize(*theirs, USER)
    assert len(items) == 1
    assert [kind for kind, _ in list_losses(losses)] == [LossKind.WITHHELD, LossKind.WITHHELD]


def test_a_generated_image_is_put_back_into_its_call() -> None:
    """It is in the conversation once, as an image, and in the request once."""
    item = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "AAAA"}
    read = normalize_request({"model": "m", "input": [item, {"role": "user", "content": "Go on."}]})
    items, _ = nativize(*read.value.canisters)
    assert items[0] == item
    call, result, user = read.value.canisters
    stored = ImageContent(mime_type="image/png", content_id=compute_content_id(b"x"))
    with pytest.raises(RequestError, match="content store"):
        nativize(call, attrs.evolve(result, content=(stored,)), user)  # type: ignore[call-arg]


def test_history_is_repaired() -> None:
    """An invocation without a result gets one, and an id that is too long an alias."""
    long = "x" * 65
    items, losses = nativize(InvocationCanister(invocation_id=long, name="f"), USER)
    assert [item.get("type") for item in items] == ["function_call", "function_call_output", None]
    assert items[0]["call_id"] == items[1]["call_id"]
    assert len(items[0]["call_id"]) <= 64
    kinds = [kind for kind, _ in list_losses(losses)]
    assert kinds == [LossKind.COERCED, LossKind.SYNTHESIZED, LossKind.DROPPED]


def test_the_error_mark_of_a_result_is_a_loss() -> None:
    """Only its contents can describe the error."""
    call = InvocationCanister(invocation_id="c", name="f")
    _, losses = nativize(call, ResultCanister("No.", invocation_id="c", is_error=True))
    assert list_losses(losses) == [(LossKind.DROPPED, "canisters[1].is_error")]


def test_a_file_id_of_another_vendor_is_withheld() -> None:
    """No other vendor knows the id of an uploaded file."""
    for native, kept in ((None, True), (make_native(PROTOCOL, {}), True),
                         (Native(protocol="messages", data="{}"), False)):  # fmt: skip
        file = FileContent(mime_type="application/pdf", file_id="f", native=native)
        items, losses = nativize(UserCanister(["See.", file]))
        assert (items[0]["content"] == "See.") is not kept
        assert bool(losses) is not kept


def test_unsupported_media_are_reported() -> None:
    """Audio and video are not accepted; images of the model cannot be sent back."""
    sound = AudioContent(mime_type="audio/wav", data=b"x")
    film = VideoContent(mime_type="video/mp4", data=b"x")
    picture = ImageContent(mime_type="image/png", data=b"x")
    items, losses = nativize(
        UserCanister(["a", sound, film]), AssistantCanister(["b", picture]), USER
    )
    assert items[0]["content"] == "a"
    assert items[1]["content"] == "b"
    assert list_losses(losses) == [
        (LossKind.DROPPED, "canisters[0].content[1]"),
        (LossKind.DROPPED, "canisters[0].content[2]"),
        (LossKind.WITHHELD, "canisters[1].content[1]"),
    ]
    items, _ = nativize(UserCanister([sound]), quirks=Quirks(takes_audio=True))
    assert items[0]["content"][0]["input_audio"]["format"] == "wav"


def test_a_model_without_image_support_gets_no_images() -> None:
    """The error is raised before anything is sent."""
    picture = UserCanister([ImageContent(mime_type="image/png", data=b"x")])
    with pytest.raises(CapabilityError, match="images"):
        nativize_canisters([picture], produce_attributes(supports_images="no"), Quirks())


def test_citations_of_other_vendors_are_sent_if_they_have_a_counterpart() -> None:
    """A span of a page has one, a passage of a document has none."""
    page = Citation(start=0, end=1, url="https://a", cited_text="A")
    passage = Citation(cited_text="B")
    text = TextualContent("a", citations=[page, passage])
    items, losses = nativize(AssistantCanister([text]), USER)
    (annotation,) = items[0]["content"][0]["annotations"]
    assert (annotation["url"], annotation["start_index"]) == ("https://a", 0)
    assert list_losses(losses)[:2] == [
        (LossKind.COERCED, "canisters[0].content[0].citations[0]"),
        (LossKind.WITHHELD, "canisters[0].content[0].citations[1]"),
    ]


def test_native_blocks_of_other_vendors_are_withheld() -> None:
    """Only their vendor understands them."""
    block = NativeContent(kind="compaction", native=Native(protocol="messages", data="{}"))
    items, losses = nativize(AssistantCanister([block, "a"], origin=THERE), USER)
    assert items[0]["content"] == "a"
    assert list_losses(losses) == [(LossKind.WITHHELD, "canisters[0].content[0]")]


def test_a_document_is_framed_by_marks() -> None:
    """There is no role for documents, which is reported."""
    items, losses = nativize(DocumentCanister("Rain.", title="W"), USER)
    assert items[0]["content"] == '<document title="W">\nRain.\n</document>'
    assert list_losses(losses) == [(LossKind.COERCED, "canisters[0]")]


def ask(request: Request, **capabilities: str) -> dict[str, Any]:
    """Return the body of a request."""
    return dict(nativize_request(request, produce_attributes(**capabilities), Quirks()).value)


def test_results_of_server_tools_are_included() -> None:
    """Beside signed reasoning, and in place of nothing that a caller asks for."""
    tools = [ServerTool("web_search"), ServerTool("code_execution")]
    request = Request(canisters=[USER], invocables=tools)
    results = ["web_search_call.action.sources", "code_interpreter_call.outputs"]

    assert ask(request)["include"] == results
    signed = "reasoning.encrypted_content"
    assert ask(request, supports_reasoning="yes")["include"] == [signed, *results]
    mine = attrs.evolve(request, native=make_native(PROTOCOL, {"include": ["mine"]}))
    assert ask(mine)["include"] == ["mine"]


def test_nothing_is_stored_unless_it_is_requested() -> None:
    """By default the vendor must not store the conversation."""
    plain = Request(canisters=[USER])
    assert ask(plain)["store"] is False
    assert "include" not in ask(plain)
    assert ask(plain, supports_reasoning="yes")["include"] == ["reasoning.encrypted_content"]
    for fields in ({"store": True}, {"previous_response_id": "r"}, {"conversation": "c"}):
        canister = attrs.evolve(plain, native=make_native(PROTOCOL, fields))
        body = ask(canister, supports_reasoning="yes")
        assert body == {"model": "m", "input": body["input"], **fields}
    other = attrs.evolve(plain, native=make_native(PROTOCOL, {"metadata": {"a": "b"}}))
    assert ask(other)["store"] is False


def test_results_may_answer_stored_invocations() -> None:
    """With stored items, or references to items, an invocation need not be sent again."""
    output = {"type": "function_call_output", "call_id": "c", "output": "1"}
    custom = {"type": "custom_tool_call_output", "call_id": "d", "output": "2"}
    canister = {"model": "m", "input": [output, custom], "previous_response_id": "r"}
    refers = {
        "model": "m",
        "input": [{"type": "item_reference", "id": "fc"}, output],
        "store": True,
    }
    for native in (canister, refers):
        translated = nativize_request(
            normalize_request(native).value, produce_attributes(), Quirks()
        )
        assert mean(translated.value) == mean(native)
        assert not translated.losses
    alone = normalize_request({"model": "m", "input": [output], "store": True}).value
    translated = nativize_request(alone, produce_attributes(), Quirks())
    assert [loss.kind for loss in translated.losses] == [LossKind.COERCED]


def test_instructions_round_trip() -> None:
    """A client's ``instructions`` are not a system message, and are sent in their own field."""
    native = {"model": "m", "instructions": "Be.", "input": [{"role": "system", "content": "Do."},
              {"role": "user", "content": "Hi"}]}  # fmt: skip
    request = normalize_request(native).value
    assert [each.role for each in request.canisters] == ["supervisor", "supervisor", "user"]
    assert mean(ask(request)) == mean(native)


def test_controls_without_a_parameter_are_reported() -> None:
    """This protocol has no ``stop``."""
    values = {"stop": ["a"], "max_tokens": 5, "reasoning_effort": "low"}
    translated = nativize_controls(values, produce_attributes(), Quirks())
    assert translated.value == {"max_output_tokens": 5, "reasoning": {"effort": "low"}}
    assert list_losses(translated.losses) == [(LossKind.DROPPED, "controls.stop")]


def test_only_closed_schemas_are_enforced() -> None:
    """The vendor rejects the enforcement of an open one, which is then sent without it, with a
    loss.
    """
    is_open: Any = {"type": "object", "properties": {"a": {"type": "string"}}}
    closed: Any = {**is_open, "required": ["a"], "additionalProperties": False}
    for schema, strict in ((is_open, False), (closed, True)):
        request = Request(canisters=[USER], schema=schema)
        translated = nativize_request(request, produce_attributes(), Quirks())
        body: Any = translated.value
        assert body["text"]["format"]["strict"] is strict
        assert bool(translated.losses) is not strict


def test_tools_of_other_vendors_are_withheld() -> None:
    """They cannot be chosen, either."""
    native = Native(protocol="messages", data='{"type": "web_search_20260318"}')
    search = InvocableDescription(name="search", description="", schema=None, native=native)
    look = InvocableDescription(name="look", description="L", schema={"type": "object"})
    translated = nativize_invocables([search, look], "search")
    assert [tool["name"] for tool in translated.value["tools"]] == ["look"]  # type: ignore[union-attr,index,call-overload]
    assert "tool_choice" not in translated.value
    kinds = {kind for kind, _ in list_losses(translated.losses)}
    assert kinds == {LossKind.WITHHELD, LossKind.DROPPED}


def test_an_invalid_item_is_located() -> None:
    """With the path of the item, and a remedy."""
    for item in (3, {"type": "message", "role": "user", "content": [3]}, {"type": 3}):
        with pytest.raises(RequestError, match=r"input\[1\]"):
            normalize_request({"model": "m", "input": [{"role": "user", "content": "a"}, item]})


TEXTS = st.text(max_size=20)
MESSAGES = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "system", "developer"]),
    st.one_of(
        TEXTS,
        st.lists(
            st.one_of(
                st.builds(lambda text: {"type": "input_text", "text": text}, TEXTS),
                st.builds(
                    lambda text: {"type": "input_text", "text": text,
                                  "prompt_cache_breakpoint": {"mode": "explicit"}}, TEXTS
                ),
                st.just({"type": "input_image", "image_url": "data:image/png;base64,AAAA"}),
                st.just({"type": "input_image", "image_url": "data:image/png;base64,<cut>"}),
                st.just({"type": "input_file", "file_data": "AAAA", "filename": "a.pdf"}),
                st.just({"type": "brand_new", "data": 1}),
            ),
            max_size=3,
        ),
    ),
)  # fmt: skip
TURNS = st.one_of(
    st.builds(lambda m: [m], MESSAGES),
    st.builds(lambda text: [{"role": "assistant", "content": text}], TEXTS),
    st.builds(
        lambda texts: [{"role": "assistant",
                        "content": [{"type": "output_text", "text": text} for text in texts]}],
        st.lists(TEXTS, min_size=1, max_size=3),
    ),
    st.builds(
        lambda number, arguments, output: [
            {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "s"},
            {"type": "function_call", "call_id": str(number), "name": "f", "arguments": arguments},
            {"type": "function_call_output", "call_id": str(number), "output": output},
        ],
        st.integers(0, 10**9),
        TEXTS,
        st.one_of(TEXTS, st.builds(lambda text: [{"type": "input_text", "text": text}], TEXTS)),
    ),
)  # fmt: skip


@given(st.lists(TURNS, max_size=5), st.booleans())
def test_a_clients_items_round_trip(turns: list[list[dict[str, Any]]], stored: bool) -> None:
    """Any conversation of this protocol."""
    items = [item for turn in turns for item in turn]
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    if len(set(calls)) < len(calls):
        return
    native = {"model": "m", "input": [*items, {"role": "user", "content": "a"}], "store": stored}
    translated = nativize_request(
        normalize_request(native).value, produce_attributes(), Quirks(), provider="xai"
    )
    assert mean(translated.value) == mean(native)
    assert not translated.losses
