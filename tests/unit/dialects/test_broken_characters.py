"""Half a character: legal JSON that stands for no text, as models cut within one bring it."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostility import FACES, produce_body, produce_decoder, produce_streams, read_body
from vibe_llms.dialects.decoding import decode_json
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.views import text_of
from vibe_llms.testing.simulator.scripts import Say

codes = st.integers(0, 0xFFFF).map(chr) | st.sampled_from(["\ud83d", "\ude00", "\\", '"', "u"])


@given(st.lists(codes, max_size=8).map("".join))
def test_halves_are_replaced_and_nothing_else(text: str) -> None:
    """Characters in two halves stay whole, escaped backslashes are none, the loss is told."""
    value, losses = decode_json(json.dumps({"a": text}).encode())

    mended = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in _join(text))
    assert value == {"a": mended}
    assert bool(losses) is (mended != _join(text))


def _join(text: str) -> str:
    """Returns the text with characters in two halves as one."""
    return json.loads(json.dumps(text))  # type: ignore[no-any-return]


@pytest.mark.parametrize("data", [b"{", b'{"a": "\\ud83d"', b'"\\x"'])
def test_what_is_no_json_is_none_still(data: bytes) -> None:
    """Mending is for halves alone."""
    with pytest.raises(msgspec.DecodeError):
        decode_json(data)


@pytest.mark.parametrize("protocol", sorted(FACES))
def test_a_response_with_half_a_character_is_read(protocol: str) -> None:
    """In every dialect, with the loss that it is."""
    body = produce_body(protocol, Say("cut here")).replace(b"cut here", b"cut \\ud83d")

    response = read_body(protocol, body)

    assert "".join(text_of(canister) for canister in response.canisters) == "cut \ufffd"
    kinds = [loss.kind for loss in response.losses if "half" in loss.reason]
    assert kinds == [LossKind.COERCED]


@pytest.mark.parametrize("protocol", sorted(FACES))
def test_bytes_that_are_no_utf_8_are_an_error_that_says_so(protocol: str) -> None:
    """In whatever is read of a stream, also in the middle of a text, and in a whole response."""
    refused = 0
    for frames in produce_streams(protocol):
        for number, (data, event) in enumerate(frames):
            for broken in _break_values(data):
                decoder = produce_decoder(protocol)
                for earlier in frames[:number]:
                    decoder.decode(*earlier)
                refused += _is_refused(decoder, broken, event)
    assert refused > 20
    body = produce_body(protocol, Say("cut here")).replace(b"cut", b"c\xfft")
    with pytest.raises(ConverseError, match="utf-8"):
        produce_decoder(protocol).decode_response(body)


def _is_refused(decoder: Any, data: bytes, event: str) -> bool:
    """Tells whether an event is an error of ours; what is never read may be anything."""
    try:
        decoder.decode(data, event)
    except ConverseError:
        return True
    return False


def _break_values(data: bytes) -> list[bytes]:
    """Returns the event with two bytes that are no UTF-8 in each text of its JSON, in turn."""
    places = [found.end() for found in re.finditer(rb'":"(?=[A-Za-z])', data)]
    return [data[:place] + b"\xff\xfe" + data[place:] for place in places]
