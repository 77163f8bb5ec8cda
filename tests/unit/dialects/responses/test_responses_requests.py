"""Requests of clients of Responses to models that use another protocol."""

from __future__ import annotations

from typing import Any

import pytest

from fidelity.parties import BY_NAME
from vibe_llms.dialects import responses

REQUEST: dict[str, Any] = {"model": "m", "input": "Hello", "max_output_tokens": 9}


@pytest.mark.parametrize("name", ["anthropic", "google", "ollama", "openai"])
@pytest.mark.parametrize(
    "how", [{}, {"stream": True, "stream_options": {"include_obfuscation": False}}]
)
def test_a_plain_request_is_sent_to_any_vendor_without_losses(
    name: str, how: dict[str, Any]
) -> None:
    """Missing fields, and fields about the form of the answer, are no losses."""
    request = responses.normalize_request({**REQUEST, **how}).value

    assert BY_NAME[name].nativize(request).losses == ()


def test_fields_about_stored_items_are_reported() -> None:
    """Only those that the client sent."""
    request = responses.normalize_request({**REQUEST, "store": True}).value

    (loss,) = BY_NAME["google"].nativize(request).losses
    assert str(loss) == "withheld request.native: store: only a vendor of responses can read it"
