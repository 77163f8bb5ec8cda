"""The service of ``openai_responses``: where it is, how it is asked, and which models it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vibe_llms.dialects.responses import PROTOCOL, Decoder, nativize_request
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.requests import Request
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import ModelDescriptor, Translation
from vibe_llms.providers.openai_responses.controls import OPENAI
from vibe_llms.providers.openai_responses.decoder import produce_decoder
from vibe_llms.providers.openai_responses.errors import explain_answer
from vibe_llms.providers.openai_responses.tokenizer import OpenAIResponsesTokenizer
from vibe_llms.providers.openai_service import OpenAIService
from vibe_llms.providers.remote import RemoteClient

if TYPE_CHECKING:
    from vibe_llms.providers.surveys import SurveyedModel


class OpenAIResponsesVendor(OpenAIService):
    """OpenAI's service, and those that answer like it."""

    protocol = PROTOCOL

    def nativize(
        self, request: Request, model: ModelDescriptor, *, streaming: bool
    ) -> Translation[JsonObject]:
        """Returns the body of the request. Raises RequestError."""
        return nativize_request(
            request, model.attributes, OPENAI, provider=model.provider, streaming=streaming
        )

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Returns the path of the method that answers."""
        return "/responses"

    def produce_decoder(self, model: ModelDescriptor, request: Request) -> Decoder:
        """Makes the decoder of one response."""
        return produce_decoder(model)

    def produce_error(
        self, body: JsonObject | str, model: str, *, status: int, headers: Mapping[str, str]
    ) -> ConverseError:
        """Says what an answer with the status of an error means."""
        return explain_answer(body, self.context.name, model, status, headers)

    def produce_tokenizer(self, client: RemoteClient) -> OpenAIResponsesTokenizer:
        """Makes what counts tokens: texts here, requests there."""
        return OpenAIResponsesTokenizer(client, self)

    async def survey(self, client: RemoteClient) -> Sequence[SurveyedModel]:
        """Asks for the names of the models; of what they can do the list says nothing.

        Raises:
            ConverseError: It cannot be asked.
        """
        from vibe_llms.providers.surveys import SurveyedModel

        page: Any = await client.request_json("GET", "/models")
        models = page.get("data") if isinstance(page, Mapping) else None
        return [SurveyedModel(name=str(each["id"])) for each in models or () if each.get("id")]
