"""A whole response in the vendor's words: what a gateway answers."""

from __future__ import annotations

from typing import Any, Final

from vibe_llms.dialects.history import Placed
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.calls import produce_item_id
from vibe_llms.dialects.responses.messages import ItemsWriter
from vibe_llms.dialects.responses.parts import PartsWriter
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.responses.residue import merge
from vibe_llms.dialects.responses.usage import nativize_usage
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Response
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.genera import Genus
from vibe_llms.plain import JsonObject

_REASONS: Final = {
    StopReason.LIMIT: "max_output_tokens",
    StopReason.OVERFLOW: "max_output_tokens",
    StopReason.FILTERED: "content_filter",
}


def nativize_response(response: Response) -> Translation[JsonObject]:
    """Returns the body of a response, also of one that another vendor gave."""
    metadata = response.metadata
    origin = metadata.origin
    ledger = Ledger(protocol=PROTOCOL)
    parts = PartsWriter(_produce_attributes(), Quirks(), ledger)
    writer = ItemsWriter(parts=parts, is_answer=True)
    writer.write(
        Placed(canister, f"canisters[{index}]") for index, canister in enumerate(response.canisters)
    )
    identity = response.canisters[0].id if response.canisters else response.request.digest()
    native: dict[str, Any] = {
        "id": origin.response_id or produce_item_id("resp", identity),
        "object": "response",
        "model": origin.model,
        "error": None,
        "output": [each.item for each in writer.written],
        **_compose_status(response),
    }
    if origin.usage is not None:
        verbatim = origin.protocol == PROTOCOL
        native["usage"] = nativize_usage(origin.usage, verbatim=verbatim)
    residue = ledger.open(metadata.native, "native")
    if "status" in residue:
        del native["incomplete_details"]  # the vendor's own stand in the residue as well
    return Translation(merge(native, residue), ledger.losses)


def _compose_status(response: Response) -> dict[str, Any]:
    origin = response.metadata.origin
    reason = _REASONS.get(origin.stop_reason)
    word = origin.native_stop_reason
    if origin.protocol == PROTOCOL and word is not None:
        reason = None if word == "completed" else word
    if reason is None:
        return {"status": "completed", "incomplete_details": None}
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


def _produce_attributes() -> ModelAttributes:
    """Returns the attributes of a client, of which nothing is known that it would not take."""
    address = ModelAddress("client", "client")
    return ModelAttributes(address=address, genus=Genus.CONVERSER, controls=(), traced=())
