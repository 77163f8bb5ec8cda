"""The service of ``perplexity``: where it is, and which models it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.providers.completions import CompletionsVendor
from vibe_llms.providers.remote import RemoteClient

if TYPE_CHECKING:
    from vibe_llms.providers.surveys import SurveyedModel

MODELS = ("sonar", "sonar-pro", "sonar-reasoning-pro", "sonar-deep-research")
"""The vendor has no list to ask for: https://docs.perplexity.ai/getting-started/models."""


_QUIRKS: Final = Quirks(
    fields={"max_tokens": "max_tokens"},
    supervisor_roles=("system",),
    takes_tools=False,
    takes_custom=False,
    takes_refusals=False,
    takes_null=False,
    takes_strict=False,
    media=("image_url", "file_url", "pdf_url", "video_url"),
    file_part="file_url",
    alternates=True,
    stream_options=False,
    maximum_stops=None,
)
"""Perplexity's chat: no tools, and user and assistant take turns.

The types of the PyPI distribution perplexityai 0.46.1; https://docs.perplexity.ai.
"""


class PerplexityVendor(CompletionsVendor):
    """Perplexity."""

    base_url = "https://api.perplexity.ai"
    key_variables: ClassVar[tuple[str, ...]] = ("PERPLEXITY_API_KEY", "PPLX_API_KEY")
    quirks = _QUIRKS

    async def survey(self, client: RemoteClient) -> Sequence[SurveyedModel]:
        """Returns the models by name."""
        from vibe_llms.providers.surveys import SurveyedModel

        return [SurveyedModel(name=name) for name in MODELS]
