"""Vertex AI: the same models at another address, with an access token for a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from vibe_llms.plain import JsonObject
from vibe_llms.providers.google.client import GoogleVendor, check_word
from vibe_llms.providers.google.controls import VERTEX
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.remote import RemoteClient
from vibe_llms.providers.settings import RemoteSettings, read_settings
from vibe_llms.secrets import Secret

if TYPE_CHECKING:
    from vibe_llms.providers.surveys import SurveyedModel

GLOBAL: Final = "global"
"""The location that is none in particular."""


class VertexVendor(GoogleVendor):
    """Models of a project on Google's cloud."""

    key_variables = ()
    further_settings: ClassVar[Mapping[str, Any]] = {
        "api_version": check_word,
        "location": check_word,
        "project": check_word,
    }
    version = "v1beta1"
    quirks = VERTEX

    def read_settings(self) -> RemoteSettings:
        """Checks the user's settings. Raises ConfigurationError."""
        location = str(self.context.settings.get("location", GLOBAL))
        region = "" if location == GLOBAL else f"{location}-"
        base_url = f"https://{region}aiplatform.googleapis.com"
        return read_settings(self.context, base_url, self.further_settings)

    def compose_resource(self, model: ModelDescriptor) -> str:
        """Returns the name of a model as a resource of the project."""
        values = self.settings.values
        name = quote(model.name, safe="/@:-._~")
        if "/" not in name:
            name = f"publishers/google/models/{name}"
        location = quote(str(values.get("location", GLOBAL)))
        return f"projects/{quote(str(values['project']))}/locations/{location}/{name}"

    def compose_count(self, native: JsonObject, model: ModelDescriptor) -> JsonObject:
        """Returns what is asked in order to count a request."""
        counted = ("contents", "systemInstruction", "tools", "generationConfig")
        return {name: native[name] for name in counted if name in native}

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Returns the access token."""
        return {} if key is None else {"authorization": Secret(f"Bearer {key.reveal()}")}

    async def survey(self, client: RemoteClient) -> Sequence[SurveyedModel]:
        """There is no list of the models that a project can ask."""
        return ()
