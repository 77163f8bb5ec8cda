"""Half a character: legal JSON that stands for no text, as models cut within one bring it."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostility import FACES, produce_body, read_body
from vibe_llms.dialects.decoding import decode_json
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
