"""Whole requests: the body that is sent, and what a client's body means.

The body is the same streamed or not, and names no model: both are said by the path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.generate_content.controls import (
    normalize_controls,
    remove_controls,
)
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.invocations import (
    nativize_schema,
    normalize_invocables,
    normalize_schema,
    remove_choice,
    remove_schema,
    restore_schema,
)
from vibe_llms.dialects.generate_content.processors import produce_processors
from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.generate_content.reading import normalize_messages
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.processors import Processors, nativize_parts
from vibe_llms.dialects.residues import keep_native, merge, without
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request, is_answerable
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
        provider: Whose request it is: what another one sealed is withheld.
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


def normalize_request(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Request]:
    """Returns what a client asks with a body of this protocol.

    Args:
        attributes: Of the model that shall be asked: parameters which are no control of it stay
            native.

    Raises:
        RequestError: The request makes no sense.
    """
    try:
        fields = camelize(native)
        canisters = normalize_messages(fields)
        invocables = normalize_invocables(fields)
        controls = normalize_controls(fields, attributes)
        schema = normalize_schema(fields)
        descriptions, choice = invocables.value
        rest = without(fields, "contents", "systemInstruction", "tools")
        rest = remove_schema(remove_controls(rest, controls.value))
        if any(description.schema is not None for description in descriptions):
            rest = remove_choice(rest, choice)
        rest = {k: v for k, v in rest.items() if v is not None and (k != "generationConfig" or v)}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(
            path="request",
            detail=f"The request makes no sense: {error!r}.",
            remedy="Compare it with the reference of generateContent.",
        ) from error
    request = Request(
        canisters=canisters.value,
        controls=controls.value,
        invocables=descriptions,
        invocation_choice=choice,
        schema=schema.value,
        native=keep_native(PROTOCOL, rest),
        continuation=bool(canisters.value) and not is_answerable(canisters.value[-1]),
    )
    losses = (*canisters.losses, *invocables.losses, *controls.losses, *schema.losses)
    return Translation(request, losses)
