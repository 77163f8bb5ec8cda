"""A plain request of a client has no losses in any protocol, so strict ones are answered."""

from __future__ import annotations

from typing import Any

import pytest

from fidelity.parties import BY_NAME, PARTIES, Party

_CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
REQUESTS: dict[str, dict[str, Any]] = {
    "openai": {**_CHAT, "stream_options": {"include_usage": True}, "n": 1, "max_tokens": 9},
    "openai_responses": {"model": "m", "input": "Hi", "stream": True, "max_output_tokens": 9},
    "anthropic": {**_CHAT, "max_tokens": 9},
    "google": {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "generationConfig": {"maxOutputTokens": 9},
    },
    "ollama": {**_CHAT, "think": True, "options": {"num_predict": 9}},
}


@pytest.mark.parametrize("party", PARTIES, ids=lambda party: party.name)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_plain_request_has_no_losses(name: str, party: Party) -> None:
    """Fields about the form of the answer, defaults, and missing fields are no losses."""
    read = BY_NAME[name].dialect.normalize_request(REQUESTS[name])

    nativize = party.dialect.nativize_request
    written = nativize(read.value, party.attributes, party.quirks, streaming=True)

    assert [*read.losses, *written.losses] == []
