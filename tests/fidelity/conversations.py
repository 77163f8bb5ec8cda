"""A conversation of everything that can be said, and the turns that vendors add to it."""

from __future__ import annotations

from typing import Any, Final

from fidelity.answers import CLOSING, PICTURE, WORK
from fidelity.parties import BEGIN, Party
from vibe_llms.dialects.extras import keep_native
from vibe_llms.foundation.json_types import JsonObject
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

PLACE: Final[JsonObject] = {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"],
    "additionalProperties": False,
}
INVOCABLES: Final = (
    InvocableDescription(name="weather", description="Tells the weather.", schema=PLACE),
    InvocableDescription(name="warn", description="Warns somebody.", schema=PLACE, enforced=True),
    InvocableDescription(name="query", description="Asks a database.", schema=None),
)
OWN_TOOLS: Final[dict[str, JsonObject]] = {
    "messages": {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}]},
    "responses": {"tools": [{"type": "web_search", "search_context_size": "low"}]},
    "chat_completions": {"tools": [{"type": "browser_search", "depth": 1}]},
    "generate_content": {"tools": [{"googleSearch": {"timeRangeFilter": {}}}]},
    "interactions": {"tools": [{"type": "google_search", "search_types": ["web_search"]}]},
    "ollama_chat": {"tools": [{"type": "browser", "depth": 1}]},
    "bedrock": {"toolConfig": {"tools": [{"systemTool": {"name": "nova_grounding"}}]}},
}
"""Tools that their vendors execute themselves, as a client describes them."""
CACHED: Final[dict[str, JsonObject]] = {
    "messages": {"cache_control": {"type": "ephemeral"}},
    "responses": {"prompt_cache_breakpoint": {"mode": "explicit"}},
    "chat_completions": {"cache_control": {"type": "ephemeral"}},
    "generate_content": {"partMetadata": {"hint": "keep"}},
    "interactions": {"processing": {"hint": "keep"}},
}
"""What is said beside a text in a protocol and has no common word, hints for caches above all."""
ASKED: Final[dict[str, JsonObject]] = {
    "messages": {"metadata": {"user_id": "u"}},
    "responses": {"prompt_cache_key": "k"},
    "chat_completions": {"prompt_cache_key": "k"},
    "generate_content": {"cachedContent": "cachedContents/1"},
    "interactions": {"labels": {"team": "weather"}},
    "ollama_chat": {"keep_alive": "5m"},
    "bedrock": {"requestMetadata": {"team": "sea"}},
}
"""What is asked for in a protocol beside the common controls."""
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
    "background": True,
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


def hint(party: Party) -> UserCanister:
    """Returns a word of the user with something beside it that only one protocol knows."""
    native = keep_native(party.protocol, CACHED.get(party.protocol, {}))
    text = TextualContent("Remember this.", native=native)
    return UserCanister((text,), id="hint", timestamp=BEGIN)


def describe_own(party: Party) -> tuple[InvocableDescription, ...]:
    """Returns the tools that a vendor executes itself."""
    normalize = party.dialect.normalize_invocables
    return tuple(normalize(OWN_TOOLS[party.protocol]).value[0])


def converse(party: Party) -> Request:
    """Returns a request with everything of a vendor's in it."""
    turn = work(party)
    return produce_request(
        (ask("Hi"), *turn, *execute(turn), *close(party), hint(party), ask("Go on")),
        invocables=(*INVOCABLES, *describe_own(party)),
        native=keep_native(party.protocol, ASKED[party.protocol]),
    )


def produce_request(canisters: tuple[AnyCanister, ...], **more: Any) -> Request:
    """Returns a request with all that can be invoked and asked for."""
    fields = {"invocables": INVOCABLES, **more}
    return Request(canisters=canisters, **fields)
