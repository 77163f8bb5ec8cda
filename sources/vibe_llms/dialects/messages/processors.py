"""The processors of this dialect: each part of a request, written and read by itself."""

from __future__ import annotations

from vibe_llms.dialects import messages as dialect
from vibe_llms.dialects.messages.quirks import Quirks
from vibe_llms.dialects.processors import Processors, produce_usual
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.plain import JsonObject


def produce_processors(quirks: Quirks) -> Processors:
    """Makes those of a vendor with these quirks; tokens are estimated."""

    def write_messages(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        return dialect.nativize_canisters(
            request.canisters,
            model.attributes,
            quirks,
            provider=model.provider,
            continuation=request.continuation,
        )

    return produce_usual(dialect, quirks, messages=write_messages)
