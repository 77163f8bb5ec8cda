"""Ids for canisters that were written without one, by hand for the most part."""

from __future__ import annotations

import hashlib
from base64 import b32encode
from typing import TypeVar

import attrs
import msgspec

from vibe_llms.messages.canisters import AnyCanister

_Canister = TypeVar("_Canister", bound=AnyCanister)


def identify(canister: _Canister) -> _Canister:
    """Gives the canister an id that follows from what it holds: read twice, it is the same.

    Args:
        canister: Its present id is no part of what the new one is derived from.
    """
    nameless = attrs.evolve(canister, id="")
    summary = hashlib.sha256(msgspec.json.encode(nameless)).digest()
    return attrs.evolve(canister, id=b32encode(summary[:10]).decode("ascii").lower())
