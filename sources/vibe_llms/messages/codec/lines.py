"""Canisters as JSON Lines: the hot path, and the way to the detailed one when it fails.

Writing is left to msgspec, which encodes our classes itself, in the order of their fields.
Reading goes through the mirrors; whatever they refuse is read again by the detailed
converter, which is slow and says exactly what is wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from vibe_llms.messages.canisters import CANISTER_CLASSES, AnyCanister
from vibe_llms.messages.codec.canonical import encode_document, explain_unwritable
from vibe_llms.messages.codec.mirrors import access_mirror, reflect_type

_ENCODER = msgspec.json.Encoder()

REFUSALS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""What reading into a mirror and building from it may raise: among others RequestError."""


def encode_canister(canister: AnyCanister) -> bytes:
    """Returns the canister as one line of JSON, without the newline.

    Raises:
        CodecError: A text cannot be written: it holds half of a surrogate pair.
    """
    return encode_document(canister)


def encode_canisters(canisters: Iterable[AnyCanister]) -> bytes:
    """Returns canisters as JSON Lines, each with its newline.

    Raises:
        CodecError: A text cannot be written: it holds half of a surrogate pair.
    """
    several = list(canisters)
    try:
        return _ENCODER.encode_lines(several)
    except UnicodeEncodeError as error:
        raise explain_unwritable(several) from error


def decode_canister(line: bytes | str) -> AnyCanister:
    """Reads one canister. A missing id is derived from what the line says.

    Raises:
        CodecError: The line is not one; names the path and the words known there.
    """
    decoder, builders = _access_reading()
    try:
        mirror = decoder.decode(line)
        return builders[mirror.__class__](mirror)
    except REFUSALS:
        return _decode_in_detail(line)


def decode_canisters(data: bytes) -> list[AnyCanister]:
    """Reads JSON Lines; empty lines are skipped.

    Raises:
        CodecError: A line is not a canister; names the line, counted from 1, and the path.
    """
    decoder, builders = _access_reading()
    try:
        mirrors = decoder.decode_lines(data)
        if len(mirrors) == _count_lines(data):  # it would read two from one line as well
            return [builders[mirror.__class__](mirror) for mirror in mirrors]
    except REFUSALS:
        pass
    return [
        _decode_in_detail(line, place=f"line {number}: ")
        for number, line in enumerate(data.split(b"\n"), 1)
        if line.strip()
    ]


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n"))


@functools.cache
def _access_reading() -> tuple[Any, dict[type, Callable[[Any], AnyCanister]]]:
    mirrors = [access_mirror(cast(type, cls)) for cls in CANISTER_CLASSES.values()]
    decoder = msgspec.json.Decoder(reflect_type(AnyCanister))
    return decoder, {mirror.struct: mirror.build for mirror in mirrors}


def _decode_in_detail(line: bytes | str, place: str = "") -> AnyCanister:
    from vibe_llms.messages.codec.converter import structure

    canister: AnyCanister = structure(line, AnyCanister, place=place)
    return canister
