"""Names of inline data are detected for servers that reject them."""

from __future__ import annotations

import json

import pytest

from vibe_llms.dialects.generate_content.quirks import Quirks
from vibe_llms.dialects.generate_content.serving.passthrough import touches_quirks

DATA = {"mimeType": "text/plain", "data": "aGk="}


@pytest.mark.parametrize(
    ("part", "is_touched"),
    [
        ({"inlineData": {**DATA, "displayName": "a.txt"}}, True),
        ({"inline_data": {**DATA, "display_name": "a.txt"}}, True),
        ({"inlineData": DATA}, False),
        ({"fileData": {"fileUri": "files/1", "displayName": "a.txt"}}, False),
        ({"text": '"displayName"'}, False),
        (4, False),
    ],
)
def test_named_inline_data_are_detected(part: object, is_touched: bool) -> None:
    body = json.dumps({"contents": [{"parts": [part]}]}).encode()
    assert touches_quirks(body, Quirks(takes_display_names=False)) is is_touched
    assert not touches_quirks(body, Quirks())
