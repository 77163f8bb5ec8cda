"""The service of ``openai_conversations``: its address and requests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import attrs

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.models.attributes import Capability
from vibe_llms.providers.completions import CompletionsVendor
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.openai_service import SIBLINGS, OpenAIService
from vibe_llms.tables.kinds import TEXT, Kind


class OpenAIVendor(OpenAIService, CompletionsVendor):
    """OpenAI, or Azure with OpenAI's package, by Chat Completions."""

    # The newest models also accept 64 characters.
    quirks = Quirks(siblings=SIBLINGS, id_pattern=r"[\s\S]{1,40}", server_tools="openai")
    further_settings: ClassVar[Mapping[str, Kind]] = {
        **OpenAIService.further_settings,
        "azure_deployment": TEXT,
    }

    def find_known_quirks(self, model: ModelDescriptor) -> Quirks:
        """Return the known quirks of a model: reasoning models reject the older ``max_tokens``."""
        reasons = model.attributes.access_capability("supports_reasoning") is Capability.YES
        quirks: Quirks = self._reasoning_quirks if reasons else self.known_quirks
        return quirks

    @cached_property
    def _reasoning_quirks(self) -> Quirks:
        quirks: Quirks = self.known_quirks
        return attrs.evolve(quirks, refused_fields=("max_tokens",))
