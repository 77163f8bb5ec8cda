"""Signatures are found in whatever pieces they come, and where they came from is remembered."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.gateway.routing.signatures import (
    SignatureOrigins,
    SignatureReader,
    find_signatures,
)

WORDS = ("signature", "encrypted_content", "thoughtSignature", "previous_response_id", "file_id")
NAMES = st.sampled_from([*WORDS, "content", "text"])
PLAIN = st.recursive(
    st.text(max_size=9) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


def collect(value: object) -> list[str]:
    """Finds the same in data."""
    if isinstance(value, list):
        return [each for part in value for each in collect(part)]
    if not isinstance(value, dict):
        return []
    found = []
    for name, part in value.items():
        found += [part] if name in WORDS and isinstance(part, str) and part else collect(part)
    return found


@given(PLAIN, st.booleans())
def test_the_seals_of_a_request_are_found_however_it_is_written(
    value: object, is_ascii: bool
) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    expected = [json.dumps({"signature": each}, ensure_ascii=False) for each in collect(value)]
    wanted = [find_signatures(each.encode("utf-8", "surrogatepass"))[0] for each in expected]
    assert find_signatures(data) == wanted


@given(st.lists(PLAIN, max_size=4), st.integers(1, 9))
def test_an_answer_may_come_in_any_pieces(values: list[object], size: int) -> None:
    data = b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)
    found: list[bytes] = []
    reader = SignatureReader(found.append)
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    reader.finish()
    assert found == find_signatures(data)


def test_a_text_about_signatures_has_none() -> None:
    text = json.dumps({"content": 'Set "signature": "abc" there.'}).encode()
    assert find_signatures(text) == []


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["a", "b"])), max_size=40))
def test_the_last_ones_are_remembered(kept: list[tuple[int, str]]) -> None:
    signatures = SignatureOrigins(count=4)
    known: dict[bytes, str] = {}
    for number, provider in kept:
        name = b"%d" % number
        signatures.add(name, provider)
        known.pop(name, None)
        known[name] = provider
        if len(known) > 4:
            del known[next(iter(known))]
        for other in range(10):
            assert signatures.find_origin([b"%d" % other]) == known.get(b"%d" % other)
