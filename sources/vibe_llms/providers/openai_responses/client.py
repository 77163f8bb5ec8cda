"""The service of ``openai_responses``: where it is, how it is asked, and which models it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.dialects import responses
from vibe_llms.dialects.responses.quirks import Quirks
from vibe_llms.providers.interfaces import ModelDescriptor, Processors
from vibe_llms.providers.openai_responses.tokenizer import OpenAIResponsesTokenizer
from vibe_llms.providers.openai_service import SIBLINGS, OpenAIService
from vibe_llms.providers.remote import RemoteClient

if TYPE_CHECKING:
    from vibe_llms.providers.surveys import SurveyedModel


class OpenAIResponsesVendor(OpenAIService):
    """OpenAI's service, and those that answer like it."""

    dialect = responses
    # Instructions have the role that newer models know.
    quirks = Quirks(supervisor_role="developer", siblings=SIBLINGS)

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Returns the path of the method that answers."""
        return "/responses"

    def produce_processors(self, client: RemoteClient) -> Processors:
        """Makes the dialect's processors, with a tokenizer that lets the vendor count."""
        processors = super().produce_processors(client)
        return attrs.evolve(processors, tokenizer=OpenAIResponsesTokenizer(client))

    async def survey(self, client: RemoteClient) -> Sequence[SurveyedModel]:
        """Asks for the names of the models; of what they can do the list says nothing.

        Raises:
            ConverseError: It cannot be asked.
        """
        from vibe_llms.providers.surveys import SurveyedModel

        page: Any = await client.request_json("GET", "/models")
        models = page.get("data") if isinstance(page, Mapping) else None
        return [SurveyedModel(name=str(each["id"])) for each in models or () if each.get("id")]
