"""A complete answer, without its request, which the client has."""

from __future__ import annotations

import msgspec

from vibe_llms.dialects.converse.versions import VERSION
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Response


def nativize_response(response: Response) -> Translation[JsonObject]:
    """Return the whole body; lossless."""
    canisters = [msgspec.to_builtins(each) for each in response.canisters]
    return Translation({"version": VERSION, "canisters": canisters, **write_ending(response)})


def write_ending(response: Response) -> JsonObject:
    """Return the metadata and losses of an answer."""
    return {
        "metadata": msgspec.to_builtins(response.metadata),
        "losses": [msgspec.to_builtins(each) for each in response.losses],
    }
