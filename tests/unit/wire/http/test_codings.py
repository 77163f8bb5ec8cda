"""Unpacking bodies, however they come, and in bounds."""

from __future__ import annotations

import contextlib
import gzip
import random
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from vibe_llms.wire.http.codings import Decompressor, choose_decompressor
from vibe_llms.wire.http.faults import BodyBroken, UnknownCoding


def pack_bare(data: bytes) -> bytes:
    """Packs without a frame, as some servers do."""
    packing = zlib.compressobj(wbits=-15)
    return packing.compress(data) + packing.flush()


PACKERS = {
    "gzip": [gzip.compress, lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])],
    "deflate": [zlib.compress, pack_bare],
}
KINDS = [(coding, packer) for coding, packers in PACKERS.items() for packer in packers]


def unpack(coding: str, pieces: list[bytes]) -> bytes:
    """Unpacks all pieces; raises BodyBroken where they are damaged, or too few."""
    unpacker = choose_decompressor(coding)
    assert unpacker is not None
    data = b""
    for piece in pieces:
        unpacker.feed(piece)
        data += unpacker.read()
        while unpacker.has_more:
            data += unpacker.read()
    if fault := unpacker.find_fault():
        raise fault
    return data


@examples(200)
@given(st.binary(max_size=400), st.sampled_from(KINDS), st.integers(1, 50))
def test_what_was_packed_is_unpacked_however_it_is_cut(data, kind, size) -> None:  # type: ignore[no-untyped-def]
    """Each way, in its frame or without, in one part or two."""
    coding, pack = kind
    packed = pack(data)

    assert unpack(coding, [packed]) == data
    assert unpack(coding, [packed[at : at + size] for at in range(0, len(packed), size)]) == data


@pytest.mark.parametrize("size", [262_143, 262_144, 262_145, 1_000_000])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_nothing_is_lost_where_a_piece_is_full(coding: str, size: int) -> None:
    """What zlib holds back comes with the next piece."""
    data = random.Random(0).randbytes(size // 2) + bytes(size - size // 2)

    assert unpack(coding, [PACKERS[coding][0](data)]) == data


@pytest.mark.slow
def test_what_can_be_unpacked_waits_for_nothing() -> None:
    """Wherever a piece ends, all that it unpacks to is given before the next."""
    packed = zlib.compress(bytes(1_000_000))
    for end in range(len(packed)):
        unpacker = Decompressor("deflate")
        unpacker.feed(packed[:end])
        size = len(unpacker.read())
        while unpacker.has_more:
            size += len(unpacker.read())
        assert size == len(zlib.decompressobj().decompress(packed[:end]))


@examples(200)
@given(st.binary(min_size=1, max_size=400), st.sampled_from(KINDS), st.integers(0, 2_000))
def test_what_is_cut_short_is_broken(data, kind, end) -> None:  # type: ignore[no-untyped-def]
    """It is never taken for whole; but a part that gzip may have more of can be."""
    coding, pack = kind
    packed = pack(data)
    end %= len(packed)
    if not end:
        return
    try:
        got = unpack(coding, [packed[:end]])
    except BodyBroken:
        return

    assert got == data[:9]


@examples(200)
@given(st.binary(max_size=200), st.sampled_from(["gzip", "deflate"]))
def test_no_bytes_do_more_than_break(data: bytes, coding: str) -> None:
    """Whatever they are."""
    with contextlib.suppress(BodyBroken):
        unpack(coding, [data])


def test_nothing_at_all_is_nothing() -> None:
    """As the body of an answer that has none, and says how it would be packed."""
    assert unpack("gzip", []) == b""


def test_what_follows_the_end_means_nothing() -> None:
    """Zeros, or rubbish, as some servers add."""
    assert unpack("gzip", [gzip.compress(b"x") + b"\0\0rubbish"]) == b"x"
    assert unpack("deflate", [zlib.compress(b"x") + b"rubbish", b"more"]) == b"x"


@pytest.mark.slow
def test_a_bomb_comes_in_pieces() -> None:
    """Of a bounded size, so that whoever reads can stop."""
    bomb = gzip.compress(bytes(100_000_000))
    unpacker = Decompressor("gzip")
    tracemalloc.start()
    try:
        unpacker.feed(bomb)
        pieces = [len(unpacker.read()) for _ in range(20)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert max(pieces) <= 262_144
    assert peak < 2_000_000


def test_a_way_that_was_not_asked_for_is_told_by_its_name() -> None:
    """A word that says nothing of packing is passed by, as it always was."""
    with pytest.raises(UnknownCoding) as caught:
        choose_decompressor(" BR")

    assert caught.value.name == "br"
    assert choose_decompressor("identity") is None
    assert choose_decompressor("utf-8") is None
