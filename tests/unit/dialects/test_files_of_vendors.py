"""An uploaded file goes to the vendor that has it, and to nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from fidelity.parties import PARTIES, Party
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister, Origin, UserCanister
from vibe_llms.messages.codec.envelopes import decode_request, encode_request
from vibe_llms.messages.contents import FileContent, ImageContent, TextualContent
from vibe_llms.messages.requests import Request

CHAT: dict[str, Any] = {"type": "file", "file": {"file_id": "file_mine"}}
GIVEN: dict[str, dict[str, Any]] = {
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
    """Returns a client's request which has a file."""
    if protocol == "generate_content":
        return {"contents": [{"role": "user", "parts": [part, {"text": "?"}]}]}
    if protocol == "responses":
        words = {"type": "input_text", "text": "?"}
        return {"input": [{"role": "user", "content": [part, words]}]}
    content = [part, {"type": "text", "text": "?"}]
    return {"max_tokens": 9, "messages": [{"role": "user", "content": content}]}


def write(other: Party, *canisters: AnyCanister) -> tuple[str, list[str]]:
    """Returns what a vendor is sent, and what it is not."""
    written = other.nativize(Request(canisters=canisters))
    return str(written.value), [loss.kind for loss in written.losses]


@others
@pytest.mark.parametrize("name", GIVEN)
def test_a_file_of_a_clients_request_stays_with_its_vendor(name: str, other: Party) -> None:
    """Also when the request was stored meanwhile: whose the file is, is stored with it."""
    protocol = name.partition(" ")[0]
    request = find(protocol).read(compose(protocol, GIVEN[name]))
    stored = decode_request(encode_request(request))

    body, losses = write(other, *stored.canisters)

    has_it = other.protocol == protocol or {other.name, find(protocol).name} <= SIBLINGS
    goes = has_it and not (name == "responses image" and other.name == "openai")
    assert ("file_mine" in body) is goes  # Chat Completions has no place for a picture's name
    assert bool(NOT_SENT & {*losses}) is not goes


@others
@pytest.mark.parametrize("content", [PDF, ImageContent(mime_type="image/*", file_id="file_mine")])
def test_a_file_without_an_owner_stays_with_whoever_answered(
    content: FileContent | ImageContent, other: Party
) -> None:
    """A person does not write whose it is, and what was stored before does not say it, either."""
    origin = Origin(provider="anthropic", model="claude-opus-5", protocol="messages")
    asked, answered = UserCanister((content, TEXT)), AssistantCanister("A file.", origin=origin)

    body, losses = write(other, asked, answered, UserCanister("And?"))

    assert ("file_mine" in body) is (other.name == "anthropic")
    assert bool(NOT_SENT & {*losses}) is (other.name != "anthropic")


@others
@pytest.mark.parametrize("named", [True, False])
def test_a_file_goes_to_each_face_of_the_service_that_has_it(named: bool, other: Party) -> None:
    """Whose a file is, goes by the account and not by the protocol."""
    origin = Origin(provider="openai", model="gpt-5.5", protocol="chat_completions")
    asked: AnyCanister = UserCanister((PDF, TEXT))
    if named:
        asked = find("chat_completions").read(compose("chat_completions", CHAT)).canisters[0]
    answered = AssistantCanister("A file.", origin=origin)

    body, losses = write(other, asked, answered, UserCanister("And?"))

    assert ("file_mine" in body) is (other.name in SIBLINGS)
    assert bool(NOT_SENT & {*losses}) is (other.name not in SIBLINGS)


def test_a_file_that_nobody_has_answered_to_goes_to_whoever_is_asked() -> None:
    """It is the person who knows where it was uploaded."""
    body, losses = write(find("messages"), UserCanister((PDF, TEXT)))

    assert "file_mine" in body
    assert not NOT_SENT & {*losses}


@pytest.mark.parametrize("protocol", ["messages", "responses", "chat_completions"])
def test_where_the_file_is_there_besides_it_goes_without_its_name(protocol: str) -> None:
    """Another vendor is given the data themselves, and the name that it would not know is told."""
    origin = Origin(provider="google", model="gemini-3-pro", protocol="generate_content")
    file = FileContent(mime_type="application/pdf", file_id="files/mine", data=b"%PDF", name="a")
    asked, answered = UserCanister((file, TEXT)), AssistantCanister("A file.", origin=origin)

    body, losses = write(find(protocol), asked, answered, UserCanister("And?"))

    assert "files/mine" not in body
    assert "JVBERg==" in body
    assert "withheld" in losses
