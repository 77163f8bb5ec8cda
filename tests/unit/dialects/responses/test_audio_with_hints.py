"""Audio before a cache hint: the hint does not make the vendor accept it."""

from __future__ import annotations

import json

from vibe_llms.dialects.responses import Quirks, nativize_request
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.contents import AudioContent, CacheHint
from vibe_llms.messages.requests import Request
from vibe_llms.models.integrators import ModelsIntegrator


def test_a_cache_hint_does_not_make_audio_acceptable() -> None:
    """Both are left out, and both are told."""
    attributes = ModelsIntegrator(provider="openai_responses").integrate("gpt-5.5", facts={})
    audio = AudioContent(mime_type="audio/wav", data=b"data")
    request = Request(canisters=[UserCanister([audio, CacheHint()])], lenient=True)

    written = nativize_request(request, attributes, Quirks(), provider="openai_responses")

    assert "input_audio" not in json.dumps(written.value)
    assert {loss.path for loss in written.losses} == {
        "canisters[0].content[0]",
        "canisters[0].content[1]",
    }
