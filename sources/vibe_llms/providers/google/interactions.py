"""The Gemini API by its Interactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.dialects import interactions
from vibe_llms.dialects.backgrounds import BackgroundFormat
from vibe_llms.dialects.interactions.calling.background import produce_background
from vibe_llms.dialects.interactions.quirks import Quirks
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.secrets import Secret
from vibe_llms.providers.google.client import GoogleVendor
from vibe_llms.providers.interfaces import ModelDescriptor, Processors
from vibe_llms.providers.vendors import Vendor, VendorClient

_REVISION: Final = "2026-05-20"
"""Revision of the protocol, as in the package google-genai 3.6."""


class InteractionsVendor(GoogleVendor):
    """The Gemini API by its Interactions; it does not count the tokens of this protocol."""

    dialect = interactions
    count_field = ""
    caches_prefixes = False
    quirks = Quirks(
        shows_thoughts=True,
        siblings=(("google", "generate_content"), ("google_interactions", "interactions")),
    )

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Return the path of the method that answers."""
        return f"{self.compose_root()}/interactions"

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Return the key, and the revision of the protocol."""
        return {**super().compose_headers(key, native), "api-revision": _REVISION}

    def produce_processors(self, client: VendorClient) -> Processors:
        """Make the dialect's processors, which estimate tokens."""
        return Vendor.produce_processors(self, client)

    @property
    def background(self) -> BackgroundFormat:  # type: ignore[override]  # depends on the version
        """The requests about interactions in the background."""
        return produce_background(self.compose_root())
