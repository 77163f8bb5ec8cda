"""The service of ``cohere``: its addresses, key and models.

It converses by its interface for OpenAI's clients; embeddings and rankings use its own interface,
which also takes the purpose and the length of vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.dialects.call_quirks import CallQuirks, RankingQuirks
from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.models.genera import Genus
from vibe_llms.providers.completions import CompletionsVendor
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.surveys import CapabilityWord, SurveyedModel
from vibe_llms.tables.kinds import COUNT

if TYPE_CHECKING:
    from vibe_llms.dialects.calls import CallFormat
    from vibe_llms.providers.vendors import VendorClient

_MODELS: Final = "/v1/models?page_size=1000&endpoint=chat"


class CohereVendor(CompletionsVendor):
    """Cohere.

    Sources: https://docs.cohere.com/docs/compatibility-api and the PyPI distribution cohere 7.3.1,
    2026-11-29.
    """

    base_url = "https://api.cohere.ai"
    base_url_variables = ("CO_API_URL",)
    key_variables = ("COHERE_API_KEY", "CO_API_KEY")
    quirks = Quirks(
        fields={"max_tokens": "max_tokens"},
        supervisor_roles=("system",),
        takes_custom=False,
        takes_broken=False,
        takes_refusals=False,
        media=("image_url",),
    )

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Return the path of the interface for OpenAI's clients."""
        return "/compatibility/v1/chat/completions"

    @property
    def call_quirks(self) -> CallQuirks:
        """The quirks of rankings."""
        return CallQuirks(rankings=RankingQuirks(path="/v2/rerank"))

    def find_call_format(self, genus: Genus, model: ModelDescriptor) -> CallFormat[Any, Any] | None:
        """Return the format of Cohere's embeddings, or of rankings."""
        if genus is not Genus.EMBEDDER:
            return super().find_call_format(genus, model)
        from vibe_llms.dialects.embeddings.cohere import CALL_FORMAT

        return CALL_FORMAT

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """List the models that converse. Raises ConverseError."""
        answer: Any = await client.request_json("GET", _MODELS)
        listed = answer.get("models") if isinstance(answer, Mapping) else None
        entries = [each for each in listed or () if isinstance(each, Mapping)]
        return [_read_model(each) for each in entries if isinstance(each.get("name"), str)]


def _read_model(entry: Mapping[str, Any]) -> SurveyedModel:
    window: Any = entry.get("context_length")
    features = entry.get("features")
    capabilities: dict[str, CapabilityWord] = {}
    if isinstance(features, list):
        named = {"supports_images": "vision", "supports_invocations": "tools"}
        capabilities = {name: "yes" if word in features else "no" for name, word in named.items()}
    return SurveyedModel(
        name=entry["name"],
        context_window_tokens=int(window) if COUNT.is_valid(window) else None,
        capabilities=capabilities,
    )
