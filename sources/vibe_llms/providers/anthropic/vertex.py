"""Claude on Vertex AI: the Messages API at the addresses of a Google Cloud project."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

import attrs
import msgspec

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.secrets import Secret
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.anthropic.client import AnthropicVendor
from vibe_llms.providers.google_credentials import (
    PROJECT_MARK,
    TOKEN_VARIABLE,
    GoogleCredentials,
    replace_key_requirement,
)
from vibe_llms.providers.requirements import Requirement, find_variable, refuse_requirements
from vibe_llms.providers.settings import RemoteSettings
from vibe_llms.providers.vendors import Vendor, VendorClient
from vibe_llms.tables.kinds import TEXT, WORD, Choice, Kind
from vibe_llms.wire.exchanges import WireRequest

if TYPE_CHECKING:
    from vibe_llms.providers.surveys import SurveyedModel

REGION_VARIABLE: Final = "CLOUD_ML_REGION"
PROJECT_VARIABLES: Final = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")
"""Environment variables that the official package reads."""

_HOSTS: Final = {
    "eu": "aiplatform.eu.rep.googleapis.com",
    "global": "aiplatform.googleapis.com",
    "us": "aiplatform.us.rep.googleapis.com",
}
"""Hosts of the regions that are several. Source: the PyPI distribution anthropic 2.14.0."""

_ANSWER_PATH: Final = "/v1/messages"
_COUNT_PATH: Final = "/v1/messages/count_tokens"


class AnthropicOnVertex(AnthropicVendor):
    """The Messages API of Vertex AI, reached without the official package."""

    base_url_variables = ("ANTHROPIC_VERTEX_BASE_URL",)
    key_variables = (TOKEN_VARIABLE,)
    upload_bytes = 0
    further_settings: ClassVar[Mapping[str, Kind]] = {
        "cloud": Choice(("vertex",)),
        "project": WORD,
        "region": WORD,
        "version": TEXT,
    }

    def __init__(self, context: ProviderContext) -> None:
        super().__init__(context)
        self.cloud_credentials = _VertexCredentials(self)

    def read_settings(self) -> RemoteSettings:
        """Check the user's settings. Raises ConfigurationError."""
        region = self.region or "global"
        host = _HOSTS.get(region, f"{region}-aiplatform.googleapis.com")
        self.base_url = f"https://{host}"
        return Vendor.read_settings(self)

    @property
    def region(self) -> str:
        """The region; empty if none is set."""
        return str(self.context.settings.get("region") or os.environ.get(REGION_VARIABLE, ""))

    @property
    def project(self) -> str:
        """The project; empty if none is set."""
        variables = (os.environ.get(name, "") for name in PROJECT_VARIABLES)
        return str(self.context.settings.get("project") or next(filter(None, variables), ""))

    def survey_requirements(self) -> tuple[Requirement, ...]:
        """Return the missing requirements: a region, and credentials or a token and a project."""
        name = self.context.name
        region = () if self.region else find_variable(name, (REGION_VARIABLE,), "region")
        requirements = replace_key_requirement(
            name, Vendor.survey_requirements(self), self.project, PROJECT_VARIABLES[1]
        )
        return (*region, *requirements)

    def require_region(self) -> str:
        """Return the region. Raises ConfigurationError if none is set."""
        if not self.region:
            refuse_requirements(self.context.name, self.survey_requirements())
        return self.region

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """Return nothing: there is no list of the models that a project can use."""
        return ()

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Return the version, beta features, and an access token instead of a key."""
        return {
            **super().compose_headers(None, native),
            **Vendor.compose_headers(self, key, native),
        }


class _VertexCredentials(GoogleCredentials):
    """Addresses requests to the resource of the model, and authorizes them.

    In the bodies that Vertex AI accepts, the version is a field, and the model is not: it is a part
    of the path. The bytes that the gateway passes through are changed in the same way.
    """

    def __init__(self, vendor: AnthropicOnVertex) -> None:
        super().__init__(vendor.context.name, lambda: vendor.settings)
        self._vendor = vendor

    async def authorize(self, request: WireRequest) -> WireRequest:
        """Address a request, and add a token. Raises RequestError, ConverseError."""
        return await super().authorize(self._address(request))

    def _address(self, request: WireRequest) -> WireRequest:
        root = self._vendor.settings.base_url
        path, _, query = request.url.removeprefix(root).partition("?")
        if path not in (_ANSWER_PATH, _COUNT_PATH):
            raise RequestError(
                path="url",
                detail=f"Vertex AI has no counterpart of {path}.",
                remedy=f"Use {_ANSWER_PATH} or {_COUNT_PATH}.",
                stage=Stage.SEND,
            )
        body = _read_body(request.body)
        headers = {name.lower(): value for name, value in request.headers.items()}
        version = headers.pop("anthropic-version", None)
        if version is not None:
            body.setdefault("anthropic_version", str(version))
        model, method = "count-tokens", "rawPredict"
        if path == _ANSWER_PATH:
            model = quote(str(body.pop("model", "")), safe="@.-_~")
            method = "streamRawPredict" if body.get("stream") is True else method
        resource = f"publishers/anthropic/models/{model}:{method}"
        location = f"locations/{quote(self._vendor.require_region())}"
        project = quote(self._vendor.project) or PROJECT_MARK
        url = f"{root}/v1/projects/{project}/{location}/{resource}"
        return attrs.evolve(
            request,
            url=f"{url}?{query}" if query else url,
            headers=headers,
            body=msgspec.json.encode(body),
        )


def _read_body(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except UNREADABLE as error:
        raise RequestError(
            path="body",
            detail="The body of the request is not a JSON object.",
            stage=Stage.SEND,
        ) from error
