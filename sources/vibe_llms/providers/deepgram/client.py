"""The service of ``deepgram``: its address, key and errors."""

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


class DeepgramVendor(CallVendor):
    """Deepgram."""

    base_url = "https://api.deepgram.com"
    versions = ("v1",)
    key_variables = ("DEEPGRAM_API_KEY",)
    request_id_headers = ("dg-request-id", "x-request-id")

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Return the key."""
        return {} if key is None else {"authorization": Secret(f"Token {key.reveal()}")}

    def find_call_format(self, genus: Genus, model: ModelDescriptor) -> CallFormat[Any, Any] | None:
        """Return the call format for speech or for transcription."""
        if genus is Genus.SPEAKER:
            from vibe_llms.dialects.speeches import deepgram as speeches
            from vibe_llms.dialects.speeches import deepgram_live as live_speeches

            live_format = live_speeches.produce_live_format()
            return attrs.evolve(speeches.produce_call_format(), live=live_format)
        if genus is Genus.TRANSCRIBER:
            from vibe_llms.dialects.transcripts import deepgram as transcripts
            from vibe_llms.dialects.transcripts.deepgram_live import produce_live_format

            return attrs.evolve(transcripts.produce_call_format(), live=produce_live_format())
        return None

    def find_message(self, body: JsonObject) -> tuple[Any, Any]:
        """Return the message and the code; two generations of the service name them differently."""
        message = body.get("err_msg") or body.get("message") or body.get("details")
        return message, body.get("err_code") or body.get("category")
