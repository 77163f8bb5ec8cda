"""Canisters as JSON Lines.

Writing is left to msgspec, which encodes our classes itself, in the order of their fields.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.messages.codec.mirrors import access_mirror
from vibe_llms.messages.codec.reading import REFUSALS, read_json

_ENCODER = msgspec.json.Encoder()


def encode_canister(canister: AnyCanister) -> bytes:
    """Returns the canister as one line of JSON, without the newline."""
    return encode_document(canister)


def encode_canisters(canisters: Iterable[AnyCanister]) -> bytes:
    """Returns canisters as JSON Lines, each with its newline."""
    # No text in them is half of a surrogate pair, nor anything else that JSON cannot say: what
    # is a canister can be written.
    return _ENCODER.encode_lines(list(canisters))


def decode_canister(line: bytes | str) -> AnyCanister:
    """Reads one canister. A missing id is derived from what the line says.

    Raises:
        CodecError: The line is not one; names the path and the words known there.
    """
    canister: AnyCanister = read_json(line, AnyCanister)
    return canister


def decode_canisters(data: bytes) -> list[AnyCanister]:
    """Reads JSON Lines; empty lines are skipped.

    Raises:
        CodecError: A line is not a canister; names the line, counted from 1, and the path.
    """
    mirror = access_mirror(AnyCanister)
    try:
        mirrors = mirror.decoder.decode_lines(data)
        if len(mirrors) == _count_lines(data):  # it would read two from one line as well
            return [mirror.build(each) for each in mirrors]
    except REFUSALS:
        pass
    return [
        read_json(line, AnyCanister, f"line {number}: ")
        for number, line in enumerate(data.split(b"\n"), 1)
        if line.strip()
    ]


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n"))
