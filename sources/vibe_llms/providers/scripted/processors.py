"""Processors of ``scripted``: controls, descriptions and canisters as plain data, lossless."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import attrs

from vibe_llms.dialects.processors import FunctionProcessor, Processors
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec.canister_lines import decode_canister, encode_canister
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of
from vibe_llms.models.controls import check_controls
from vibe_llms.providers.interfaces import ModelDescriptor, TokenCount, Translation

_WORD = re.compile(r"\w+|[^\w\s]")


def _write_controls(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
    """Return ``{"controls": …}``, the values unchanged. Raises ControlError."""
    checked = check_controls(request.controls, model.attributes.controls)
    return Translation({"controls": checked})


def _read_controls(native: JsonObject, _: object) -> Translation[Mapping[str, JsonValue]]:
    return Translation(cast(Mapping[str, JsonValue], native["controls"]))


def _write_messages(request: Request, _: object) -> Translation[JsonObject]:
    """Return ``{"messages": [line, …]}``; lossless."""
    lines = [encode_canister(canister).decode("utf-8") for canister in request.canisters]
    return Translation({"messages": lines})


def _read_messages(native: JsonObject, _: object) -> Translation[tuple[AnyCanister, ...]]:
    """Read the lines back. Raises CodecError."""
    return Translation(tuple(map(decode_canister, cast(Sequence[str], native["messages"]))))


def _write_invocables(request: Request, _: object) -> Translation[JsonObject]:
    """Return ``{"invocables": […], "choice": …}``; lossless."""
    described = [attrs.asdict(invocable, recurse=False) for invocable in request.invocables]
    return Translation({"invocables": described, "choice": request.invocation_choice})


def _read_invocables(
    native: JsonObject, _: object
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Read the invocables back. Raises RequestError for one without a description."""
    described = cast(Sequence[Mapping[str, Any]], native["invocables"])
    invocables = tuple(InvocableDescription(**fields) for fields in described)
    return Translation((invocables, str(native["choice"])))


class ScriptedTokenizer:
    """Counts words and punctuation marks: exact, and easy to verify by hand."""

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Count the words of a text."""
        return TokenCount(tokens=len(_WORD.findall(text)))

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Count the words of all canisters; there is no overhead."""
        return await self.count_text(text_of(request.canisters), model)


PROCESSORS: Final = Processors(
    controls=FunctionProcessor(_write_controls, _read_controls),
    messages=FunctionProcessor(_write_messages, _read_messages),
    invocations=FunctionProcessor(_write_invocables, _read_invocables),
    tokenizer=ScriptedTokenizer(),
)
