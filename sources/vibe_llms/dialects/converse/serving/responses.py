"""A whole answer, without the request that it answers: who asked has that."""

from __future__ import annotations

import msgspec

from vibe_llms.dialects.converse.versions import VERSION
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Response


def nativize_response(response: Response) -> Translation[JsonObject]:
    """Returns the whole body; nothing is lost."""
    canisters = [msgspec.to_builtins(each) for each in response.canisters]
    return Translation({"version": VERSION, "canisters": canisters, **write_ending(response)})


def write_ending(response: Response) -> JsonObject:
    """Returns how an answer came to be."""
    return {
        "metadata": msgspec.to_builtins(response.metadata),
        "losses": [msgspec.to_builtins(each) for each in response.losses],
    }
