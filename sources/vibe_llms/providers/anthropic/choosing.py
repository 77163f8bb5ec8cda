"""Choice between Anthropic's own service and the clouds that host its models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.specification.models import ProviderContext

if TYPE_CHECKING:
    from vibe_llms.providers.anthropic.client import AnthropicVendor


def produce_vendor(context: ProviderContext) -> AnthropicVendor:
    """Make the vendor: for Vertex AI its own, unless the official package sends the requests."""
    settings = context.settings
    if settings.get("cloud") != "vertex" or settings.get("transport") == "sdk":
        from vibe_llms.providers.anthropic.client import AnthropicVendor

        return AnthropicVendor(context)
    from vibe_llms.providers.anthropic.vertex import AnthropicOnVertex

    return AnthropicOnVertex(context)
