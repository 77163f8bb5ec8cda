"""The service of ``perplexity``: where it is, and which models it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from vibe_llms.providers.completions import CompletionsVendor
from vibe_llms.providers.perplexity.controls import QUIRKS
from vibe_llms.providers.remote import RemoteClient

if TYPE_CHECKING:
    from vibe_llms.providers.surveys import SurveyedModel

MODELS = ("sonar", "sonar-pro", "sonar-reasoning-pro", "sonar-deep-research")
"""The vendor has no list to ask for: https://docs.perplexity.ai/getting-started/models."""


class PerplexityVendor(CompletionsVendor):
    """Perplexity."""

    base_url = "https://api.perplexity.ai"
    key_variables: ClassVar[tuple[str, ...]] = ("PERPLEXITY_API_KEY", "PPLX_API_KEY")
    quirks = QUIRKS

    async def survey(self, client: RemoteClient) -> Sequence[SurveyedModel]:
        """Returns the models by name."""
        from vibe_llms.providers.surveys import SurveyedModel

        return [SurveyedModel(name=name) for name in MODELS]
