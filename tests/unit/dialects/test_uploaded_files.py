"""An uploaded file is sent only to the vendor that has it."""

from __future__ import annotations

from typing import Any

import pytest

from fidelity.parties import PARTIES, Party
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister, Origin, UserCanister
from vibe_llms.messages.codec.envelopes import decode_request, encode_request
from vibe_llms.messages.contents import FileContent, ImageContent, TextualContent
from vibe_llms.messages.requests import Request

CHAT: dict[str, Any] = {"type": "file", "file": {"file_id": "file_mine"}}
UPLOADED_FILES: dict[str, dict[str, Any]] = {
    "messages document": {
        "type": "document", "source": {"type": "file", "file_id": "file_mine"}},
    "messages image": {"type": "image", "source": {"type": "file", "file_id": "file_mine"}},
    "chat_completions file": CHAT,
    "responses file": {"type": "input_file", "file_id": "file_mine"},
    "responses image": {"type": "input_image", "file_id": "file_mine"},
    "generate_content file": {
        "fileData": {"mimeType": "application/pdf", "fileUri":
                     "https://generativelanguage.googleapis.com/v1beta/files/file_mine"}},
}  # fmt: skip
PDF = FileContent(mime_type="application/pdf", file_id="file_mine")
TEXT = TextualContent("What is this?")
SIBLINGS = {"openai", "openai_responses"}
"""One account, asked by two protocols."""
NOT_SENT = {"withheld", "dropped"}
"""Some take no such files at all."""
others = pytest.mark.parametrize("other", PARTIES, ids=lambda party: party.name)


def find(protocol: str) -> Party:
    return next(party for party in PARTIES if party.protocol == protocol)


def compose(protocol: str, part: dict[str, Any]) -> dict[str, Any]:
    """Return a client's request with a file."""
    if protocol == "generate_content":
        return {"contents": [{"role": "user", "parts": [part, {"text": "?"}]}]}
    if protocol == "responses":
        words = {"type": "input_text", "text": "?"}
        return {"input": [{"role": "user", "content": [part, words]}]}
    content = [part, {"type": "text", "text": "?"}]
    return {"max_tokens": 9, "messages": [{"role": "user", "content": content}]}


def write(other: Party, *canisters: AnyCanister) -> tuple[str, list[str]]:
    """Return the native data and the losses."""
    written = other.nativize(Request(canisters=canisters))
    return str(written.value), [loss.kind for loss in written.losses]


@others
@pytest.mark.parametrize("name", UPLOADED_FILES)
def test_a_file_in_a_clients_request_is_sent_only_to_its_vendor(name: str, other: Party) -> None:
    """Also if the request was stored: its native data name the vendor."""
    protocol = name.partition(" ")[0]
    request = find(protocol).read(compose(protocol, UPLOADED_FILES[name]))
    stored = decode_request(encode_request(request))

    body, losses = write(other, *stored.canisters)

    has_it = other.protocol == protocol or {other.name, find(protocol).name} <= SIBLINGS
    has_it = has_it or (find(protocol).name, protocol) in other.habits.get("siblings", ())
    goes = has_it and not (name == "responses image" and other.name == "openai")
    assert ("file_mine" in body) is goes  # Chat Completions has no place for a picture's name
    assert bool(NOT_SENT & {*losses}) is not goes


@others
@pytest.mark.parametrize("content", [PDF, ImageContent(mime_type="image/*", file_id="file_mine")])
def test_a_file_without_native_data_belongs_to_the_vendor_that_answered(
    content: FileContent | ImageContent, other: Party
) -> None:
    """Files named by a user, and those in older stored conversations, do not name their vendor."""
    origin = Origin(provider="anthropic", model="claude-opus-5", protocol="messages")
    question, answer = UserCanister((content, TEXT)), AssistantCanister("A file.", origin=origin)

    body, losses = write(other, question, answer, UserCanister("And?"))

    assert ("file_mine" in body) is (other.name == "anthropic")
    assert bool(NOT_SENT & {*losses}) is (other.name != "anthropic")


@others
@pytest.mark.parametrize("named", [True, False])
def test_a_file_is_sent_to_each_interface_of_its_service(named: bool, other: Party) -> None:
    """A file belongs to the account, not to the protocol."""
    origin = Origin(provider="openai", model="gpt-5.5", protocol="chat_completions")
    question: AnyCanister = UserCanister((PDF, TEXT))
    if named:
        question = find("chat_completions").read(compose("chat_completions", CHAT)).canisters[0]
    answer = AssistantCanister("A file.", origin=origin)

    body, losses = write(other, question, answer, UserCanister("And?"))

    assert ("file_mine" in body) is (other.name in SIBLINGS)
    assert bool(NOT_SENT & {*losses}) is (other.name not in SIBLINGS)


def test_a_file_before_any_answer_is_sent_to_the_current_vendor() -> None:
    """Only the user knows where it was uploaded."""
    body, losses = write(find("messages"), UserCanister((PDF, TEXT)))

    assert "file_mine" in body
    assert not NOT_SENT & {*losses}


@pytest.mark.parametrize("protocol", ["messages", "responses", "chat_completions"])
def test_a_file_with_data_is_sent_without_its_id(protocol: str) -> None:
    """Another vendor gets the data, and the id that it would not know is a loss."""
    origin = Origin(provider="google", model="gemini-3-pro", protocol="generate_content")
    file = FileContent(mime_type="application/pdf", file_id="files/mine", data=b"%PDF", name="a")
    question, answer = UserCanister((file, TEXT)), AssistantCanister("A file.", origin=origin)

    body, losses = write(find(protocol), question, answer, UserCanister("And?"))

    assert "files/mine" not in body
    assert "JVBERg==" in body
    assert "withheld" in losses
