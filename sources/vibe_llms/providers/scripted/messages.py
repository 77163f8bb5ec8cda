"""Messages of ``scripted``: canisters in their stored form, one JSON line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec.lines import decode_canister, encode_canister
from vibe_llms.messages.requests import Request
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import ModelDescriptor, Translation


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
