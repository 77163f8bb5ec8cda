"""The service of ``elevenlabs``: its address, key and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.secrets import Secret
from vibe_llms.models.genera import Genus
from vibe_llms.providers.call_vendors import CallVendor
from vibe_llms.providers.interfaces import ModelDescriptor

if TYPE_CHECKING:
    from vibe_llms.dialects.calls import CallFormat


class ElevenLabsVendor(CallVendor):
    """ElevenLabs."""

    base_url = "https://api.elevenlabs.io"
    versions = ("v1",)
    key_variables = ("ELEVENLABS_API_KEY", "ELEVEN_API_KEY")
    request_id_headers = ("request-id", "x-request-id")

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Return the key."""
        return {} if key is None else {"xi-api-key": key}

    def find_call_format(self, genus: Genus, model: ModelDescriptor) -> CallFormat[Any, Any] | None:
        """Return the call format for speech or for transcription."""
        if genus is Genus.SPEAKER:
            from vibe_llms.dialects.speeches import elevenlabs as speeches
            from vibe_llms.dialects.speeches import elevenlabs_live as live_speeches

            live_format = live_speeches.produce_live_format()
            return attrs.evolve(speeches.produce_call_format(), live=live_format)
        if genus is Genus.TRANSCRIBER:
            from vibe_llms.dialects.transcripts import elevenlabs as transcripts

            return transcripts.produce_call_format()
        return None

    def find_message(self, body: JsonObject) -> tuple[Any, Any]:
        """Return the message and the code: an error is an object, or a list of invalid fields."""
        detail: Any = body.get("detail")
        if isinstance(detail, list):
            messages = [each.get("msg") for each in detail if isinstance(each, Mapping)]
            return "; ".join(map(str, messages)), "invalid_request_error"
        if isinstance(detail, Mapping):
            return detail.get("message"), detail.get("status")
        return detail, None
