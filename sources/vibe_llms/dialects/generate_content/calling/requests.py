"""Whole requests: the body that is sent.

The body is the same streamed or not, and names no model: both are said by the path.
"""

from __future__ import annotations

from typing import Any

from vibe_llms.dialects import generate_content as dialect
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.generate_content.calling.invocations import nativize_schema, restore_schema
from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.processors import Processors, nativize_parts, produce_usual
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.plain import JsonObject


def nativize_request(
    request: Request,
    attributes: ModelAttributes,
    quirks: Quirks,
    *,
    provider: str = "",
    streaming: bool = False,
    processors: Processors | None = None,
) -> Translation[JsonObject]:
    """Returns the body of a request, and what it could not carry.

    Args:
        provider: Whose request it is: what another one signed is withheld.
        streaming: Says the path, not the body.
        processors: Write the parts; by default those of the dialect.

    Raises:
        ControlError: The model has no such control, or the value is outside its domain.
        CapabilityError: The model is known not to take what a canister holds.
        RequestError: The bytes of a medium are not there.
    """
    del streaming
    model = ModelDescriptor(provider=provider, name=attributes.address.name, attributes=attributes)
    parts = nativize_parts(request, model, processors or produce_processors(quirks))
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    body: dict[str, Any] = {**parts.messages, **parts.invocations}
    body = merge(body, parts.controls)
    body = merge(body, nativize_schema(request.schema))
    body = merge(body, ledger.open(request.native, "request"))
    return Translation(restore_schema(body, request.schema), (*parts.losses, *ledger.losses))


def produce_processors(quirks: Quirks) -> Processors:
    """Makes those of a vendor with these quirks; tokens are estimated."""
    return produce_usual(dialect, quirks)
