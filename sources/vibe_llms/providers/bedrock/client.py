"""The service of ``bedrock``: its addresses and requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from vibe_llms.dialects import bedrock
from vibe_llms.dialects.bedrock.quirks import Quirks
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.models.genera import Genus
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.aws_credentials import (
    KEY_VARIABLE,
    REGION_VARIABLES,
    AwsCredentials,
    find_region,
    survey_aws_requirements,
)
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.requirements import (
    Requirement,
    RequirementKind,
    find_variable,
    refuse_requirements,
)
from vibe_llms.providers.settings import RemoteSettings
from vibe_llms.providers.vendors import Vendor, VendorClient
from vibe_llms.tables.kinds import TEXT, WORD, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vibe_llms.dialects.calls import CallFormat
    from vibe_llms.providers.surveys import SurveyedModel

_COUNTED_FIELDS = ("messages", "system", "toolConfig", "additionalModelRequestFields")
"""Parameters that affect the token count of a request; counting rejects others."""


class BedrockVendor(Vendor):
    """Converse and ConverseStream of Amazon Bedrock."""

    dialect = bedrock
    base_url_variables = ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME",)
    key_variables = (KEY_VARIABLE,)
    framing = "aws"
    request_id_headers = ("x-amzn-requestid",)
    count_field = "inputTokens"
    further_settings: ClassVar[Mapping[str, Kind]] = {"profile": TEXT, "region": WORD}
    quirks = Quirks()

    def __init__(self, context: ProviderContext) -> None:
        super().__init__(context)
        profile = str(self.settings.values.get("profile", ""))
        self.cloud_credentials = AwsCredentials(context.name, "bedrock", self._region, profile)

    def read_settings(self) -> RemoteSettings:
        """Check the user's settings. Raises ConfigurationError."""
        settings = self.context.settings
        profile = settings.get("profile", "")
        region = settings.get("region") or find_region(profile if isinstance(profile, str) else "")
        self._region = str(region)
        # Without a region nothing is sent.
        domain = "amazonaws.com.cn" if self._region.startswith("cn-") else "amazonaws.com"
        self.base_url = f"https://bedrock-runtime.{self._region or 'us-east-1'}.{domain}"
        return super().read_settings()

    def survey_requirements(self) -> tuple[Requirement, ...]:
        """Return the missing requirements: a region, and a key or the package for signatures."""
        requirements = super().survey_requirements()
        others = [each for each in requirements if each.kind is not RequirementKind.KEY]
        needs_signature = len(others) < len(requirements)
        is_addressed = self._region or ("base_url" in self.settings.values and not needs_signature)
        region = (
            () if is_addressed else find_variable(self.context.name, REGION_VARIABLES[:1], "region")
        )
        return (*others, *region, *(survey_aws_requirements() if needs_signature else ()))

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Return the path of the model's operation."""
        return self._compose_operation(model, "converse-stream" if streaming else "converse")

    def _compose_operation(self, model: ModelDescriptor, operation: str) -> str:
        if not self._region and "base_url" not in self.settings.values:
            refuse_requirements(self.context.name, self.survey_requirements())
        # The name may be an address (ARN) with slashes.
        return f"/model/{quote(model.name, safe='')}/{operation}"

    def find_call_format(self, genus: Genus, model: ModelDescriptor) -> CallFormat[Any, Any] | None:
        """Return the format of an embedder's calls."""
        if genus is not Genus.EMBEDDER:
            return None
        from vibe_llms.dialects.embeddings.bedrock import find_call_format

        return find_call_format(model, self._compose_operation(model, "invoke"))

    def compose_count(self, native: JsonObject, model: ModelDescriptor) -> tuple[str, JsonObject]:
        """Return the path and body of the call that counts a request's tokens."""
        counted = {name: native[name] for name in _COUNTED_FIELDS if name in native}
        return self._compose_operation(model, "count-tokens"), {"input": {"converse": counted}}

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """Return nothing: the list of models is at another service, with other permissions."""
        return ()
