"""Shared parts of vendors that use the Chat Completions protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vibe_llms.dialects import chat_completions
from vibe_llms.dialects.call_quirks import CallQuirks, CompletionQuirks
from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.models.genera import Genus
from vibe_llms.providers.common_formats import produce_common_format
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.vendors import Vendor, VendorClient
from vibe_llms.tables.kinds import COUNT

if TYPE_CHECKING:
    from vibe_llms.dialects.calls import CallFormat
    from vibe_llms.providers.surveys import CapabilityWord, SurveyedModel


class CompletionsVendor(Vendor):
    """A service with the Chat Completions protocol."""

    dialect = chat_completions
    quirks: Quirks = Quirks()

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Return the path after the base URL, which ends with the version."""
        return "/chat/completions"

    def find_call_format(self, genus: Genus, model: ModelDescriptor) -> CallFormat[Any, Any] | None:
        """Return the common format of a genus with the service's quirks.

        Returns:
            The format; ``None`` if the service does not offer the genus.
        """
        return produce_common_format(genus, self.call_quirks, model.name)

    def find_completions(self, model: ModelDescriptor) -> CompletionQuirks | None:
        """Return the quirks of the service's completions of prompts; ``None`` if it has none."""
        return self.call_quirks.completions

    @property
    def call_quirks(self) -> CallQuirks:
        """The quirks of the service's calls, by genus; a genus without quirks is not offered."""
        return CallQuirks()

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """List the models. Raises ConverseError."""
        return await list_models(client)


async def list_models(client: VendorClient) -> Sequence[SurveyedModel]:
    """List the models of a service with OpenAI's interface. Raises ConverseError."""
    answer: Any = await client.request_json("GET", "/models")
    listed = answer.get("data") if isinstance(answer, Mapping) else answer
    entries = listed if isinstance(listed, list) else ()
    models = [entry for entry in entries if isinstance(entry, Mapping) and entry.get("id")]
    return [read_model(entry) for entry in models]


def read_model(entry: Mapping[str, Any]) -> SurveyedModel:
    """Read an entry of a list of models, whose fields differ between hosts.

    The window is ``max_model_len`` at vLLM, ``context_window`` at Groq, ``context_length`` at
    OpenRouter, ``max_context_length`` at Mistral.
    """
    from vibe_llms.providers.surveys import SurveyedModel

    names = ("max_model_len", "context_window", "context_length", "max_context_length")
    meta = entry.get("meta")
    window = next((entry[name] for name in names if COUNT.is_valid(entry.get(name))), None)
    if window is None and isinstance(meta, Mapping) and COUNT.is_valid(meta.get("n_ctx")):
        window = meta["n_ctx"]  # llama.cpp
    limit = entry.get("max_completion_tokens")
    title = entry.get("name")
    return SurveyedModel(
        name=str(entry["id"]),
        title=title if isinstance(title, str) and title != entry["id"] else None,
        context_window_tokens=window,
        output_limit_tokens=limit if COUNT.is_valid(limit) else None,
        capabilities=_read_capabilities(entry),
    )


def _read_capabilities(entry: Mapping[str, Any]) -> dict[str, CapabilityWord]:
    """Read the capabilities that OpenRouter and Mistral report of a model."""
    capabilities: dict[str, CapabilityWord] = {}
    architecture = entry.get("architecture")
    if isinstance(architecture, Mapping) and isinstance(architecture.get("input_modalities"), list):
        modalities = architecture["input_modalities"]
        words = {"images": "image", "files": "file", "audio": "audio", "video": "video"}
        capabilities = {
            f"supports_{name}": "yes" if word in modalities else "no"
            for name, word in words.items()
        }
    reported = entry.get("capabilities")
    if isinstance(reported, Mapping):
        named = {"vision": "supports_images", "function_calling": "supports_invocations"}
        capabilities |= {
            name: "yes" if reported[word] else "no"
            for word, name in named.items()
            if word in reported
        }
    return capabilities
