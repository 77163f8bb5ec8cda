"""The parts of the simulator without a network: signatures, made-up JSON, conditions, frames."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.testing.simulator import FAULTS, QUIRKS
from vibe_llms.testing.simulator.behaviour import fabricate, produce_png
from vibe_llms.testing.simulator.delivery import encode_chunk
from vibe_llms.testing.simulator.faults import read_conditions
from vibe_llms.testing.simulator.prompts import measure_picture
from vibe_llms.testing.simulator.signatures import canonicalize, is_intact, sign

LEAVES = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.integers(-9, 9).map(lambda low: {"type": "integer", "minimum": low}),
    st.integers(-9, 9).map(lambda high: {"type": "number", "maximum": high}),
    st.integers(0, 9).map(lambda least: {"type": "string", "minLength": least}),
    st.lists(st.text(), min_size=1, max_size=3).map(lambda words: {"enum": words}),
    st.just({"type": ["string", "null"]}),
)


def _nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(st.text(min_size=1, max_size=3), inner, max_size=3).map(
        lambda properties: {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    )
    arrays = st.tuples(inner, st.integers(0, 2)).map(
        lambda pair: {"type": "array", "items": pair[0], "minItems": pair[1]}
    )
    unions = st.lists(inner, min_size=1, max_size=2).map(lambda members: {"anyOf": members})
    return st.one_of(objects, arrays, unions)


@given(schema=st.recursive(LEAVES, _nest, max_leaves=8))
def test_what_is_fabricated_fits_its_schema(schema: dict[str, Any]) -> None:
    """The validator of JSON Schema agrees."""
    jsonschema.validate(fabricate(schema), schema)


def test_references_are_followed_and_recursion_ends() -> None:
    """A schema that contains itself has a finite example."""
    node = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
        "required": ["next"],
    }
    schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}
    jsonschema.validate(fabricate(schema), schema)
    merged = {"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}]}
    assert fabricate(merged) == {"a": 7}


@given(text=st.text(), prefix=st.text(), other=st.text(), embeds_text=st.booleans())
def test_a_signature_holds_for_its_text_and_prefix_alone(
    text: str, prefix: str, other: str, embeds_text: bool
) -> None:
    """Another text, another kind, or another prefix where it is bound, are found out."""
    signed = sign(text, kind="a", prefix=prefix, embeds_text=embeds_text)
    shown = None if embeds_text else text
    assert is_intact(signed, shown, kind="a")
    assert is_intact(signed, shown, kind="a", prefix=prefix)
    assert not is_intact(signed, shown, kind="b")
    assert is_intact(signed, other, kind="a") is (other == text)
    assert is_intact(signed, shown, kind="a", prefix=other) is (other == prefix)


@given(place=st.integers(0, 31), change=st.integers(1, 255))
def test_a_signature_with_one_changed_byte_is_none(place: int, change: int) -> None:
    """Whichever byte it is, bound to a prefix or not; what is no base64 is none either."""
    payload = bytearray(base64.b64decode(sign("text", kind="a", prefix="before")))
    payload[place] ^= change
    changed = base64.b64encode(bytes(payload)).decode()
    assert not is_intact(changed, "text", kind="a", prefix="before")
    assert not is_intact("no base64!", "text", kind="a")


def test_marks_for_caches_and_short_forms_do_not_change_a_prefix() -> None:
    """What means the same is the same."""
    marked = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    short = canonicalize([{"role": "user", "content": "x"}])
    assert canonicalize([{"content": [marked], "role": "user"}]) == short
    assert canonicalize([{"role": "user", "content": "y"}]) != short


@given(names=st.lists(st.sampled_from(sorted({**FAULTS, **QUIRKS})), unique=True))
def test_conditions_are_read_as_they_are_written(names: list[str]) -> None:
    """Names with and without numbers, in any order."""
    written = ", ".join(f"{name}={place}" for place, name in enumerate(names))
    conditions = read_conditions(written)
    assert [conditions.count(name, -1) for name in names] == list(range(len(names)))
    assert all(name in read_conditions(",".join(names)) for name in names)


def test_unknown_conditions_are_refused() -> None:
    """A name that is misspelt does not silently do nothing."""
    with pytest.raises(ValueError, match="fault or quirk 'stal'"):
        read_conditions("stal=1")
    with pytest.raises(ValueError, match="invalid literal"):
        read_conditions("slow=soon")


@given(width=st.integers(1, 40), height=st.integers(1, 40))
def test_pictures_have_the_size_that_was_asked_for(width: int, height: int) -> None:
    """What draws and what looks agree."""
    assert measure_picture(produce_png(width, height)) == (width, height)


@given(data=st.binary(max_size=200))
def test_events_for_amazon_are_framed_with_their_checksums(data: bytes) -> None:
    """Lengths, both checksums and the payload are where the format has them."""
    message = encode_chunk(data)
    total, headers, checksum = struct.unpack(">III", message[:12])
    assert (total, checksum) == (len(message), zlib.crc32(message[:8]))
    assert zlib.crc32(message[:-4]) == struct.unpack(">I", message[-4:])[0]
    payload = json.loads(message[12 + headers : -4])
    assert base64.b64decode(payload["bytes"]) == data
    assert b":event-type\x07\x00\x05chunk" in message[12 : 12 + headers]


@pytest.mark.parametrize(
    ("bounds", "least", "above"),
    [
        ({"minimum": 3, "exclusiveMinimum": True}, 3.1, None),
        ({"exclusiveMinimum": 9}, 9.1, None),
        ({"maximum": 7, "exclusiveMaximum": True}, None, 7),
        ({"exclusiveMaximum": 5}, None, 5),
        ({"exclusiveMaximum": True}, 7, 8),
        ({"exclusiveMinimum": True}, 7, 8),
    ],
)
def test_exclusive_bounds_of_numbers_hold(
    bounds: dict[str, Any], least: float | None, above: float | None
) -> None:
    """Also in draft 4 of JSON Schema, where they are booleans beside the bound."""
    number = fabricate({"type": "integer", **bounds})
    assert isinstance(number, int)
    assert least is None or number >= least
    assert above is None or number < above
