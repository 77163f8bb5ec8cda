"""The service of ``google``: its addresses, requests and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlencode

import attrs

from vibe_llms.dialects import generate_content
from vibe_llms.dialects.generate_content.quirks import Quirks
from vibe_llms.exceptions import ConverseError, UnknownNameError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.secrets import Secret
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.genera import Genus
from vibe_llms.providers.interfaces import ModelDescriptor, Processors, TokenCount
from vibe_llms.providers.tokenizers import VendorTokenizer
from vibe_llms.providers.vendors import Vendor, VendorClient
from vibe_llms.tables.kinds import WORD, Choice, Kind

if TYPE_CHECKING:
    from vibe_llms.dialects.calls import CallFormat
    from vibe_llms.providers.batches import VendorBatches
    from vibe_llms.providers.google.cached_contents import CachedContents
    from vibe_llms.providers.surveys import CapabilityWord, SurveyedModel
    from vibe_llms.providers.uploads import VendorFiles

_PAGE = 1000


class GoogleVendor(Vendor):
    """The Gemini API.

    Its version is ``v1beta``: ``v1`` lacks preview features, such as JSON Schemas of arguments.
    """

    dialect = generate_content
    base_url = "https://generativelanguage.googleapis.com"
    base_url_variables = ("GOOGLE_GEMINI_BASE_URL",)
    versions = ("v1", "v1alpha", "v1beta", "v1beta1")
    key_variables: tuple[str, ...] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    count_field = "totalTokens"
    further_settings: ClassVar[Mapping[str, Kind]] = {
        "api_version": WORD,
        "protocol": Choice(("generate_content", "interactions")),
    }
    version = "v1beta"
    upload_bytes = 10_000_000  # a request may have 20 MB
    # Thoughts are only sent on request, and inline data cannot have a name.
    quirks: Any = Quirks(shows_thoughts=True, takes_display_names=False)
    caches_prefixes = True
    _cached_contents: CachedContents | None = None

    async def cache_prefix(
        self,
        request: Request,
        translation: Translation[JsonObject],
        client: VendorClient,
        model: ModelDescriptor,
    ) -> Translation[JsonObject]:
        """Use the cached content of the prefix behind the first hint that is long enough.

        If Google does not create it, the whole request is sent, which is a loss of form.
        """
        from vibe_llms.dialects.cache_hints import list_hints
        from vibe_llms.dialects.generate_content.calling.caching import split_cached_prefix

        prefix, losses = split_cached_prefix(
            request, translation.value, model.attributes, self.quirks, model.provider
        )
        paths = [path for path, _ in list_hints(request.canisters)]
        other_losses = [loss for loss in translation.losses if loss.path not in paths]
        if prefix is None:
            return Translation(translation.value, (*other_losses, *losses))
        try:
            content = await self.cached_prefixes.access(
                client, self.compose_resource(model), prefix
            )
        except ConverseError as error:
            reason = f"sent without the cache hints, as the vendor refuses them: {error.detail}"
            loss = Loss(kind=LossKind.COERCED, path=paths[0], reason=reason)
            return Translation(translation.value, (*other_losses, *losses, loss))
        return Translation({**prefix.rest, "cachedContent": content}, (*other_losses, *losses))

    @property
    def cached_prefixes(self) -> CachedContents:
        """The names of the cached contents."""
        if self._cached_contents is None:
            from vibe_llms.providers.google.cached_contents import CachedContents

            self._cached_contents = CachedContents(self.compose_cache_path())
        return self._cached_contents

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Return the path of the method that answers."""
        return self.compose_generation(model, streaming=streaming)

    def compose_generation(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Return the path of ``generateContent``."""
        if streaming:
            # Without the query, a stream is one long JSON array.
            return f"{self.compose_method(model, 'streamGenerateContent')}?alt=sse"
        return self.compose_method(model, "generateContent")

    def compose_method(self, model: ModelDescriptor, method: str) -> str:
        """Return the path of one of the model's methods."""
        return f"{self.compose_root()}/{self.compose_resource(model)}:{method}"

    def compose_root(self) -> str:
        """Return the beginning of all paths."""
        return f"/{self.settings.values.get('api_version', self.version)}"

    def compose_cache_path(self) -> str:
        """Return the path of the cached contents."""
        return f"{self.compose_root()}/cachedContents"

    def compose_resource(self, model: ModelDescriptor) -> str:
        """Return the resource name of a model."""
        name = quote_name(model)
        return name if "/" in name else f"models/{name}"  # tuned models have another prefix

    def compose_count(self, native: JsonObject, model: ModelDescriptor) -> tuple[str, JsonObject]:
        """Return the path and body of the call that counts a request, including its tools."""
        request = {"model": self.compose_resource(model), **native}
        return self.compose_method(model, "countTokens"), {"generateContentRequest": request}

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Return the key."""
        return {} if key is None else {"x-goog-api-key": key}

    def produce_processors(self, client: VendorClient) -> Processors:
        """Make the dialect's processors, with a tokenizer that also counts texts."""
        processors = super().produce_processors(client)
        return attrs.evolve(
            processors, tokenizer=_GoogleTokenizer(client, self.compose_count, self.count_field)
        )

    def produce_files(self, client: VendorClient) -> VendorFiles | None:
        """Return the files of the Files API."""
        from vibe_llms.providers.google.files import GoogleFiles

        return GoogleFiles(client, self.compose_root())

    def produce_batches(self, client: VendorClient, path: str) -> VendorBatches | None:
        """Return the batches of answers, or of vectors."""
        from vibe_llms.providers.google.batches import METHODS, InlineBatches

        if path.rpartition(":")[2] not in METHODS:
            return None
        return InlineBatches(client, path, self.compose_root())

    def find_call_format(self, genus: Genus, model: ModelDescriptor) -> CallFormat[Any, Any] | None:
        """Return the format of ``batchEmbedContents``, or of ``generateContent`` for media."""
        if genus is Genus.EMBEDDER:
            return self.find_embedding_format(model)
        if genus is Genus.ILLUSTRATOR:
            from vibe_llms.dialects.illustrations.google import produce_call_format

            return produce_call_format(self.compose_generation(model, streaming=False))
        if genus is Genus.SPEAKER:
            from vibe_llms.dialects.speeches import google as speeches

            streaming = self.compose_generation(model, streaming=True)
            return speeches.produce_call_format(
                self.compose_generation(model, streaming=False), streaming
            )
        return None

    def find_embedding_format(self, model: ModelDescriptor) -> CallFormat[Any, Any]:
        """Return the call format of ``batchEmbedContents``."""
        from vibe_llms.dialects.embeddings.google import produce_call_format

        path = self.compose_method(model, "batchEmbedContents")
        return produce_call_format(path, self.compose_resource(model))

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """List the models that can answer. Raises ConverseError."""
        models: list[SurveyedModel] = []
        token = ""
        while True:
            query = urlencode({"pageSize": _PAGE} | ({"pageToken": token} if token else {}))
            page: Any = await client.request_json("GET", f"{self.compose_root()}/models?{query}")
            models += [_read_model(each) for each in page.get("models", ()) if _can_answer(each)]
            before, token = token, page.get("nextPageToken") or ""
            if not token or token == before:  # an unchanged token would request one page forever
                return models


def quote_name(model: ModelDescriptor) -> str:
    """Return a model's name quoted for a path; reject one that leads to another path."""
    if not {".", ".."}.isdisjoint(model.name.split("/")):
        raise UnknownNameError(kind="model", name=model.name)
    return quote(model.name, safe="/@:-._~")


class _GoogleTokenizer(VendorTokenizer):
    """Tokenizer that also lets the vendor count texts, which is free."""

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Count the tokens of a text as a user's message. Raises ConverseError."""
        if not text:
            return TokenCount(tokens=0)
        path, _ = self._compose({}, model)
        return await self._request_count(
            path, {"contents": [{"role": "user", "parts": [{"text": text}]}]}, model
        )


def _can_answer(model: Mapping[str, Any]) -> bool:
    methods = model.get("supportedGenerationMethods", ("generateContent",))
    return "generateContent" in methods


def _read_model(model: Mapping[str, Any]) -> SurveyedModel:
    from vibe_llms.providers.surveys import SurveyedModel

    capabilities: dict[str, CapabilityWord] = {}
    if isinstance(model.get("thinking"), bool):
        capabilities["supports_reasoning"] = "yes" if model["thinking"] else "no"
    return SurveyedModel(
        name=str(model["name"]).removeprefix("models/"),
        title=model.get("displayName"),
        context_window_tokens=model.get("inputTokenLimit"),
        output_limit_tokens=model.get("outputTokenLimit"),
        capabilities=capabilities,
    )
