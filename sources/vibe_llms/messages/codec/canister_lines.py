"""Canisters as JSON Lines.

msgspec encodes our classes directly, in the order of their fields.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.messages.codec.decoding import read_json
from vibe_llms.messages.codec.mirrors import REFUSALS, access_mirror

_ENCODER = msgspec.json.Encoder()


def encode_canister(canister: AnyCanister) -> bytes:
    """Return the canister as one line of JSON, without the newline."""
    return encode_document(canister)


def encode_canisters(canisters: Iterable[AnyCanister]) -> bytes:
    """Return canisters as JSON Lines, each with its newline."""
    # Cannot fail: canisters are validated, so that JSON can represent every text in them.
    return _ENCODER.encode_lines(list(canisters))


def decode_canister(line: bytes | str) -> AnyCanister:
    """Decode one canister. A missing id is derived from the line.

    Raises:
        CodecError: The line is not a canister; the error has the path and the known names.
    """
    canister: AnyCanister = read_json(line, AnyCanister)
    return canister


def decode_canisters(data: bytes) -> list[AnyCanister]:
    """Decode JSON Lines; skip empty lines.

    Raises:
        CodecError: A line is not a canister; the error has the line, counted from 1, and the path.
    """
    mirror = access_mirror(AnyCanister)
    try:
        mirrors = mirror.decoder.decode_lines(data)
        if len(mirrors) == _count_lines(data):  # decode_lines accepts two in one line
            return [mirror.build(each) for each in mirrors]
    except REFUSALS:
        pass
    return [
        read_json(line, AnyCanister, f"line {number}: ")
        for number, line in enumerate(data.split(b"\n"), 1)
        if line.strip()
    ]


def _count_lines(data: bytes) -> int:
    line_breaks = data.count(b"\n")
    return line_breaks if data.endswith(b"\n") else line_breaks + 1
