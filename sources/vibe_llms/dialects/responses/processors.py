"""The processors of this dialect: each part of a request, written and read by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects import responses as dialect
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.processors import Processors, produce_usual
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import Capability, ModelAttributes
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.plain import JsonObject

SEALED_REASONING: Final = "reasoning.encrypted_content"

HELD: Final = ("previous_response_id", "conversation")
"""What lets the vendor put what it holds before the input."""


def produce_processors(quirks: Quirks) -> Processors:
    """Makes those of a vendor with these quirks; tokens are estimated."""

    def write_messages(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        residue = Ledger(protocol=PROTOCOL).open(request.native, "request")
        defaults = compose_defaults(model.attributes, quirks, residue)
        store = residue.get("store", defaults.get("store"))
        return dialect.nativize_canisters(
            request.canisters,
            model.attributes,
            quirks,
            provider=model.provider,
            is_stored=store is not False,
            is_held=any(residue.get(name) for name in HELD),
        )

    return produce_usual(dialect, quirks, messages=write_messages)


def compose_defaults(
    attributes: ModelAttributes, quirks: Quirks, residue: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns what is asked for unless the request says otherwise: that nothing be stored.

    Args:
        residue: What the request says in the words of this protocol.
    """
    if not quirks.is_stateless or any(residue.get(name) for name in (*HELD, "background")):
        return {}
    if residue.get("store", False) is not False:
        return {}
    defaults: dict[str, Any] = {"store": False}
    # A model that does not reason refuses to seal; one that does hardly needs to be asked.
    if attributes.access_capability("supports_reasoning") is Capability.YES:
        defaults["include"] = [SEALED_REASONING]
    return defaults
