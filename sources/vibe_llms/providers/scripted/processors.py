"""What ``scripted`` writes: our own words, descriptions and canisters, one JSON line each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import attrs

from vibe_llms.dialects.processors import Processors
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec.lines import decode_canister, encode_canister
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of
from vibe_llms.models.controls import check_controls
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.providers.interfaces import ModelDescriptor, TokenCount, Translation

_WORD = re.compile(r"\w+|[^\w\s]")


class ScriptedControlsProcessor:
    """Checks the values; a script does not mind them."""

    def nativize(self, request: Request, model: ModelDescriptor, /) -> Translation[JsonObject]:
        """Returns ``{"controls": …}``, the values as they are. Raises ControlError."""
        checked = check_controls(request.controls, model.attributes.controls)
        return Translation({"controls": checked})

    def normalize(
        self, native: JsonObject, model: ModelDescriptor, /
    ) -> Translation[Mapping[str, JsonValue]]:
        """Returns the values as they are."""
        return Translation(cast(Mapping[str, JsonValue], native["controls"]))


class ScriptedMessagesProcessor:
    """Writes canisters down and reads them back; nothing can be lost."""

    def nativize(self, request: Request, model: ModelDescriptor, /) -> Translation[JsonObject]:
        """Returns ``{"messages": [line, …]}``."""
        lines = [encode_canister(canister).decode("utf-8") for canister in request.canisters]
        return Translation({"messages": lines})

    def normalize(
        self, native: JsonObject, model: ModelDescriptor, /
    ) -> Translation[tuple[AnyCanister, ...]]:
        """Reads the lines back. Raises CodecError."""
        lines = cast(Sequence[str], native["messages"])
        return Translation(tuple(decode_canister(line) for line in lines))


class ScriptedInvocationsProcessor:
    """Writes descriptions down and reads them back; nothing can be lost."""

    def nativize(self, request: Request, model: ModelDescriptor, /) -> Translation[JsonObject]:
        """Returns ``{"invocables": […], "choice": …}``."""
        described = [attrs.asdict(invocable, recurse=False) for invocable in request.invocables]
        return Translation({"invocables": described, "choice": request.invocation_choice})

    def normalize(
        self, native: JsonObject, model: ModelDescriptor, /
    ) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
        """Reads them back. Raises RequestError for one without a description."""
        described = cast(Sequence[Mapping[str, Any]], native["invocables"])
        invocables = tuple(InvocableDescription(**fields) for fields in described)
        return Translation((invocables, str(native["choice"])))


class ScriptedTokenizer:
    """Counts words and marks of punctuation: exactly, and a reader can count along."""

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Counts the words of a text."""
        return TokenCount(tokens=len(_WORD.findall(text)))

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Counts the words of all canisters; there is no overhead."""
        return await self.count_text(text_of(request.canisters), model)


PROCESSORS: Final = Processors(
    controls=ScriptedControlsProcessor(),
    messages=ScriptedMessagesProcessor(),
    invocations=ScriptedInvocationsProcessor(),
    tokenizer=ScriptedTokenizer(),
)
