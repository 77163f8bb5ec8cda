"""The service of ``openai_responses``: its address, requests and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from vibe_llms.dialects import responses
from vibe_llms.dialects.responses.calling.background import BACKGROUND
from vibe_llms.dialects.responses.quirks import Quirks
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.providers.completions import list_models
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.openai_service import SIBLINGS, OpenAIService
from vibe_llms.providers.vendor_compaction import compact_responses
from vibe_llms.providers.vendors import VendorClient
from vibe_llms.tables.kinds import BOOLEAN, Kind

if TYPE_CHECKING:
    from vibe_llms.providers.surveys import SurveyedModel


_COUNTED: Final = (
    "conversation",
    "input",
    "instructions",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "reasoning",
    "text",
    "tool_choice",
    "tools",
    "truncation",
)
"""Parameters that affect the count and that counting accepts (``input_token_count_params`` of the
package openai).
"""


class OpenAIResponsesVendor(OpenAIService):
    """OpenAI's service, and other services with this interface."""

    dialect = responses
    count_field = "input_tokens"
    background = BACKGROUND
    file_types = ("file", "image")
    # Instructions have the role that newer models use.
    quirks = Quirks(supervisor_role="developer", siblings=SIBLINGS)
    compacts = True
    further_settings: ClassVar[Mapping[str, Kind]] = {
        **OpenAIService.further_settings,
        "keeps_responses": BOOLEAN,
    }

    @property
    def keeps_responses(self) -> bool:
        """True if responses are stored and can be retrieved; by default only at OpenAI."""
        setting = self.settings.values.get("keeps_responses")
        return self._is_at_openai() if setting is None else bool(setting)

    def request_compaction(self, body: JsonObject, threshold: int | None) -> JsonObject:
        """Return a body with the field that compacts the conversation."""
        return compact_responses(body, threshold)

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Return the path of the method that answers."""
        return "/responses"

    def compose_count(self, native: JsonObject, model: ModelDescriptor) -> tuple[str, JsonObject]:
        """Return the path and body of the call that counts a request's tokens."""
        return "/responses/input_tokens", {
            name: native[name] for name in _COUNTED if name in native
        }

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """List the models. Raises ConverseError."""
        return await list_models(client)
