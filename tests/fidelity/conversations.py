"""A conversation of everything that can be said, and the turns that vendors add to it."""

from __future__ import annotations

from typing import Any, Final

from fidelity.answers import CLOSING, PICTURE, WORK
from fidelity.parties import BEGIN, Party
from vibe_llms.messages.canisters import (
    AnyCanister,
    DocumentCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AudioContent,
    FileContent,
    ImageContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.plain import JsonObject

PLACE: Final[JsonObject] = {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"],
    "additionalProperties": False,
}
INVOCABLES: Final = (
    InvocableDescription(name="weather", description="Tells the weather.", schema=PLACE),
    InvocableDescription(
        name="warn", description="Warns somebody.", schema=PLACE, enforced=True
    ),
    InvocableDescription(name="query", description="Asks a database.", schema=None),
)
CONTROLS: Final[JsonObject] = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.1,
    "seed": 7,
    "max_tokens": 500,
    "stop": ["END"],
    "repeat_penalty": 1.1,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.2,
    "reasoning_effort": "low",
    "parallel_invocations": False,
    "verbosity": "low",
    "service_tier": "flex",
}


def begin() -> tuple[AnyCanister, ...]:
    """Returns what is said before any model speaks."""
    return (
        SupervisorCanister("Be brief.", id="instructions", timestamp=BEGIN),
        UserCanister(
            (
                TextualContent("What is the weather there?"),
                ImageContent(mime_type="image/png", data=PICTURE, detail="high", name="a.png"),
                ImageContent(mime_type="image/png", url="https://example.org/a.png"),
                ImageContent(mime_type="image/png", file_id="file_1"),
                FileContent(
                    mime_type="application/pdf",
                    data=b"%PDF-1.7",
                    name="a.pdf",
                    title="A report",
                    context="From yesterday",
                ),
                FileContent(mime_type="application/pdf", url="https://example.org/a.pdf"),
                AudioContent(mime_type="audio/wav", data=b"RIFF", transcript="Rain?"),
                VideoContent(mime_type="video/mp4", url="https://example.org/a.mp4"),
                TextualContent("Say it soon."),
            ),
            id="question",
            timestamp=BEGIN,
        ),
        DocumentCanister("Rain is water.", id="document", title="Rain", timestamp=BEGIN),
    )


def work(party: Party, turn: str = "work") -> tuple[AnyCanister, ...]:
    """Returns the turn of a vendor that ends with invocations."""
    return party.answer(WORK[party.name], f"{turn}-{party.name}")


def close(party: Party, turn: str = "closing") -> tuple[AnyCanister, ...]:
    """Returns the turn of a vendor that leaves nothing open."""
    return party.answer(CLOSING[party.name], f"{turn}-{party.name}")


def execute(canisters: tuple[AnyCanister, ...]) -> tuple[AnyCanister, ...]:
    """Returns the results of the invocations among the last canisters: a picture, then an error."""
    calls = [
        canister
        for canister in canisters
        if isinstance(canister, InvocationCanister) and canister.owner is Owner.OURS
    ]
    shown = ImageContent(mime_type="image/png", data=PICTURE)
    return tuple(
        ResultCanister(
            (TextualContent("Rain"), shown) if number == 0 else "No such place",
            invocation_id=call.invocation_id,
            name=call.name,
            is_error=number > 0,
            id=f"{call.id}-result",
            timestamp=BEGIN,
        )
        for number, call in enumerate(calls)
    )


def ask(text: str) -> UserCanister:
    """Returns a word of the user."""
    return UserCanister(text, id=f"asking-{text}", timestamp=BEGIN)


def produce_request(canisters: tuple[AnyCanister, ...], **more: Any) -> Request:
    """Returns a request with all that can be invoked and asked for."""
    fields = {"invocables": INVOCABLES, **more}
    return Request(canisters=canisters, **fields)
