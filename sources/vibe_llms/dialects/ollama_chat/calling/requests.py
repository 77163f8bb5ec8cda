"""A whole request: what a server is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects import ollama_chat as dialect
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.ollama_chat.calling.invocations import nativize_schema
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.ollama_chat.tables import UNSAID_LEVEL
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
    """Returns the whole body. A continuation is a last message of the assistant.

    Args:
        attributes: Of the model that is asked; its name is the body's.
        provider: Whose request it is; extras of other providers stay behind.
        processors: Write the parts; by default those of the dialect.

    Raises:
        RequestError: The request cannot be said, or a control or a medium does not fit.
    """
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    extras = ledger.open(request.native, "request")
    model = ModelDescriptor(provider=provider, name=attributes.address.name, attributes=attributes)
    parts = nativize_parts(request, model, processors or produce_processors(quirks))
    body: dict[str, Any] = {
        "model": attributes.address.name,
        **parts.messages,
        "stream": streaming,
        **parts.controls,
        **parts.invocations,
        **nativize_schema(request.schema),
    }
    _add_extras(body, extras)
    return Translation(body, (*parts.losses, *ledger.losses))


def _add_extras(body: dict[str, Any], extras: dict[str, Any]) -> None:
    """Adds what has no common word; where it only refines a common one, that one must hold."""
    if extras.get("think") is True and body.get("think") == UNSAID_LEVEL:
        body["think"] = True
    options = extras.pop("options", None)
    if isinstance(options, Mapping):
        body["options"] = {**options, **body.get("options", {})}
    elif options is not None:
        body.setdefault("options", options)
    for name, value in extras.items():
        body.setdefault(name, value)


def produce_processors(quirks: Quirks) -> Processors:
    """Makes those of a vendor with these quirks; tokens are estimated."""
    return produce_usual(dialect, quirks)
