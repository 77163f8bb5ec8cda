"""What a client of Responses asks of a model that speaks another protocol."""

from __future__ import annotations

from typing import Any

import pytest

from fidelity.parties import BY_NAME
from vibe_llms.dialects import responses

ASKED: dict[str, Any] = {"model": "m", "input": "Hello", "max_output_tokens": 9}


@pytest.mark.parametrize("name", ["anthropic", "google", "ollama", "openai"])
@pytest.mark.parametrize(
    "how", [{}, {"stream": True, "stream_options": {"include_obfuscation": False}}]
)
def test_a_plain_request_goes_to_any_vendor_whole(name: str, how: dict[str, Any]) -> None:
    """What it leaves unsaid, and how the answer is to be sent, are no losses."""
    request = responses.normalize_request({**ASKED, **how}).value

    assert BY_NAME[name].nativize(request).losses == ()


def test_what_is_asked_of_the_vendors_store_is_told() -> None:
    """Only what was said is named."""
    request = responses.normalize_request({**ASKED, "store": True}).value

    (loss,) = BY_NAME["google"].nativize(request).losses
    assert str(loss) == "withheld request.native: store: only a vendor of responses can read it"
