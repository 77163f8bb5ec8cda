"""The processors of this dialect: each part of a request, written and read by itself."""

from __future__ import annotations

from vibe_llms.dialects import chat_completions as dialect
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.processors import Processors, produce_usual
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.plain import JsonObject


def produce_processors(quirks: Quirks) -> Processors:
    """Makes those of a vendor with these quirks; tokens are estimated."""

    def write_controls(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        spelt = Ledger(protocol=PROTOCOL).open(request.native, "request").get("$spelt")
        return dialect.nativize_controls(request.controls, model.attributes, quirks, spelt)

    return produce_usual(dialect, quirks, controls=write_controls)
