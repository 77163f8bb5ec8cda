"""The service of ``openai_responses``: where it is, how it is asked, and which models it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from vibe_llms.dialects.responses import PROTOCOL, Decoder, nativize_request
from vibe_llms.exceptions import ConfigurationError, ConverseError, DependencyError, Finding
from vibe_llms.messages.requests import Request
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import ModelDescriptor, Translation
from vibe_llms.providers.openai_responses.controls import OPENAI
from vibe_llms.providers.openai_responses.decoder import produce_decoder
from vibe_llms.providers.openai_responses.errors import explain_answer
from vibe_llms.providers.openai_responses.tokenizer import OpenAIResponsesTokenizer
from vibe_llms.providers.remote import RemoteClient, Vendor
from vibe_llms.secrets import Secret

if TYPE_CHECKING:
    from vibe_llms.providers.surveys import SurveyedModel


def check_text(value: Any) -> str | None:
    """Says what a setting must be that goes into a header or an address."""
    return None if isinstance(value, str) and value.strip() else "a text"


class OpenAIResponsesVendor(Vendor):
    """OpenAI's service, and those that answer like it."""

    protocol = PROTOCOL
    base_url = "https://api.openai.com/v1"
    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    request_id_headers: ClassVar[tuple[str, ...]] = ("x-request-id", "apim-request-id")
    further_settings: ClassVar[Mapping[str, Any]] = {
        "azure_api_version": check_text,
        "azure_endpoint": check_text,
        "organization": check_text,
        "project": check_text,
    }

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

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Returns the key, and on whose behalf it is used."""
        headers: dict[str, str | Secret] = {}
        if key is not None:
            headers["authorization"] = Secret(f"Bearer {key.reveal()}")
        for name in ("organization", "project"):
            if name in self.settings.values:
                headers[f"openai-{name}"] = str(self.settings.values[name])
        return headers

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

    def produce_sdk_client(self, key: Secret | None) -> Any:
        """Makes the official library's client, for Azure where an endpoint is set.

        Without a key the library looks for one, and for the rest of its settings, by itself.

        Raises:
            ConfigurationError: The library refuses the settings.
            DependencyError: The package openai is not installed.
        """
        try:
            import openai
        except ImportError as error:
            raise DependencyError(
                package="openai",
                detail="The transport 'sdk' needs the package openai, which is not installed.",
                remedy='Install it: pip install "vibe-llms[openai]"',
            ) from error
        values = self.settings.values
        arguments: dict[str, Any] = {
            "api_key": None if key is None else key.reveal(),
            "organization": values.get("organization"),
            "project": values.get("project"),
            "max_retries": 0,
        }
        try:
            if "azure_endpoint" in values:
                arguments["azure_endpoint"] = values["azure_endpoint"]
                arguments["api_version"] = values.get("azure_api_version")
                return openai.AsyncAzureOpenAI(**arguments)
            return openai.AsyncOpenAI(base_url=self.settings.base_url, **arguments)
        except (openai.OpenAIError, ValueError) as error:
            message = f"The package openai makes no client of these settings: {error}"
            finding = Finding(place=f"providers.{self.context.name}", message=message)
            raise ConfigurationError(findings=(finding,)) from error
