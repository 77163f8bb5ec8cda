"""Choice between the Gemini API, by either of its protocols, and Vertex AI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.specification.models import ProviderContext

if TYPE_CHECKING:
    from vibe_llms.providers.google.client import GoogleVendor


def produce_vendor(context: ProviderContext) -> GoogleVendor:
    """Make the vendor: Vertex AI if the settings name a project or a cloud, else the Gemini API."""
    if context.settings.get("protocol") == "interactions" and "cloud" not in context.settings:
        from vibe_llms.providers.google.interactions import InteractionsVendor

        return InteractionsVendor(context)
    if "project" not in context.settings and "cloud" not in context.settings:
        from vibe_llms.providers.google.client import GoogleVendor

        return GoogleVendor(context)
    from vibe_llms.providers.google.vertex import VertexVendor

    return VertexVendor(context)
