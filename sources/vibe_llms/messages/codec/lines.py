"""One canister a line."""

from __future__ import annotations

from collections.abc import Iterable

from vibe_llms.messages.canisters import AnyCanister


def encode_canister(canister: AnyCanister) -> bytes:
    """Returns the canister as one line of JSON, without the newline."""
    raise NotImplementedError


def encode_canisters(canisters: Iterable[AnyCanister]) -> bytes:
    """Returns canisters as JSON Lines, each line with its newline."""
    raise NotImplementedError


def decode_canister(line: bytes | str) -> AnyCanister:
    """Reads one line. Raises CodecError."""
    raise NotImplementedError


def decode_canisters(data: bytes) -> list[AnyCanister]:
    """Reads JSON Lines. Raises CodecError."""
    raise NotImplementedError
