"""Vertex AI: Gemini models at another address, with Google's credentials or an access token."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from vibe_llms.dialects.generate_content.quirks import Quirks
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.secrets import Secret
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.google.client import GoogleVendor, quote_name
from vibe_llms.providers.google_credentials import (
    PROJECT_MARK,
    TOKEN_VARIABLE,
    GoogleCredentials,
    replace_key_requirement,
)
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.requirements import Requirement, refuse_requirements
from vibe_llms.providers.settings import RemoteSettings
from vibe_llms.providers.vendors import Vendor, VendorClient
from vibe_llms.tables.kinds import WORD, Choice, Kind

if TYPE_CHECKING:
    from vibe_llms.dialects.calls import CallFormat
    from vibe_llms.providers.batches import VendorBatches
    from vibe_llms.providers.surveys import SurveyedModel

GLOBAL: Final = "global"
"""The location without a region."""

PROJECT_VARIABLE: Final = "GOOGLE_CLOUD_PROJECT"
LOCATION_VARIABLE: Final = "GOOGLE_CLOUD_LOCATION"
"""Environment variables that the official package reads."""


class VertexVendor(GoogleVendor):
    """Models of a project on Google's cloud."""

    base_url_variables = ("GOOGLE_VERTEX_BASE_URL",)
    key_variables = (TOKEN_VARIABLE,)
    further_settings: ClassVar[Mapping[str, Kind]] = {
        "api_version": WORD,
        "cloud": Choice(("vertex",)),
        "location": WORD,
        "project": WORD,
    }
    version = "v1beta1"
    quirks = Quirks(shows_thoughts=True, server_tools="vertex")
    upload_bytes = 0  # it has no files, only buckets
    cloud_credentials: GoogleCredentials
    _found_project = ""

    def __init__(self, context: ProviderContext) -> None:
        super().__init__(context)
        self.cloud_credentials = GoogleCredentials(context.name, lambda: self.settings)

    def read_settings(self) -> RemoteSettings:
        """Check the user's settings. Raises ConfigurationError."""
        # The host name begins with the location, unless the location is ``global``.
        region = "" if self._access_location() == GLOBAL else f"{self._access_location()}-"
        self.base_url = f"https://{region}aiplatform.googleapis.com"
        return super().read_settings()

    def survey_requirements(self) -> tuple[Requirement, ...]:
        """Return the missing requirements: a token and a project, or credentials."""
        requirements = super().survey_requirements()
        return replace_key_requirement(
            self.context.name, requirements, self._access_project(), PROJECT_VARIABLE
        )

    def _access_project(self) -> str:
        return str(self.context.settings.get("project") or os.environ.get(PROJECT_VARIABLE, ""))

    def _access_location(self) -> str:
        location = self.context.settings.get("location") or os.environ.get(LOCATION_VARIABLE)
        return str(location or GLOBAL)

    def compose_resource(self, model: ModelDescriptor) -> str:
        """Return the resource name of a model of the project, by default of the credentials'."""
        name = quote_name(model)
        if "/" not in name:
            name = f"publishers/google/models/{name}"
        return f"{self._compose_location()}/{name}"

    def compose_cache_path(self) -> str:
        """Return the path of the project's cached contents."""
        return f"{self.compose_root()}/{self._compose_location()}/cachedContents"

    async def cache_prefix(
        self,
        request: Request,
        translation: Translation[JsonObject],
        client: VendorClient,
        model: ModelDescriptor,
    ) -> Translation[JsonObject]:
        """Use the cached content of a prefix, whose description names the project.

        See :meth:`.GoogleVendor.cache_prefix`.
        """
        if not self._access_project():
            self._found_project = await self.cloud_credentials.find_project()
        return await super().cache_prefix(request, translation, client, model)

    def _compose_location(self) -> str:
        project = quote(self._access_project() or self._found_project)
        if not project and not self.cloud_credentials.is_ready:
            refuse_requirements(self.context.name, self.survey_requirements())
        return f"projects/{project or PROJECT_MARK}/locations/{quote(self._access_location())}"

    def produce_batches(self, client: VendorClient, path: str) -> VendorBatches | None:
        """Return no batches: those of the cloud read and write its buckets."""
        return None

    def find_embedding_format(self, model: ModelDescriptor) -> CallFormat[Any, Any]:
        """Return the call format of ``embedContent``, or of ``predict`` for earlier models."""
        from vibe_llms.dialects.embeddings.vertex import produce_call_format, takes_contents

        method = "embedContent" if takes_contents(model.name) else "predict"
        return produce_call_format(model.name, self.compose_method(model, method))

    def compose_count(self, native: JsonObject, model: ModelDescriptor) -> tuple[str, JsonObject]:
        """Return the path and body of the call that counts a request's tokens."""
        counted = ("contents", "systemInstruction", "tools", "generationConfig")
        body = {name: native[name] for name in counted if name in native}
        return self.compose_method(model, "countTokens"), body

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Return the access token."""
        # An access token is sent as a bearer token, not in Google's header for keys.
        return Vendor.compose_headers(self, key, native)

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """Return nothing: there is no list of the models that a project can use."""
        return ()
